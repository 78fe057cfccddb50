"""`python -m dashboard_picture record DATA` runs simulated traffic; `draw DATA PICTURE` draws the dashboard from it."""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from bench.proxy_overhead.processes import ChildError

from .prometheus import PrometheusError, rootfs, running
from .stage import scraped_fleet
from .traffic import play

INTERVAL = 5.0
"""Seconds between two scrapes of a recording."""


def main() -> int:
    """Run one command; return 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m dashboard_picture", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="serve simulated traffic and keep what Prometheus scraped of it")
    recording.add_argument("data", type=Path, help="a new folder")
    recording.add_argument("--minutes", type=float, default=25.0)
    drawing = commands.add_parser("draw", help="draw the dashboard's panels from a recording")
    drawing.add_argument("data", type=Path)
    drawing.add_argument("picture", type=Path, help="a .png or .svg")
    arguments = parser.parse_args()
    try:
        if arguments.command == "record":
            arguments.data.mkdir(parents=True)
            asyncio.run(_record(arguments.data, 60 * arguments.minutes))
        else:
            _draw(arguments.data, arguments.picture)
    except (PrometheusError, ChildError, OSError) as error:
        print(f"dashboard_picture: {error}", file=sys.stderr)
        return 1
    return 0


async def _record(data: Path, seconds: float) -> None:
    async with scraped_fleet(data, INTERVAL, 1.0) as (fleet, _):
        began = time.time()
        # At rest first, so that the first request of every counter is a step from a sample and not out of nothing.
        await asyncio.sleep(4 * INTERVAL)
        turns = await play(fleet, seconds)
        await asyncio.sleep(4 * INTERVAL)
        ended = time.time()
    await asyncio.to_thread((data / "run.json").write_text, json.dumps({"start": began, "end": ended}))
    print(f"{len(turns)} turns, {sum(bool(turn.error) for turn in turns)} failed")


def _draw(data: Path, picture: Path) -> None:
    from .draw import draw  # needs matplotlib, which a recording does without

    run = json.loads((data / "run.json").read_text())
    with running(rootfs(), data, [], INTERVAL) as prometheus:
        draw(prometheus, run["start"], run["end"] - 4 * INTERVAL, INTERVAL, picture)


if __name__ == "__main__":
    sys.exit(main())
