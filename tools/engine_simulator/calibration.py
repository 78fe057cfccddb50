"""`python -m engine_simulator.calibration`: what was measured on the cards, beside what the model says.

Each figure comes from the pure engine in virtual time, started with the deployed command line, so the table takes a
few seconds. A row without a limit is shown for comparison; docs/simulator.md says why the model does not follow it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, median

from .deployment import DEPLOYED_FLAGS, build_engine
from .engine import Engine, tokens_per_step
from .flags import parse
from .sequence import Sequence
from .sizing import Ledger, size_kv_cache
from .virtual_time import Timing, closed_loop, random_tokens

TOLERANCE = 0.15
"""Greatest relative error of a figure that the model must reproduce."""
_RUNS = 20
"""Runs that a figure is the mean of; a single run of so few requests scatters widely."""
_ARRIVAL_SPACING = 0.005
"""Seconds between the first requests of a run."""
_CACHE_TEST_ANSWER = 48
"""Tokens of the answers to the 50k prompts. Not on record; it adds 1.1 s to the cold figure and the warm one alike."""


@dataclass(frozen=True)
class Row:
    """One figure, measured and simulated. `binding` says whether the two must agree within TOLERANCE."""

    name: str
    unit: str
    measured: float
    simulated: float
    binding: bool = True

    @property
    def ratio(self) -> float:
        """Simulated over measured."""
        return self.simulated / self.measured


def rows() -> Iterator[Row]:
    """Compute the table."""
    yield from _sweep(1, 42.8, 382, 23.6)
    yield from _sweep(4, 147.6, 471, 25.3)
    yield from _sweep(8, 230.8, 913, 28.8)
    yield from _long_prompt()
    yield from _cached_prompt()
    yield from _pool()
    for depth, measured in ((7, 3.86), (5, 3.41)):
        yield Row(f"tokens per step at depth {depth}, code", "tokens", measured, tokens_per_step(depth))


def render(table: list[Row]) -> str:
    """The table as text."""
    lines = [f"{'figure':<44} {'measured':>10} {'simulated':>10} {'ratio':>6}"]
    for row in table:
        note = "" if row.binding else "  (not modelled)"
        lines.append(
            f"{row.name + ', ' + row.unit:<44} {row.measured:>10,.6g} {row.simulated:>10,.6g} {row.ratio:>6.2f}{note}"
        )
    return "\n".join(lines)


def _engines(count: int) -> tuple[list[Engine], Ledger]:
    settings = parse(DEPLOYED_FLAGS, {})
    ledger = size_kv_cache(settings.shape)
    return [build_engine(settings, ledger) for _ in range(count)], ledger


def _serve(cards: int, concurrency: int, count: int, prompt: int, answer: int, seed: int = 0) -> list[Timing]:
    """`count` requests with prompts of their own, as `vllm bench serve --dataset-name random` sends them."""
    requests = [
        Sequence(random_tokens(prompt, seed + 2 * number), random_tokens(answer, seed + 2 * number + 1))
        for number in range(count)
    ]
    return closed_loop(_engines(cards)[0], requests, concurrency, _ARRIVAL_SPACING)


def _throughput(timings: list[Timing]) -> float:
    return sum(timing.output_tokens for timing in timings) / max(timing.last_token for timing in timings)


def _sweep(concurrency: int, rate: float, ttft: float, tpot: float) -> Iterator[Row]:
    """One line of the concurrency sweep: two cards, 1k in, 512 out, two requests for each stream."""
    count = max(4, 2 * concurrency)
    runs = [_serve(2, concurrency, count, 1024, 512, seed=1000 * run) for run in range(_RUNS)]
    name = f"conc {concurrency}, 1k in, 512 out: "
    yield Row(f"{name}output", "tok/s", rate, fmean(map(_throughput, runs)))
    yield Row(f"{name}TTFT", "ms", ttft, 1e3 * fmean(median(t.ttft for t in run) for run in runs))
    yield Row(f"{name}TPOT", "ms", tpot, 1e3 * fmean(median(t.tpot for t in run) for run in runs))


def _long_prompt() -> Iterator[Row]:
    timings = _serve(2, 1, 4, 32_768, 32)
    name = "conc 1, 32k in, 32 out: "
    yield Row(f"{name}output", "tok/s", 2.5, _throughput(timings))
    yield Row(f"{name}TTFT", "ms", 11_837, 1e3 * median(t.ttft for t in timings))
    yield Row(f"{name}TPOT", "ms", 29.6, 1e3 * median(t.tpot for t in timings), binding=False)
    yield Row("conc 1, 15k in: TTFT", "ms", 5992, 1e3 * _serve(1, 1, 1, 15_000, 1)[0].ttft)


def _cached_prompt() -> Iterator[Row]:
    """The same 50k prompt twice on one card, with an empty cache before each run."""
    cold: list[float] = []
    warm: list[float] = []
    for run in range(_RUNS):
        [engine], _ = _engines(1)
        prompt, answer = random_tokens(50_000, 2 * run), random_tokens(_CACHE_TEST_ANSWER, 2 * run + 1)
        for latencies in (cold, warm):
            [timing] = closed_loop([engine], [Sequence(prompt, answer)], 1)
            latencies.append(timing.latency)
    yield Row("50k prompt with its answer, cold", "s", 22.3, fmean(cold))
    yield Row("50k prompt with its answer, warm", "s", 1.4, fmean(warm))


def _pool() -> Iterator[Row]:
    _, ledger = _engines(1)
    yield Row("KV pool", "tokens", 122_636, ledger.tokens)
    yield Row("maximum concurrency of 114,688 tokens", "x", 1.07, round(ledger.max_concurrency, 2))


if __name__ == "__main__":
    print(render(list(rows())))
