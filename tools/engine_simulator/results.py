"""Waiting for whole answers, and the usage that OpenAI's forms report."""

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any

from .answers import Answer
from .runner import Generation


@dataclass(frozen=True)
class Result:
    """What was generated of an answer; `finish_reason` is "abort" if it was cut short."""

    text: str
    tokens: int
    finish_reason: str
    stop_text: str | None = None


async def collect(generation: Generation, answers: Items[Answer]) -> list[Result]:
    """Wait for all answers of a generation.

    Raises:
        EngineDead: the engine died.
    """
    results = [Result("", 0, "abort")] * len(answers)
    async for event in generation:
        if event.finish_reason is None:
            continue
        answer = answers[event.index]
        stop_text = None if event.finish_reason == "abort" else answer.stop_text
        results[event.index] = Result(answer.piece(0, event.end), event.end, event.finish_reason, stop_text)
    return results


def usage(prompt_tokens: int, output_tokens: int, details: dict[str, int] | None) -> dict[str, Any]:
    """A whole answer's `usage`."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + output_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": None,
    }


@dataclass(frozen=True)
class StreamUsage:
    """When a stream reports usage: `stream_options` of the request."""

    last: bool
    every: bool

    @classmethod
    def of(cls, body: dict[str, Any]) -> "StreamUsage":
        """Read a request."""
        options = body.get("stream_options") or {}
        last = bool(options.get("include_usage"))
        return cls(last, last and bool(options.get("continuous_usage_stats")))

    def chunk(self, prompt_tokens: int, output_tokens: int) -> dict[str, Any]:
        """What each chunk carries."""
        if not self.every:
            return {}
        counts = usage(prompt_tokens, output_tokens, None)
        del counts["prompt_tokens_details"]
        return {"usage": counts}

    def final(self, prompt_tokens: int, output_tokens: int, details: dict[str, int] | None) -> dict[str, Any]:
        """The usage of the chunk without choices that ends the stream."""
        counts = usage(prompt_tokens, output_tokens, details)
        del counts["completion_tokens_details"]
        if details is None:
            del counts["prompt_tokens_details"]
        return counts
