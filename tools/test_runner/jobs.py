"""What there is to run, tier by tier, and how many tests a job's log says it ran.

lint      yamllint, ansible-lint (production), ruff, mypy, shellcheck
unit      pytest, no root
units     the rendered units through Podman's own generator and systemd, from a Debian root file system
rules     the alert rules through promtool, from a Debian root file system with Prometheus
molecule  every scenario, on a booted test host (root)
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

TYPED = ("routing_proxy", "engine_simulator", "bench", "test_host", "test_runner", "engine_image", "fleet_dashboard")
LINT = {
    "yamllint": "yamllint --strict .",
    "ansible-lint": "ansible-lint --strict",
    "ruff": "ruff check .",
    "ruff-format": "ruff format --check .",
    "mypy": f"mypy {' '.join(f'-p {package}' for package in TYPED)} -p dashboard_picture",
    "shellcheck": "git grep -lIE '^#!/bin/bash' -- . ':!docs' | xargs shellcheck",
}
ROOTFS = "root=$(tools/test_host/host rootfs {packages}) && {variable}=$root python -m pytest tests/{tier}"
ROOTFS_TIERS = {
    "units": ROOTFS.format(tier="units", variable="FRANK_FLEET_ROOTFS", packages=""),
    "rules": ROOTFS.format(
        tier="rules",
        variable="FRANK_FLEET_PROMETHEUS_ROOTFS",
        packages="--packages promtool,prometheus,prometheus-alertmanager",
    ),
}
# What the tiers need beside .venv; each command installs what is missing.
NEEDS = {
    "lint": "command -v shellcheck >/dev/null || (apt-get update -qq && apt-get install -y -qq shellcheck) >/dev/null",
    **dict.fromkeys(("units", "rules", "molecule"), "tools/test_host/host install"),
}
TIERS = ("lint", "unit", "units", "rules", "molecule")


def _molecule_tests(scenario: str) -> Callable[[str], int]:
    """Return a count that is 0 unless each verify step ran tests; Molecule calls a step without files a success."""
    steps = (PROJECT / "molecule" / scenario / "molecule.yml").read_text().count("- verify")

    def count(log: str) -> int:
        ran = re.findall(r"=+ .*?(\d+) passed", log)
        return sum(map(int, ran)) if len(ran) == steps and "Missing playbook" not in log else 0

    return count


def _pytest_tests(log: str) -> int:
    return sum(map(int, re.findall(r"(\d+) passed", log)))


@dataclass(frozen=True)
class Job:
    """One command for bash, run in the project's folder; ``tests`` reads from its log how many tests it ran."""

    tier: str
    part: str
    command: str
    tests: Callable[[str], int]

    @property
    def name(self) -> str:
        """What its log is called: ``unit-proxy``."""
        return f"{self.tier}-{self.part}" if self.part else self.tier


def jobs_of(tier: str) -> list[Job]:
    """Return the jobs of a tier."""
    if tier == "lint":
        return [Job(tier, part, command, lambda log: 1) for part, command in LINT.items()]
    if tier == "unit":
        folders = sorted(path.name for path in (PROJECT / "tests/unit").iterdir() if any(path.glob("test_*.py")))
        return [Job(tier, part, f"python -m pytest tests/unit/{part}", _pytest_tests) for part in folders]
    if tier == "molecule":
        scenarios = sorted(path.parent.name for path in (PROJECT / "molecule").glob("*/molecule.yml"))
        return [Job(tier, s, f"molecule test --scenario-name {s}", _molecule_tests(s)) for s in scenarios]
    return [Job(tier, "", ROOTFS_TIERS[tier], _pytest_tests)]


# Seconds of the longest jobs on 2 cores: begun last, they would leave a lane idle. The others take less than a minute.
LONG = {"molecule-rolling": 600, "molecule-retire": 400, "molecule-interrupted": 330, "molecule-default": 310}


def plan(tiers: list[str]) -> list[Job]:
    """Return the jobs in the order to begin them: the longest first, then the fast tiers, then the rest of Molecule."""
    jobs = [job for tier in TIERS if tier in tiers for job in jobs_of(tier)]
    longest = max(jobs, key=lambda job: LONG.get(job.name, 0))
    rest = [job for job in jobs if job is not longest]
    return [longest, *sorted(rest, key=lambda job: (job.tier == "molecule", -LONG.get(job.name, 0)))]


def host_names() -> list[str]:
    """Return the names of the hosts that scenarios boot, from their inventories."""
    found = (re.findall(r"test_host_name: (\S+)", path.read_text()) for path in PROJECT.glob("molecule/**/hosts.yml"))
    return sorted(name for names in found for name in names)
