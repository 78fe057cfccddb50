"""What the simulated model says: text that depends on the prompt alone, the same on every replica. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .tokens import TOKEN_BYTES, Prompt, text_prompt

_WORDS = (" the", " one", " who", " and", " may", " ask", " for", " two", " old", " new", " big", " far")
"""One token each: what follows the first sentence."""
_LONGEST_UNASKED = 240
"""A model ends its answer by itself: here after at most this many tokens."""


@dataclass(frozen=True)
class Limits:
    """What a request says about the length of its answer: `stop` lists texts that end it and are left out."""

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An invented answer. `finish_reason` is "stop" or "length", `stop_text` the stop text that ended it."""

    text: str
    finish_reason: str
    stop_text: str | None = None

    @property
    def prompt(self) -> Prompt:
        """The answer's tokens."""
        return text_prompt(self.text)

    def piece(self, start: int, end: int) -> str:
        """The text of the tokens from `start` to before `end`."""
        return self.text[start * TOKEN_BYTES : end * TOKEN_BYTES]


def invent(prompt: Prompt, model: str, limits: Limits, choice: int = 0) -> Answer:
    """Invent the answer to a prompt.

    Args:
        prompt: what was asked.
        model: served model name, which the answer repeats.
        limits: how long the answer may be.
        choice: which of several answers to the same prompt.
    """
    draw = random.Random(f"{prompt.digest} {choice}")
    first = f"{model} (simulated) read {prompt.tokens} tokens, digest {prompt.digest}."
    first = first.encode("ascii", "replace").decode()
    first += " " * (-len(first) % TOKEN_BYTES)
    natural = max(limits.min_tokens, draw.randint(len(first) // TOKEN_BYTES, _LONGEST_UNASKED))
    length = limits.max_tokens if limits.ignore_eos else min(natural, limits.max_tokens)
    words = draw.choices(_WORDS, k=max(0, length - len(first) // TOKEN_BYTES))
    return _cut(
        (first + "".join(words))[: length * TOKEN_BYTES], "stop" if length == natural else "length", limits.stop
    )


def fixed(text: str, limits: Limits) -> Answer:
    """An answer whose text is given, cut to the limits."""
    whole = text_prompt(text).tokens <= limits.max_tokens
    return Answer(text[: limits.max_tokens * TOKEN_BYTES], "stop" if whole else "length")


def _cut(text: str, finish_reason: str, stops: Sequence[str]) -> Answer:
    found = [(text.find(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return Answer(text, finish_reason)
    at, stop = min(found)
    return Answer(text[:at], "stop", stop)
