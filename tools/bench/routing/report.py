"""The tables of the experiment, and what must be true of them."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from bench.harness.loops import Turn
from bench.harness.report import table

from .summary import Summary
from .workloads import Workload

Results = Mapping[str, Mapping[str, Summary]]
"""Summaries by workload and policy."""

RUNBOOK: Mapping[str, Mapping[str, float]] = {
    "burst": {"roundrobin": 18.6, "affinity": 30.1, "adaptive": 19.97},
    "turns-90k": {"roundrobin": 2.676, "affinity": 1.096, "adaptive": 1.095},
    "turns-15k": {"roundrobin": 2.676, "affinity": 1.096, "adaptive": 1.095},
}
"""Measured on two R9700, seconds: a burst's span, a warm turn's TTFT."""

OVERLOAD: Mapping[str, float] = {"heavy": 25.4, "medium-1": 34.7, "medium-2": 45.2}
"""Measured on two R9700 with the adaptive policy: median seconds a turn, by family."""

CLEARLY = 1.3
"""How many times slower a policy must be where it was measured slower (1.5 times at the burst, 2.4 at the turns)."""
ALIKE = 1.15
"""Greatest ratio of two that were measured alike (1.07 at the burst, 1.00 at the turns)."""


def runbook_table(results: Results) -> str:
    """What was measured on the cards beside what came out here; each figure also as a ratio to adaptive's."""
    rows = []
    for name, measured in RUNBOOK.items():
        if name not in results:
            continue
        ours = {policy: summary.headline(_figure(name)) for policy, summary in results[name].items()}
        for policy, seconds in measured.items():
            if policy in ours and "adaptive" in ours:
                against = f"{seconds / measured['adaptive']:.2f}", f"{ours[policy] / ours['adaptive']:.2f}"
                ratio = f"{ours[policy] / seconds:.2f}"
                rows.append([name, policy, f"{seconds:.2f}", f"{ours[policy]:.2f}", ratio, *against])
    head = ["workload", "policy", "cards, s", "here, s", "here/cards", "cards: x adaptive", "here: x adaptive"]
    return table(head, rows)


def overload_table(turns: Sequence[Turn], time_scale: float) -> str:
    """Median time of a turn by family, measured and here, with the adaptive policy."""
    rows = []
    for family, measured in OVERLOAD.items():
        seconds = median(turn.seconds for turn in turns if turn.family == family) / time_scale
        rows.append([family, f"{measured:.1f}", f"{seconds:.1f}", f"{seconds / measured:.2f}"])
    return table(["family", "cards, median s a turn", "here", "here/cards"], rows)


def results_table(workload: Workload, summaries: Iterable[Summary], virtual: Mapping[str, Summary]) -> str:
    """All policies on one workload; `virtual` shows the headline as pure engines have it."""
    rows = []
    for each in summaries:
        exact = f"{virtual[each.policy].headline(workload.headline):.2f}" if each.policy in virtual else "-"
        spread = "/".join(map(str, each.spread.values()))
        figures = (
            f"{each.span:.1f}",
            f"{each.first:.2f}",
            f"{each.warm:.2f}",
            f"{each.latency:.2f}",
            f"{each.worst:.1f}",
        )
        failed = f"{each.failed}/{each.requests}"
        headline = f"{each.headline(workload.headline):.2f}"
        rows.append([each.policy, *figures, f"{each.cached:.0%}", spread, failed, headline, exact])
    head = ["policy", "span s", "first TTFT", "warm TTFT", "turn s", "worst s", "cached", "spread", "failed"]
    return f"{workload.title}\n" + table([*head, workload.headline, "virtual"], rows)


def violations(results: Results) -> list[str]:
    """Return one line for each thing that was measured on the cards and did not come out here."""
    expected = [("burst", "affinity", "adaptive", CLEARLY, True), ("burst", "adaptive", "roundrobin", ALIKE, False)]
    for turns in ("turns-90k", "turns-15k"):
        expected.append((turns, "roundrobin", "adaptive", CLEARLY, True))
        expected.append((turns, "adaptive", "affinity", ALIKE, False))
    found = []
    for name, policy, other, limit, slower in expected:
        if name not in results or not {policy, other} <= results[name].keys():
            continue
        ratio = results[name][policy].headline(_figure(name)) / results[name][other].headline(_figure(name))
        if (ratio < limit) if slower else (ratio > limit):
            wanted = f"at least {limit}" if slower else f"at most {limit}"
            found.append(f"{name}: {policy} took {ratio:.2f} times as long as {other}, expected {wanted}")
    return found


def _figure(workload: str) -> str:
    return "span" if workload == "burst" else "warm"
