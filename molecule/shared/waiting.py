"""Waiting for a check to hold."""

import time
from collections.abc import Callable


def wait_until(check: Callable[[], object], seconds: float, context: Callable[[], str]) -> None:
    """Repeat ``check`` until it raises no AssertionError; after ``seconds``, raise its last one with ``context()``."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            check()
            return
        except AssertionError as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"{error}\n{context()}") from error
        time.sleep(1)
