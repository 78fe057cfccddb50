"""Ask the host's own Quadlet generator what it would make of a set of unit files."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

#: Where distributions put the generator: Debian and Fedora, Arch, a build from source.
LOCATIONS = (
    "/usr/libexec/podman/quadlet",
    "/usr/lib/podman/quadlet",
    "/usr/local/libexec/podman/quadlet",
    "/usr/lib/systemd/user-generators/podman-user-generator",
)

#: What the generator names a service by default, by the suffix of the unit file.
SERVICE_SUFFIXES = {
    ".container": "",
    ".kube": "",
    ".pod": "-pod",
    ".volume": "-volume",
    ".network": "-network",
    ".image": "-image",
    ".build": "-build",
}

#: Units that run something, so they must be started at boot. The others are pulled in by these.
RUNNING = (".container", ".kube", ".pod")


def find_generator(given: str | None) -> str | None:
    """Path of the generator, or None if there is none on this host."""
    candidates = [given] if given else LOCATIONS
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def default_service(unit: str) -> str:
    """The service a unit file becomes unless it says otherwise (ServiceName=)."""
    path = Path(unit)
    return f"{path.stem}{SERVICE_SUFFIXES[path.suffix]}.service"


@dataclass
class Verdict:
    """What the generator made of a set of units."""

    services: dict[str, str] = field(default_factory=dict)  # unit file name -> service name
    faults: list[str] = field(default_factory=list)  # why one of our units would not run
    warnings: list[str] = field(default_factory=list)  # anything else it complained about


def validate(generator: str, live: Path, units: dict[str, str]) -> Verdict:
    """Run the generator over our `units` (name -> text) together with the other unit files below `live`.

    Units refer to each other and share one name space, so only the whole set tells the truth. Nothing under `live` is
    touched: the set is staged in a folder of its own, outside every path that Quadlet reads.
    """
    with tempfile.TemporaryDirectory(prefix="frank-fleet-stage-") as folder:
        stage, output = Path(folder, "units"), Path(folder, "generated")
        stage.mkdir()
        output.mkdir()
        _stage_others(live, stage, set(units))
        for name, text in units.items():
            Path(stage, name).write_text(text, encoding="utf-8", errors="surrogateescape")
        complaints = _generate(generator, stage, output)
        return _judge(stage, output, units, complaints)


def _stage_others(live: Path, stage: Path, ours: set[str]) -> None:
    for source in live.rglob("*") if live.is_dir() else ():
        relative = source.relative_to(live)
        drop_in = source.suffix == ".conf" and source.parent.suffix == ".d"
        if not source.is_file() or not (source.suffix in SERVICE_SUFFIXES or drop_in) or str(relative) in ours:
            continue
        target = stage / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.access(source, os.R_OK):
            shutil.copyfile(source, target)


def _generate(generator: str, stage: Path, output: Path) -> list[str]:
    environment = {**os.environ, "QUADLET_UNIT_DIRS": str(stage)}
    # Its exit code says little: 0 in spite of faults before podman 4.6, 1 for a fault in somebody else's unit after.
    command = [generator, "-no-kmsg-log", "-user", str(output)]
    finished = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60
    )
    lines = finished.stdout.decode("utf-8", "replace").splitlines()
    lines = [line.split("]: ", 1)[1] if line.startswith("quadlet-generator[") else line for line in lines]
    return [line.replace(f"{stage}/", "") for line in lines if line.strip() and not line.startswith("Loading source ")]


def _judge(stage: Path, output: Path, units: dict[str, str], complaints: list[str]) -> Verdict:
    sources = {_source(service): service.name for service in output.glob("*.service")}
    verdict = Verdict(services={name: sources[str(stage / name)] for name in units if str(stage / name) in sources})
    for name in units:
        about = [line for line in complaints if name in line]
        service = verdict.services.get(name)
        if service is None:
            reason = "; ".join(about) or "; ".join(complaints) or "it gave no reason"
            verdict.faults.append(f"{name} would be dropped: {reason}")
        elif _must_start_at_boot(name) and not (output / "default.target.wants" / service).is_symlink():
            verdict.faults.append(f"{name} would not start at boot: add WantedBy=default.target to its [Install]")
    told = "\n".join(verdict.faults)
    verdict.warnings = [line for line in complaints if line not in told]
    return verdict


def _source(service: Path) -> str | None:
    for line in service.read_text(encoding="utf-8", errors="replace").split("\n"):
        if line.startswith("SourcePath="):
            return line.split("=", 1)[1]
    return None


def _must_start_at_boot(name: str) -> bool:
    path = Path(name)
    return path.suffix in RUNNING and not path.stem.endswith("@")
