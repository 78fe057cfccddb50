"""From turns to the few figures that policies are compared by."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.harness.loops import Turn


@dataclass(frozen=True)
class Summary:
    """One policy on one workload, seconds of model time.

    Attributes:
        span: first request to last answer.
        first: median TTFT of first turns.
        warm: mean TTFT of later turns; it, not the median, shows one cold prefill in three.
        latency: median time of a whole turn.
        worst: the longest turn.
        cached: share of all prompt tokens of later turns that came from a cache.
        spread: requests a replica got, by name.
        failed: requests without a whole answer.
    """

    policy: str
    span: float
    first: float
    warm: float
    latency: float
    worst: float
    cached: float
    spread: dict[str, int]
    failed: int
    requests: int

    def headline(self, name: str) -> float:
        """The figure of that name."""
        return {"span": self.span, "warm": self.warm, "latency": self.latency}[name]


def summarize(policy: str, turns: Sequence[Turn], time_scale: float = 1.0) -> Summary:
    """Sum up turns whose times are `time_scale` wall seconds a second of model time; ValueError if none was whole."""
    whole = [turn for turn in turns if not turn.error]
    if not whole:
        raise ValueError(f"{policy}: no request got a whole answer: {turns[0].error if turns else 'none was sent'}")
    later = [turn for turn in whole if turn.number > 1] or whole
    spread: dict[str, int] = {}
    for turn in whole:
        spread[turn.replica] = spread.get(turn.replica, 0) + 1
    start = min(turn.started for turn in turns)
    prompt_tokens = sum(turn.prompt_tokens for turn in later)
    return Summary(
        policy=policy,
        span=(max(turn.started + turn.seconds for turn in whole) - start) / time_scale,
        first=median([turn.ttft for turn in whole if turn.number == 1] or [0.0]) / time_scale,
        warm=fmean(turn.ttft for turn in later) / time_scale,
        latency=median(turn.seconds for turn in whole) / time_scale,
        worst=max(turn.seconds for turn in whole) / time_scale,
        cached=sum(turn.cached_tokens or 0 for turn in later) / max(1, prompt_tokens),
        spread=dict(sorted(spread.items())),
        failed=len(turns) - len(whole),
        requests=len(turns),
    )
