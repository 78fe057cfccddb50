"""Ways to fail, which can be set at the start (--sim-faults) and while it runs (the fault route, signals)."""

from typing import Literal

import msgspec


class Faults(msgspec.Struct, forbid_unknown_fields=True):
    """What is wrong with the engine at present; all off by default.

    Attributes:
        die_after_tokens: output tokens the engine still makes before it dies; 0 dies at once.
        die_as: "engine" is vLLM's worker killed: an error to each request, /health 503 for 0.15 s, exit code 1;
            "process" is the API server killed: every connection just breaks.
        hang: no step is taken any more, while /health stays 200, as under SIGSTOP of the worker.
        full: new requests get the 503 of a queue that is full.
        stopping: new requests get the 500 of an engine that shuts down.
        silent_stop: SIGTERM leaves requests without an answer until the process is killed, as vLLM does now and then.
    """

    die_after_tokens: int | None = None
    die_as: Literal["engine", "process"] = "engine"
    hang: bool = False
    full: bool = False
    stopping: bool = False
    silent_stop: bool = False
