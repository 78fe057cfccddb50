"""Units go through Podman's own generator, taken from the root file system of the test host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from units.quadlet import Generate, Generated

GENERATOR = "usr/libexec/podman/quadlet"


@pytest.fixture(scope="session")
def rootfs() -> Path:
    """Root file system of the test host (Debian 13). Its absence is a failure, never a skip."""
    root = os.environ.get("FRANK_FLEET_ROOTFS")
    if not root:
        pytest.fail("FRANK_FLEET_ROOTFS is not set: export FRANK_FLEET_ROOTFS=$(tools/test_host/host rootfs)")
    if not Path(root, GENERATOR).is_file():
        pytest.fail(f"FRANK_FLEET_ROOTFS={root} has no {GENERATOR}: make it anew with tools/test_host/host rootfs")
    return Path(root)


@pytest.fixture(scope="session")
def generator(rootfs: Path) -> Path:
    """Podman's Quadlet generator; a static program, so it runs outside its own root file system."""
    return rootfs / GENERATOR


@pytest.fixture(scope="session")
def generate(generator: Path, tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """Run the generator, as it runs for a user manager, over unit files given as name -> text."""

    def run(units: dict[str, str]) -> Generated:
        work = tmp_path_factory.mktemp("quadlet")
        source, output = work / "units", work / "generated"
        output.mkdir()
        source.mkdir()
        for name, text in units.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        finished = subprocess.run(
            [generator, "-no-kmsg-log", "-user", output],
            env={**os.environ, "QUADLET_UNIT_DIRS": str(source)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return Generated(
            files={path.name: path.read_text(encoding="utf-8") for path in output.glob("*.service")},
            wants=frozenset(path.name for path in output.glob("default.target.wants/*")),
            stderr=finished.stderr,
            returncode=finished.returncode,
        )

    return run
