"""Build the engine image as a file for `podman load`, and print its path."""

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from test_host.common import ToolError, cache_dir, locked, say, succeeds
from test_host.machine import require_ready
from test_host.rootfs import OPTIONS, SUITE, debootstrap

from engine_image.archive import Layer, LayerWriter, digest, image_config, image_id, write_archive

TAG = "docker.io/stilldeadcode/vllm-radiance:0.9.3"
ENTRYPOINT = "/opt/radiance_entrypoint.sh"
# Python of the suite; the real image carries its own 3.12 in the same place.
PYTHON = "3.13"
SITE_PACKAGES = f"/opt/vllm/lib/python{PYTHON}/site-packages"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
KEPT_IMAGES = 4


def main(argv: Sequence[str]) -> int:
    """Run the tool; return 0, or 1 after one line on stderr that says what is wrong."""
    parser = argparse.ArgumentParser(prog="build", description="Build the simulated engine image, print its path.")
    parser.add_argument("--variant", default="", help="another image ID with the same content, to test image changes")
    arguments = parser.parse_args(argv)
    try:
        require_ready()
        with locked("engine-image"):
            print(build(arguments.variant))
    except ToolError as error:
        print(f"engine_image: {error}", file=sys.stderr)
        return 1
    return 0


def build(variant: str = "") -> Path:
    """Return the docker-archive of the image, built if its content isn't cached; raise ToolError."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise ToolError(f"no image for {machine}: only for {' and '.join(ARCHITECTURES)}")
    cache = cache_dir()
    requirements = (HERE / "requirements.txt").read_text()
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        layers = [
            _cached("base", repr((SUITE, OPTIONS)), _write_base, "Debian with Python (usually 20 s)"),
            _cached("python", requirements + PYTHON + machine, _write_packages, "Python packages (usually 10 s)"),
            _top_layer(Path(scratch) / "top.tar"),
        ]
        labels = {"frank-fleet.variant": variant} if variant else {}
        config = image_config(layers, ARCHITECTURES[machine], [ENTRYPOINT], labels)
        target = cache / f"engine-image-{image_id(config)[:12]}.tar"
        if not target.exists():
            unfinished = Path(scratch) / "image.tar"
            write_archive(unfinished, layers, config, TAG)
            unfinished.rename(target)
            say(f"engine_image: wrote {target.name}, {target.stat().st_size >> 20} MiB")
    os.utime(target)
    _prune(cache)
    return target


def _cached(name: str, recipe: str, write: Callable[[Path], None], what: str) -> Layer:
    """Return a layer from the cache, or write it there; layers of older recipes go."""
    target = cache_dir() / f"engine-{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.tar"
    if not target.exists():
        started = time.monotonic()
        say(f"engine_image: building the layer {what}")
        unfinished = target.with_name(f"unfinished-{target.name}")
        unfinished.unlink(missing_ok=True)
        write(unfinished)
        for old in cache_dir().glob(f"engine-{name}-*.tar"):
            old.unlink()
        unfinished.rename(target)
        say(f"engine_image: built it in {time.monotonic() - started:.0f} s")
    return Layer(target, digest(target))


def _write_base(target: Path) -> None:
    # Device nodes can't be unpacked by an unprivileged user, and a container gets its own.
    debootstrap(target, ["python3"], ["--variant=essential", "--skip=output/dev", "--format=tar"])


def _write_packages(target: Path) -> None:
    tags = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    platforms = [f"--platform={tag}_{platform.machine()}" for tag in tags]
    with tempfile.TemporaryDirectory() as folder:
        command = [_python_with_pip(), "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--only-binary=:all:", f"--python-version={PYTHON}", *platforms]
        command += [f"--target={folder}", f"--requirement={HERE / 'requirements.txt'}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
            raise ToolError(f"pip can't fetch the image's packages: {errors[-1]}")
        layer = LayerWriter(target)
        layer.tree(Path(folder), SITE_PACKAGES)
        layer.close()


def _python_with_pip() -> str:
    for python in (sys.executable, str(REPOSITORY / ".venv/bin/python")):
        if Path(python).exists() and succeeds(python, "-c", "import pip"):
            return python
    raise ToolError("no pip: make the project's .venv first (`make setup`), or `apt-get install python3-pip`")


def _top_layer(target: Path) -> Layer:
    """Write what changes from day to day: the simulator, and the few files that make the image like the real one."""
    layer = LayerWriter(target)
    layer.file("/etc/profile.d/vllm.sh", (HERE / "files/profile.sh").read_bytes())
    layer.file(ENTRYPOINT, (HERE / "files/radiance_entrypoint.sh").read_bytes(), 0o755)
    layer.file("/opt/vllm/bin/vllm", (HERE / "files/vllm").read_bytes(), 0o755)
    layer.link("/opt/vllm/bin/python3", "/usr/bin/python3")
    layer.file("/opt/vllm/pyvenv.cfg", f"home = /usr/bin\nversion = {PYTHON}\n".encode())
    layer.file(f"{SITE_PACKAGES}/r4d.so", b"r4d.so as the image ships it\n")
    layer.tree(REPOSITORY / "tools/engine_simulator", f"{SITE_PACKAGES}/engine_simulator")
    layer.close()
    return Layer(target, digest(target))


def _prune(cache: Path) -> None:
    """Keep the images last asked for; each change of the simulator makes another."""
    images = sorted(cache.glob("engine-image-*.tar"), key=lambda image: image.stat().st_mtime)
    for old in images[:-KEPT_IMAGES]:
        old.unlink()
