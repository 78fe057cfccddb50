"""Lanes that run jobs side by side. The first job that fails ends the others."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .jobs import PROJECT, Job

# Two: a scenario waits more than it computes (0.8 of a core on average), so that two fill a machine with 2 cores. Each
# has a test host of its own, by its inventory in molecule/shared/lanes.
LANES = ("first", "second")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Lines of a log that the end of the run repeats: the figures that a test has measured.
FIGURE = re.compile(r"figure: (.*)")


@dataclass
class Done:
    """A job that ended well: the number of its tests, its seconds, and the figures that it printed."""

    job: Job
    tests: int
    seconds: float
    figures: list[str]


class Lanes:
    """Runs jobs, one at a time in each lane."""

    def __init__(self, jobs: list[Job], logs: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._waiting, self._logs, self._environment = list(jobs), logs, environment
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._over = False
        self._begin = time.monotonic()
        self.done: list[Done] = []
        self.failed: Job | None = None

    def run(self) -> bool:
        """Run every job and return whether all went well. KeyboardInterrupt ends what runs."""
        self._logs.mkdir(parents=True, exist_ok=True)
        threads = [threading.Thread(target=self._lane, args=(lane,)) for lane in LANES]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            self._end()
        return self.failed is None

    def log_of(self, job: Job) -> str:
        """Return what a job printed, without colours."""
        return COLOURS.sub("", (self._logs / f"{job.name}.log").read_text(errors="replace"))

    def _lane(self, lane: str) -> None:
        while job := self._next():
            self._say(f"began   {job.name}")
            begin, status = time.monotonic(), self._call(job, lane)
            text, seconds = self.log_of(job), time.monotonic() - begin
            tests = job.tests(text) if status == 0 else 0
            if self._over:
                return
            if tests == 0:
                self.failed = job
                self._say(f"failed  {job.name}, exit code {status}{'' if status else ', but not all of it ran'}")
                self._end()
                return
            self.done.append(Done(job, tests, seconds, FIGURE.findall(text)))
            self._say(f"passed  {job.name}, {tests} tests, {seconds:.0f} s")

    def _next(self) -> Job | None:
        with self._lock:
            return self._waiting.pop(0) if self._waiting and not self._over else None

    def _call(self, job: Job, lane: str) -> int:
        with (self._logs / f"{job.name}.log").open("wb") as log, self._lock:
            if self._over:
                return -signal.SIGTERM
            process = subprocess.Popen(
                ["bash", "-c", f"set -euo pipefail; {job.command}"],
                cwd=PROJECT,
                env={**self._environment, "FRANK_FLEET_LANE": lane, "COLUMNS": "160"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
        status = process.wait()
        with self._lock:
            self._running.discard(process)
        return status

    def _end(self) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)

    def _say(self, line: str) -> None:
        print(f"[{time.monotonic() - self._begin:5.0f} s] {line}", file=sys.stderr, flush=True)
