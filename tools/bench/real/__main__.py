"""`python -m bench.real`: the routing policies on two real vLLM engines, whose `cached_tokens` prove the pins."""

import argparse
import asyncio
import random
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from bench.harness.endpoint import Client, Endpoint, EndpointError
from bench.harness.loops import Loop, Turn, run_rounds
from bench.harness.report import table, write_json
from bench.harness.text import code_text
from bench.proxy_overhead.processes import ChildError
from bench.routing.fleet import start_proxy
from routing_proxy.routing import POLICIES

from .engines import MODEL, Engines, make_model

CACHE = Path.home() / ".cache" / "frank-fleet"
BLOCK_SHARE = 0.9
"""Least share of a pinned turn's prompt that must come from the cache: all but its last blocks and what is new."""
DESCRIPTION = """Sixteen first turns at once that share a system prompt of 4.4k tokens and differ in 2.4k; three more
turns of each, one at a time in an order that changes; then two families of 13k tokens, four turns each. For each
policy, caches emptied before. Exit code 1 if adaptive does not spread the burst or its pinned turns are not cached."""


@dataclass(frozen=True)
class Outcome:
    """One policy: the burst with its later turns, and the two large families."""

    policy: str
    conversations: list[Turn]
    families: list[Turn]

    @property
    def burst(self) -> list[Turn]:
        """The first turns, sent at once."""
        return [turn for turn in self.conversations if turn.number == 1]

    @property
    def next_turns(self) -> list[Turn]:
        """The turns after the burst."""
        return [turn for turn in self.conversations if turn.number > 1]

    @property
    def spread(self) -> list[int]:
        """Requests of the burst that each replica got, the busiest first."""
        replicas = [turn.replica for turn in self.burst]
        return sorted((replicas.count(name) for name in set(replicas)), reverse=True)


def main() -> int:
    """Run the bench and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.real", description=DESCRIPTION)
    parser.add_argument("--venv", type=Path, default=CACHE / "real-vllm-venv", help="made by bench/real/install")
    parser.add_argument("--model", type=Path, default=CACHE / "real-vllm-model", help="made if it is not there")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (arguments.venv / "bin" / "vllm").exists():
        install = f"tools/bench/real/install {arguments.venv}"
        print(f"bench-real: no vLLM in {arguments.venv}: run {install}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-real-") as folder:
        engines = Engines(arguments.venv, arguments.model, Path(folder))
        try:
            make_model(arguments.venv / "bin" / "python", arguments.model)
            print("bench-real: starting two engines (about 70 s)", file=sys.stderr)
            engines.start()
            outcomes = [asyncio.run(measure(policy, engines, Path(folder))) for policy in arguments.policies]
        except (ChildError, EndpointError) as error:
            print(f"bench-real: {error}", file=sys.stderr)
            return 2
        finally:
            engines.stop()
    print(render(outcomes))
    if arguments.json:
        write_json(arguments.json, [_as_json(outcome) for outcome in outcomes])
    found = [line for outcome in outcomes if outcome.policy == "adaptive" for line in violations(outcome)]
    print("\n".join(found) or "adaptive: the burst was spread, and pinned turns came from the cache.")
    return 1 if found else 0


async def measure(policy: str, engines: Engines, scratch: Path) -> Outcome:
    """Run the workload with one policy; raise EndpointError or ChildError."""
    proxy, port = start_proxy(policy, engines.ports, scratch)
    try:
        await asyncio.to_thread(proxy.wait_listening, port)
        async with Client(Endpoint(f"http://127.0.0.1:{port}", MODEL)) as client:
            per_token = await client.characters_per_token()
            rng = random.Random(7)
            parts = []
            for loops, burst in ((conversations(per_token), True), (families(per_token), False)):
                await engines.forget()
                parts.append(await run_rounds(client, loops, rng, burst, _progress(policy)))
    finally:
        await asyncio.to_thread(proxy.stop)
    return Outcome(policy, *parts)


def conversations(per_token: float) -> list[Loop]:
    """Sixteen conversations under one system prompt."""
    system = code_text("system", round(4400 * per_token))
    return [
        Loop(
            f"talk-{n}", "talk", system=system, document=code_text(f"talk {n}", round(2300 * per_token)), turns=4,
            question=100, answer_tokens=16,
        )
        for n in range(16)
    ]  # fmt: skip


def families(per_token: float) -> list[Loop]:
    """Two agent loops that fill most of a replica's pool each."""
    return [
        Loop(
            f"family-{n}", document=code_text(f"family {n}", round(13_000 * per_token)), turns=4, question=100,
            answer_tokens=16,
        )
        for n in range(2)
    ]  # fmt: skip


def render(outcomes: list[Outcome]) -> str:
    """The table of all policies. Of the families the mean: a median hides the cold turns, which are a third."""
    rows = []
    for outcome in outcomes:
        span = max(t.started + t.seconds for t in outcome.burst) - min(t.started for t in outcome.burst)
        later = [turn for turn in outcome.families if turn.number > 1]
        warm = fmean(turn.ttft for turn in later) * 1e3
        rows.append([
            outcome.policy, f"{span:.1f}", "/".join(map(str, outcome.spread)), _ttft(outcome.next_turns),
            f"{_cached(outcome.next_turns):.0%}", f"{warm:,.0f}", f"{_cached(later):.0%}",
            str(sum(bool(turn.error) for turn in [*outcome.conversations, *outcome.families])),
        ])  # fmt: skip
    head = [
        "policy",
        "burst s",
        "spread",
        "next turns TTFT p50 ms",
        "cached",
        "family TTFT mean ms",
        "cached",
        "failed",
    ]
    return table(head, rows)


def violations(outcome: Outcome) -> list[str]:
    """Return one line for each thing that pinning and spreading promise and this run did not keep."""
    found = [f"{turn.loop} turn {turn.number} failed: {turn.error}" for turn in outcome.conversations if turn.error]
    if len(outcome.spread) < 2 or outcome.spread[0] > 2 * outcome.spread[-1]:
        found.append(f"the burst went {outcome.spread} instead of to both replicas alike")
    home = {turn.loop: turn.replica for turn in outcome.burst}
    for turn in outcome.next_turns:
        if turn.replica != home[turn.loop]:
            found.append(f"{turn.loop} turn {turn.number} left its replica")
        elif (turn.cached_share or 0) < BLOCK_SHARE:
            found.append(f"{turn.loop} turn {turn.number}: {turn.cached_tokens} of {turn.prompt_tokens} tokens cached")
    return found


def _ttft(turns: list[Turn]) -> str:
    return f"{median(turn.ttft for turn in turns) * 1e3:,.0f}"


def _cached(turns: list[Turn]) -> float:
    return sum(turn.cached_tokens or 0 for turn in turns) / max(1, sum(turn.prompt_tokens for turn in turns))


def _progress(policy: str) -> Any:
    def show(turn: Turn) -> None:
        what = f"{turn.ttft * 1e3:.0f} ms, {turn.cached_tokens}/{turn.prompt_tokens} cached {turn.error}"
        print(f"  {policy} {turn.loop} turn {turn.number}: {what}", file=sys.stderr)

    return show


def _as_json(outcome: Outcome) -> dict[str, Any]:
    parts = {"conversations": outcome.conversations, "families": outcome.families}
    return {"policy": outcome.policy} | {name: [asdict(turn) for turn in turns] for name, turns in parts.items()}


if __name__ == "__main__":
    sys.exit(main())
