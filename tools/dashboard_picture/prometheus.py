"""A Prometheus on loopback, from Debian's package in a root file system, without installing it."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.proxy_overhead.processes import READY_TIMEOUT, REPOSITORY, Child, free_ports, program_of

PACKAGES = "promtool,prometheus,prometheus-alertmanager"
"""What the monitoring tests' root file system has more than the hosts'; the list names the cached copy."""
RULES = REPOSITORY / "roles/prometheus_rules/files"


class PrometheusError(RuntimeError):
    """Prometheus can't be had or refused a query; the message is one line."""


@dataclass(frozen=True)
class Target:
    """What a job scrapes: an address and the labels that it gives."""

    job: str
    address: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Series:
    """One series of an answer: its labels, and samples as (unix seconds, value)."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]


def rootfs() -> Path:
    """Return the root file system that has Prometheus; built on first use, which takes a minute or two and root.

    FRANK_FLEET_PROMETHEUS_ROOTFS names another. Raises PrometheusError if it can't be built.
    """
    if given := os.environ.get("FRANK_FLEET_PROMETHEUS_ROOTFS"):
        return Path(given)
    command = [str(REPOSITORY / "tools/test_host/host"), "rootfs", "--packages", PACKAGES]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise PrometheusError("no root file system with Prometheus: `tools/test_host/host rootfs` says why")
    return Path(done.stdout.split()[-1])


def configuration(targets: Sequence[Target], interval: float, rules: Path = RULES) -> str:
    """Return a prometheus.yml: `interval` in seconds between two scrapes and two evaluations of the rules."""
    jobs: dict[str, list[dict[str, Any]]] = {}
    for target in targets:
        jobs.setdefault(target.job, []).append({"targets": [target.address], "labels": dict(target.labels)})
    every = f"{round(interval * 1000)}ms"
    return json.dumps(  # which is YAML
        {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": [str(rules / "*.yml")],
            "scrape_configs": [{"job_name": job, "static_configs": entries} for job, entries in jobs.items()],
        },
        indent=2,
    )


class Prometheus:
    """A running Prometheus."""

    def __init__(self, child: Child, url: str) -> None:
        self.child = child
        self.url = url

    def instant(self, expression: str, at: float | None = None) -> list[Series]:
        """Evaluate at one moment (now, or unix seconds)."""
        return self._ask("query", {"query": expression} | ({"time": str(at)} if at else {}))

    def over(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """Evaluate from `start` to `end` (unix seconds), each `step` seconds, as a panel does."""
        return self._ask("query_range", {"query": expression, "start": start, "end": end, "step": step})

    def _ask(self, path: str, query: Mapping[str, str | float]) -> list[Series]:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                data = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise PrometheusError(f"{query['query']}: {error.read().decode(errors='replace')}") from error
        return [_series(entry) for entry in data["result"]]


def _series(entry: dict[str, Any]) -> Series:
    samples = entry["values"] if "values" in entry else [entry["value"]]
    return Series(entry["metric"], [(float(when), float(value)) for when, value in samples])


def _wait_ready(url: str) -> None:
    """Return when it has read its data: it listens before that."""
    deadline = time.monotonic() + READY_TIMEOUT
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:  # HTTPError is one
            time.sleep(0.1)
    raise PrometheusError(f"Prometheus is not ready after {READY_TIMEOUT:.0f} s")


@contextmanager
def running(root: Path, folder: Path, targets: Sequence[Target], interval: float) -> Iterator[Prometheus]:
    """Run a Prometheus that keeps its data in `folder`; without targets it only answers from what is there."""
    (port,) = free_ports(1)
    config = folder / "prometheus.yml"
    config.write_text(configuration(targets, interval))
    flags = [
        f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.retention.time=10y", "--web.console.templates=/nonexistent",
        "--web.console.libraries=/nonexistent", "--log.level=warn",
    ]  # fmt: skip
    child = Child("prometheus", [*program_of(root, "prometheus"), *flags], os.environ, folder / "prometheus.log")
    try:
        child.wait_listening(port)
        _wait_ready(f"http://127.0.0.1:{port}/-/ready")
        yield Prometheus(child, f"http://127.0.0.1:{port}")
    finally:
        child.stop()
