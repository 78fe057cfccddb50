"""Closed-loop load on pure engines in virtual time: hours of serving in seconds of computing."""

import heapq
import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass

from .engine import Engine, Step
from .sequence import Sequence
from .tokens import TOKEN_BYTES, Prompt


@dataclass
class Timing:
    """When one request arrived, got its first token and its last, in seconds of model time."""

    output_tokens: int
    arrived: float
    first_token: float = 0.0
    last_token: float = 0.0
    cached_tokens: int = 0

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.first_token - self.arrived

    @property
    def tpot(self) -> float:
        """Mean seconds per token after the first."""
        return (self.last_token - self.first_token) / max(1, self.output_tokens - 1)

    @property
    def latency(self) -> float:
        """Seconds to the last token."""
        return self.last_token - self.arrived


def random_tokens(count: int, seed: int) -> Prompt:
    """A prompt of its own, without a common prefix with others."""
    return Prompt(random.Random(seed).randbytes(count * TOKEN_BYTES))


def closed_loop(
    engines: list[Engine], requests: Iterable[Sequence], concurrency: int, spacing: float = 0.0
) -> list[Timing]:
    """Serve requests, `concurrency` at a time, dealt to the engines in turn; each one that ends starts the next.

    Args:
        engines: who serves.
        requests: what is asked.
        concurrency: how many are out at the same time.
        spacing: seconds between the first arrivals, for clients do not start at the very same moment.

    Returns:
        The timings, in the order of arrival.
    """
    todo = iter(requests)
    turn = itertools.cycle(range(len(engines)))
    timings: dict[Sequence, Timing] = {}
    # A heap of what comes next: the end of a step of an engine, or (without a step) an arrival.
    events: list[tuple[float, int, Step | None]] = [(spacing * i, -1 - i, None) for i in range(concurrency)]
    stepping: set[int] = set()

    def arrive(now: float) -> None:
        sequence = next(todo, None)
        if sequence is not None:
            timings[sequence] = Timing(sequence.output_tokens, now)
            engines[next(turn)].add(sequence)

    def finish(now: float, index: int, step: Step) -> None:
        stepping.discard(index)
        for part in engines[index].finish_step(step):
            timing = timings[part.sequence]
            if part.new_tokens and not timing.first_token:
                timing.first_token = now
            if part.finished:
                timing.last_token = now
                timing.cached_tokens = part.sequence.cached_tokens
                arrive(now)

    while events:
        now, index, step = heapq.heappop(events)
        if step is None:
            arrive(now)
        else:
            finish(now, index, step)
        for other, engine in enumerate(engines):
            while other not in stepping and not engine.idle:
                planned = engine.begin_step()
                if planned is not None:
                    stepping.add(other)
                    heapq.heappush(events, (now + planned.seconds, other, planned))
    return list(timings.values())
