"""Log lines for people: one line each, written to stderr at once. No request bodies, no keys."""

import os
from contextlib import suppress


def say(text: str) -> None:
    """Write one line. Bytes straight to the descriptor: the locale can't change them and lines never mix."""
    line = text.replace("\r", " ").replace("\n", " ")
    with suppress(OSError):
        os.write(2, f"proxy: {line}\n".encode("utf-8", "backslashreplace"))


def failover(failed: str, reason: str, following: str) -> None:
    """Write the one line a failover leaves; operators and the failover drill grep for exactly this form."""
    say(f"failover — {failed} unreachable ({reason}), retrying on {following}")
