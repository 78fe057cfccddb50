"""Run tiers of the tests, two jobs at a time, and say at the end how many tests ran in each tier.

Exit code 1 at the first job that fails or that ran no test: its log is printed, and what else runs is ended.
"""

import signal
import subprocess
import sys

from .jobs import NEEDS, PROJECT, TIERS, host_names, plan
from .lanes import Done, Lanes

LOGS = PROJECT / ".cache/tests"


def summary(done: list[Done]) -> str:
    """Return a line a tier, and the figures that tests have measured."""
    lines = []
    for tier in TIERS:
        jobs = [entry for entry in done if entry.job.tier == tier]
        if jobs:
            tests, seconds = sum(entry.tests for entry in jobs), sum(entry.seconds for entry in jobs)
            lines.append(f"{tier:10} {tests:5} tests in {len(jobs):2} jobs {seconds:6.0f} s")
    return "\n".join([*lines, *(figure for entry in done for figure in entry.figures)])


def main(tiers: list[str]) -> int:
    """Run the tiers and return the exit code."""
    if not tiers or set(tiers) - set(TIERS):
        print(f"test_runner: which tiers of {' '.join(TIERS)}?", file=sys.stderr)
        return 2
    for need in dict.fromkeys(NEEDS[tier] for tier in tiers if tier in NEEDS):
        subprocess.run(["bash", "-c", need], cwd=PROJECT, check=True)
    # Like Ctrl-C: the jobs are in sessions of their own, and would go on.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lanes = Lanes(plan(tiers), LOGS)
    print(f"test_runner: logs are in {LOGS}", file=sys.stderr)
    well = False
    try:
        well = lanes.run()
    except KeyboardInterrupt:
        print("test_runner: interrupted", file=sys.stderr)
    finally:
        if not well and "molecule" in tiers:  # A scenario that was ended in its middle has left its host.
            for name in host_names():
                subprocess.run(["tools/test_host/host", "down", name], cwd=PROJECT, check=True)
    if well:
        print(f"\n==== all passed\n{summary(lanes.done)}")
    elif lanes.failed:
        print(f"\n==== {lanes.failed.name}\n{lanes.log_of(lanes.failed)}\n==== {lanes.failed.name} failed")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
