"""`python -m bench.proxy_behaviour`: put each proxy through the same scenes and print one column for each."""

from __future__ import annotations

import argparse
import asyncio
import functools
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.proxy_behaviour import scenes
from bench.proxy_behaviour.stage import Stage
from bench.proxy_overhead.measure import progress
from bench.proxy_overhead.peers import ROUTERS_VENV, Peer, installed_routers, start_nginx, start_ours, start_router
from bench.proxy_overhead.processes import ChildError
from bench.proxy_overhead.report import table

Starter = Callable[[Sequence[int], Path], Peer]


async def perform(name: str, start: Starter, scratch: Path) -> dict[str, str]:
    """Return the rows of one proxy. Failures open circuit breakers, so those scenes get a fresh proxy each."""
    rows: dict[str, str] = {}

    def stage() -> Stage:
        return Stage(start, Path(tempfile.mkdtemp(dir=scratch)))

    progress(f"{name}: conversations, bodies, leaving clients")
    async with stage() as calm:
        rows["29 fresh conversations"], rows["their later turns kept"] = await scenes.conversations(calm, None)
        split, kept = await scenes.conversations(calm, scenes.SHARED_SYSTEM)
        rows["29 that share a 3.4 kB system prompt"], rows["their later turns kept "] = split, kept
        rows["a body with unknown fields arrives"], rows["a custom header arrives"] = await scenes.fidelity(calm)
        rows["client leaves before the first byte: engine knows after"] = await scenes.client_leaves(calm)
    for mode, words in (("500", "answers 500"), ("503", "answers 503"), ("drop", "drops the connection")):
        async with stage() as failing:
            rows[f"engine {words}: status, copies run"] = await scenes.copies(failing, mode)
    async with stage() as failing:
        rows["engine drops a stream half-way: client sees"] = await scenes.stream_dies(failing)
    progress(f"{name}: dying replicas")
    async with stage() as dying:
        lost, back = await scenes.replica_dies(dying)
        rows["replica of a conversation killed: failed of the next 15 turns, worst"] = lost
        rows["replica back: used again after"] = back
        rows["all killed: status, time"], rows["all killed: /health"] = await scenes.all_die(dying)
    return rows


def main() -> int:
    """Run every proxy that is installed."""
    parser = argparse.ArgumentParser(prog="python -m bench.proxy_behaviour", description=__doc__)
    parser.add_argument("--routers", type=Path, default=ROUTERS_VENV, help="venv with the Rust routers (%(default)s)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    starters: dict[str, Starter] = {"ours": start_ours, "nginx": start_nginx}
    for program, policy in installed_routers(options.routers):
        starters[f"{program.name}/{policy}"] = functools.partial(start_router, program, policy)
    progress(f"{', '.join(starters)}: about {len(starters) * 25} s")
    try:
        with tempfile.TemporaryDirectory(prefix="proxy-behaviour-") as scratch:
            columns = {name: asyncio.run(perform(name, start, Path(scratch))) for name, start in starters.items()}
    except ChildError as error:
        print(f"proxy_behaviour: {error}", file=sys.stderr)
        return 2
    rows = [[row, *(column[row] for column in columns.values())] for row in columns["ours"]]
    print(table("behaviour", ["", *columns], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
