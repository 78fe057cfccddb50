"""One simulator for all tests that do not end it."""

from collections.abc import Iterator

import pytest
from sim_process import Simulator, running


@pytest.fixture(scope="session")
def simulator() -> Iterator[Simulator]:
    """A simulator shaped like the engine that the fixtures were recorded from."""
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def deployed() -> Iterator[Simulator]:
    """A simulator with the flags of the deployment, on a small shape."""
    flags = (
        "--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder", "--enable-prompt-tokens-details",
        "--speculative-config", '{"method": "dflash", "num_speculative_tokens": 7}', "--max-num-seqs", "4",
        "--enable-request-id-headers", "--sim-fault-route", "--sse-keep-alive-interval", "0.05",
    )  # fmt: skip
    with running(*flags) as started:
        yield started
