"""What is asked of the fleet: the workloads that were measured on two R9700, and those that were not."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.harness.loops import Loop
from bench.harness.text import code_text
from engine_simulator.tokens import TOKEN_BYTES


@dataclass(frozen=True)
class Workload:
    """Loops, times in seconds of model time; `cards` is how many replicas serve them.

    Attributes:
        headline: the figure that the policies are compared by: `span` (first request to last answer), `warm` (mean
            TTFT of all turns but each loop's first) or `latency` (median time of a turn, its answer included).
        kill_at: when a replica is killed; None for never.
    """

    name: str
    title: str
    loops: Sequence[Loop]
    headline: str
    cards: int = 2
    kill_at: float | None = None


def document(name: str, tokens: int) -> str:
    """Text of `tokens` tokens of the simulator's."""
    return code_text(name, tokens * TOKEN_BYTES)


def burst() -> Workload:
    """Sixteen one-shot prompts of 15k tokens, all at once, that begin alike.

    How much they shared is not on record, but it follows from the figures: unshared, 240k tokens at the measured 2.5k
    tokens/s a card would take two cards 47 s, not 18.6. One card took 30.1 s, so eight prompts more cost 11.5 s: 3.7k
    tokens of each were its own.
    """
    head = document("shared head", 11_300)
    loops = [
        Loop(f"cold-{n:02}", "cold", document=head + document(f"cold {n}", 3600), answer_tokens=64) for n in range(16)
    ]
    return Workload("burst", "cold burst: 16 prompts of 15k tokens that begin alike", loops, "span")


def turns(context: int, families: int = 2) -> Workload:
    """Agent loops one after the other, as the small sequential client of the measurement held them."""
    loops = [
        Loop(f"family-{n}", document=document(f"turns {n}", context), turns=4, after=f"family-{n - 1}" if n else "")
        for n in range(families)
    ]
    return Workload(f"turns-{context // 1000}k", f"4 turns x {families} families at {context // 1000}k", loops, "warm")


def overload(turns_each: int = 6) -> Workload:
    """One family of 80k tokens and two of 50k at the same time: more than two cards' pools hold."""
    sizes = {"heavy": 80_000, "medium-1": 50_000, "medium-2": 50_000}
    loops = [
        Loop(name, document=document(name, size), turns=turns_each, answer_tokens=200, start=index)
        for index, (name, size) in enumerate(sizes.items())
    ]
    return Workload("overload", "three families of 80k, 50k and 50k at once", loops, "latency")


def shared_system() -> Workload:
    """Bursts of subagents with one long system prompt and tasks of their own."""
    system = document("agent system prompt", 12_000)
    loops = [
        Loop(f"agent-{n}", "agent", system=system, document=document(f"task {n}", 2000), turns=3, question=2000)
        for n in range(12)
    ]
    return Workload("shared-system", "12 agents at once, 12k system prompt shared, 3 turns", loops, "latency")


def forks(parents: int, children: int) -> Workload:
    """Parents of 30k tokens that fork subagents, which go on with their parent's transcript."""
    loops: list[Loop] = []
    for parent in (f"parent-{n}" for n in range(parents)):
        loops.append(Loop(parent, "parent", document=document(parent, 30_000), turns=2))
        loops += [
            Loop(f"{parent}-{n}", "fork", turns=3, question=4000, after=parent, fork=True, answer_tokens=200)
            for n in range(children)
        ]
    title = f"{parents} x 30k parents, {children} subagents forked from each"
    return Workload(f"forks-{parents}x{children}", title, loops, "latency")


def interactive(cards: int, users: int, seed: int = 1) -> Workload:
    """People with agent loops of 20k to 40k tokens, and one-shot questions in between."""
    rng = random.Random(seed)
    loops = [
        Loop(
            f"user-{n}", "user", document=document(f"user {n}", rng.randrange(20_000, 40_000)), turns=5,
            answer_tokens=200, start=rng.uniform(0, 30),
        )
        for n in range(users)
    ]  # fmt: skip
    loops += [
        Loop(f"question-{n}", "one-shot", document=document(f"question {n}", 2000), start=rng.uniform(0, 90))
        for n in range(2 * users)
    ]
    title = f"{cards} cards: {users} agent loops of 20-40k and {2 * users} questions"
    return Workload(f"mixed-{cards}", title, loops, "latency", cards)


def dead_replica() -> Workload:
    """The same people on two cards, one of which dies in the middle and stays dead."""
    return replace(interactive(2, 4), name="death", title="a replica dies after 60 s", kill_at=60.0)


MEASURED = (burst, lambda: turns(90_000), lambda: turns(15_000), overload)
"""Workloads whose figures are on record, and the sequential turns at the size that explains those figures."""
UNMEASURED = (
    shared_system, lambda: forks(2, 4), lambda: forks(1, 8), lambda: forks(2, 6),
    lambda: interactive(2, 4), lambda: interactive(3, 6), dead_replica,
)  # fmt: skip


def all_workloads() -> dict[str, Workload]:
    """Every workload by name."""
    return {workload.name: workload for workload in (make() for make in (*MEASURED, *UNMEASURED))}


def scaled(loop: Loop, time_scale: float) -> Loop:
    """The loop in wall time."""
    return replace(loop, start=loop.start * time_scale, until=loop.until * time_scale)
