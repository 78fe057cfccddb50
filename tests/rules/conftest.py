"""promtool comes from a Debian 13 root file system, as the fleet's own Prometheus does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.proxy_overhead.processes import program_of
from dashboard_picture.prometheus import PACKAGES

HOW = f"export FRANK_FLEET_PROMETHEUS_ROOTFS=$(tools/test_host/host rootfs --packages {PACKAGES})"


@pytest.fixture(scope="session")
def promtool() -> list[str]:
    """promtool's command, with the libraries of its own root file system. Its absence is a failure, never a skip."""
    root = os.environ.get("FRANK_FLEET_PROMETHEUS_ROOTFS")
    if not root:
        pytest.fail(f"FRANK_FLEET_PROMETHEUS_ROOTFS is not set: {HOW}")
    if not Path(root, "usr/bin/promtool").is_file():
        pytest.fail(f"{root} has no promtool: {HOW}")
    return program_of(Path(root), "promtool")
