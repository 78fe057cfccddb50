"""`python -m bench.routing`: the routing policies on simulated replicas behind the real proxy."""

import argparse
import asyncio
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness.loops import Turn
from bench.harness.report import table, write_json
from bench.proxy_overhead.processes import ChildError
from routing_proxy.routing import POLICIES

from . import report
from .experiment import TooSlowError, through_proxy, virtually
from .policies import VARIANTS
from .summary import Summary, summarize
from .workloads import Workload, all_workloads

DESCRIPTION = """Runs each policy on each workload: simulated replicas and the real proxy, started afresh for every run
so that caches are cold. Prints what was measured on two R9700 beside what comes out here. Seconds are seconds of model
time. The column `virtual` is the same workload on pure engines in virtual time, without processes: where the two
differ by much, this machine did not keep up (or the workload is chaotic, as the overload is). Exit code 1 if the order
of the policies is another than on the cards, 2 if the machine is too slow or something does not start."""


def main() -> int:
    """Run the experiment and return the exit code."""
    workloads = all_workloads()
    arguments = _parse(list(workloads))
    chosen = [workloads[name] for name in arguments.workloads]
    results: dict[str, dict[str, Summary]] = {}
    everything: dict[str, Any] = {"time_scale": arguments.time_scale, "runs": []}
    overload: list[Turn] = []
    try:
        for workload in chosen if not arguments.virtual else []:
            results[workload.name] = {}
            for policy in arguments.policies:
                turns = _run(workload, policy, arguments.time_scale)
                results[workload.name][policy] = summarize(policy, turns, arguments.time_scale)
                everything["runs"].append(
                    {"workload": workload.name, "policy": policy, "turns": [asdict(turn) for turn in turns]}
                )
                if (workload.name, policy) == ("overload", "adaptive"):
                    overload = turns
            print(report.results_table(workload, results[workload.name].values(), _virtual(workload, POLICIES)), "\n")
    except (TooSlowError, ChildError) as error:
        print(f"bench-routing: {error}", file=sys.stderr)
        return 2
    everything["variants"] = _print_variants(chosen)
    if arguments.json:
        write_json(arguments.json, everything)
    return _judge(results, overload, arguments.time_scale) if results else 0


def _parse(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.routing", description=DESCRIPTION)
    parser.add_argument("--time-scale", type=float, default=0.1, help="wall seconds a second of model time (0.1)")
    parser.add_argument("--workloads", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    parser.add_argument("--virtual", action="store_true", help="virtual time only: all policies and variants, in 20 s")
    parser.add_argument("--json", type=Path, help="write every turn there, for bench.harness plot")
    return parser.parse_args()


def _run(workload: Workload, policy: str, time_scale: float) -> list[Turn]:
    began = time.monotonic()
    turns = asyncio.run(through_proxy(workload, policy, time_scale))
    print(f"  {workload.name} {policy}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return turns


def _virtual(workload: Workload, policies: tuple[str, ...]) -> dict[str, Summary]:
    if workload.kill_at is not None:
        return {}
    return {policy: summarize(policy, virtually(workload, policy)) for policy in policies}


def _print_variants(workloads: list[Workload]) -> dict[str, dict[str, float]]:
    """Print all policies and variants in virtual time, and return each workload's headlines."""
    names = (*POLICIES, *VARIANTS)
    summaries = {workload.name: (workload, _virtual(workload, names)) for workload in workloads if not workload.kill_at}
    figures = {
        name: {policy: summary.headline(workload.headline) for policy, summary in row.items()}
        for name, (workload, row) in summaries.items()
    }
    worst = {name: {policy: summary.worst for policy, summary in row.items()} for name, (_, row) in summaries.items()}
    for title, cells in (
        ("Variants in virtual time, seconds (burst: span; turns-*: warm TTFT; others: median turn)", figures),
        ("The longest turn of each, seconds", worst),
    ):
        rows = [[name, *(f"{row[policy]:.2f}" for policy in names)] for name, row in cells.items()]
        print(f"{title}\n{table(['workload', *names], rows)}\n")
    return figures


def _judge(results: report.Results, overload: list[Turn], time_scale: float) -> int:
    print(f"Measured on two R9700, and here (time scale {time_scale})\n{report.runbook_table(results)}\n")
    if overload:
        print(f"{report.overload_table(overload, time_scale)}\n")
    violations = report.violations(results)
    print("\n".join(violations) or "The order of the policies is the one measured on the cards.")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
