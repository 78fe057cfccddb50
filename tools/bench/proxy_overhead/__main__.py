"""`python -m bench.proxy_overhead`: measure, print the tables and verdicts, exit 1 if a target was missed."""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.proxy_overhead import report
from bench.proxy_overhead.interpreter import Interpreter, of_engine_image
from bench.proxy_overhead.measure import Plan, measure, measure_memory, progress, write_pools
from bench.proxy_overhead.peers import (
    ROUTERS_VENV,
    Peer,
    installed_routers,
    require,
    start_engine,
    start_nginx,
    start_ours,
    start_router,
)
from bench.proxy_overhead.processes import REPOSITORY, ChildError, free_ports
from bench.proxy_overhead.targets import COUNTING, DIRECT, OURS, verdicts

QUICK = Plan(connections=(1, 16), stream_connections=(16,), stream_rounds=2, seconds=1, passes=1)
ENGINES = 2


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.proxy_overhead", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one short pass without 64 connections and memory, about 1 min"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every cell of every pass to FILE")
    parser.add_argument("--passes", type=int, default=Plan.passes, help="passes over all cells (default %(default)s)")
    parser.add_argument(
        "--python", metavar="PROGRAM", help="the Python that runs ours (default: that of the engine image, as deployed)"
    )
    parser.add_argument(
        "--routers", type=Path, default=ROUTERS_VENV, help="venv with vllm-router, sglang-router (%(default)s)"
    )
    return parser.parse_args(argv)


def run(options: argparse.Namespace, scratch: Path, stack: contextlib.ExitStack) -> int:
    """Start everything, measure, report; children end with `stack`."""
    plan = QUICK if options.quick else Plan(passes=options.passes)
    wrk = require("wrk", "wrk")
    python = Interpreter((options.python,)) if options.python else of_engine_image(scratch / "engine-image")
    version = python.version()
    engines = free_ports(ENGINES)
    children = [start_engine(port, scratch) for port in engines]
    for child in children:
        stack.callback(child.stop)
    for child, port in zip(children, engines, strict=True):
        child.wait_listening(port)
    peers = [Peer(DIRECT, engines[0], children[0])]

    def add(peer: Peer) -> None:
        stack.callback(peer.child.stop)
        peer.child.wait_listening(peer.port)
        peers.append(peer)

    add(start_nginx(engines, scratch))
    add(start_ours(engines, scratch, python=python))
    add(start_ours(engines, scratch, COUNTING, "roundrobin", python))
    for program, policy in installed_routers(options.routers):
        add(start_router(program, policy, engines, scratch))
    names = [peer.name for peer in peers]
    progress(f"{', '.join(names)}: about {plan.expected_seconds(len(peers)) / 60:.0f} minutes")

    results = measure(plan, wrk, peers, write_pools(plan, scratch))
    if not options.quick:
        fresh_scratch = scratch / "memory"
        fresh_scratch.mkdir()
        ours = start_ours(engines, fresh_scratch, python=python)
        stack.callback(ours.child.stop)
        ours.child.wait_listening(ours.port)
        results.memory = measure_memory(wrk, ours, scratch)

    judged = verdicts(results, plan.sizes, plan.connections)
    versions = {**peer_versions(options.routers), "Python of ours": version}
    print(report.tables(results, plan, names))
    print("Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    if results.memory:
        print("Memory of ours: " + ", ".join(f"{count:,}: {rss:.1f} MB" for count, rss in results.memory))
    print("\n" + report.verdict_lines(judged))
    if options.json:
        options.json.write_text(report.as_json(results, plan, versions, judged))
    return 1 if any(verdict.met is False for verdict in judged) else 0


def peer_versions(routers: Path) -> dict[str, str]:
    """Return what was measured: nginx and the routers by their own word, ours by its commit."""
    commit = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
    versions = {OURS: subprocess.run(commit, capture_output=True, text=True, check=False).stdout.strip() or "?"}
    nginx = subprocess.run([require("nginx", "nginx-light"), "-v"], capture_output=True, text=True, check=False)
    versions["nginx"] = nginx.stderr.strip().rpartition("/")[2]
    for name in sorted({program.name for program, _ in installed_routers(routers)}):
        found = sorted(routers.glob(f"lib/python*/site-packages/{name.replace('-', '_')}-*.dist-info"))
        versions[name] = found[-1].name.split("-")[1].removesuffix(".dist") if found else "?"
    return versions


def main() -> int:
    """Run the bench; every child has ended when it returns, whatever happened."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="proxy-overhead-") as scratch, contextlib.ExitStack() as stack:
            return run(options, Path(scratch), stack)
    except ChildError as error:
        print(f"proxy_overhead: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
