"""What the handlers of one server share."""

import time
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from . import ENGINE_VERSION
from .answers import Answer
from .errors import SERVER_ERROR, UNAVAILABLE, ApiError, engine_dead
from .flags import Settings
from .metrics import Metrics
from .runner import Generation, Runner
from .sequence import Sequence
from .sizing import Ledger
from .tokens import Prompt

MAX_STORED_RESPONSES = 1000
"""Answers of /v1/responses that are remembered, for previous_response_id; older ones are forgotten."""


@dataclass
class State:
    """One running server.

    Attributes:
        settings: the command line.
        ledger: size of the KV cache.
        metrics: what /metrics shows.
        runner: the engine.
        created: when it started, as a Unix time in seconds.
        stopping: whether SIGTERM has come: new requests are refused.
        responses: stored answers of /v1/responses with their conversations, oldest first.
    """

    settings: Settings
    ledger: Ledger
    metrics: Metrics
    runner: Runner
    created: int = field(default_factory=lambda: int(time.time()))
    stopping: bool = False
    responses: OrderedDict[str, Any] = field(default_factory=OrderedDict)

    @property
    def fingerprint(self) -> str:
        """The `system_fingerprint` of the answers: the release and a checksum of the configuration."""
        return f"vllm-{ENGINE_VERSION}-{zlib.crc32(repr(self.settings.shape).encode()):08x}"

    def generate(self, prompts: Items[Prompt], answers: Items[Answer], max_tokens: int) -> Generation:
        """Start generating one answer for each prompt.

        Raises:
            ApiError: 503 if the queue is full, 500 if the engine stops or is dead.
        """
        faults = self.runner.faults
        if self.runner.dead:
            raise engine_dead()
        if self.stopping or faults.stopping:
            raise ApiError(500, SERVER_ERROR, "cannot schedule new futures after shutdown")
        waiting, limit = len(self.runner.engine.waiting), self.settings.max_queued
        if faults.full or (limit is not None and waiting >= limit):
            self.metrics.queue_full.inc()
            raise ApiError(
                503,
                UNAVAILABLE,
                "The engine is currently busy and cannot accept new requests. "
                "Please try again later or on a different instance.",
            )
        sequences = [Sequence(prompt, answer.prompt) for prompt, answer in zip(prompts, answers, strict=True)]
        generation = Generation(self.runner, sequences, [answer.finish_reason for answer in answers], max_tokens)
        self.runner.submit(generation)
        return generation

    def details(self, generation: Generation) -> dict[str, int] | None:
        """The `prompt_tokens_details` of a usage, if the command line asked for them."""
        if not self.settings.cached_tokens_in_usage:
            return None
        return {"cached_tokens": generation.cached_tokens}


STATE = web.AppKey("state", State)


def request_id(request: web.Request, prefix: str) -> str:
    """The id of an answer: the client's own X-Request-Id, or a random one."""
    return f"{prefix}-{request.headers.get('X-Request-Id') or random_id()}"


def random_id() -> str:
    """16 hexadecimal digits."""
    return uuid.uuid4().hex[:16]


def stream_headers(request: web.Request, state: State) -> dict[str, str]:
    """Headers that the command line asks for."""
    if not state.settings.request_id_headers:
        return {}
    return {"X-Request-Id": request.headers.get("X-Request-Id") or uuid.uuid4().hex}
