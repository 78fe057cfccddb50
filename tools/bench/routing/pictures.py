"""`python -m bench.routing.pictures RESULT.json FOLDER`: what `bench.routing --json` wrote, as pictures."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import plots
from bench.harness.loops import Turn

from .summary import summarize
from .workloads import MEASURED, all_workloads

UNITS = {"span": "first request to last answer, s", "warm": "warm TTFT, s", "latency": "median turn, s"}


def main(argv: Sequence[str]) -> int:
    """Draw into the folder; return 0, or 2 after one line that says what is wrong."""
    if len(argv) != 2:
        print("usage: python -m bench.routing.pictures RESULT.json FOLDER", file=sys.stderr)
        return 2
    source, folder = map(Path, argv)
    try:
        drawn = draw(json.loads(source.read_text()), folder)
    except (OSError, ValueError, KeyError, plots.PlotError) as error:
        print(f"bench-routing: {source}: {error}", file=sys.stderr)
        return 2
    print(*drawn, sep="\n")
    return 0


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw the headline of every workload by policy, and the overload's turns over time; return the files."""
    workloads = all_workloads()
    measured = {make().name for make in MEASURED}
    bars: dict[bool, dict[str, dict[str, float]]] = {True: {}, False: {}}
    for run in result["runs"]:
        workload = workloads[run["workload"]]
        turns = [Turn(**turn) for turn in run["turns"]]
        figure = summarize(run["policy"], turns, result["time_scale"]).headline(workload.headline)
        label = f"{workload.name}\n{UNITS[workload.headline]}"
        bars[workload.name in measured].setdefault(label, {})[run["policy"]] = figure
    files = []
    for known, name, title in (
        (True, "routing-measured.svg", "Simulated: workloads that were measured on the cards"),
        (False, "routing-new.svg", "Simulated: workloads that were not measured yet"),
    ):
        if bars[known]:
            files.append(plots.policies(bars[known], title, "seconds of model time", folder / name))
    overload = [run for run in result["runs"] if run["workload"] == "overload"]
    if overload:
        files.append(plots.turns_over_time(overload, result["time_scale"], folder / "routing-overload.svg"))
    return files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
