"""The Python that runs ours: the engine image's, as deployed.

A Python that was built without profile-guided optimisation (pyenv's default) takes up to twice as long for the same
code, which says nothing of a deployed proxy: at 1 kB on one connection it added 93 µs where the image's added 82.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.proxy_overhead.processes import REPOSITORY, ChildError, program_of, python_env
from engine_image.cli import SITE_PACKAGES

BUILD = REPOSITORY / "tools" / "engine_image" / "build"
NEEDED = ("blake3", "httptools", "msgspec", "prometheus_client", "uvloop")


@dataclass(frozen=True)
class Interpreter:
    """How a Python is started: its command, and beside the environment what it needs there to find its packages."""

    command: Sequence[str] = (sys.executable,)
    home: str = ""
    packages: Sequence[Path] = ()

    def env(self, *paths: Path) -> dict[str, str]:
        """Return an environment in which `paths` are importable."""
        home = {"PYTHONHOME": self.home} if self.home else {}
        return python_env(*paths, *self.packages) | home

    def version(self) -> str:
        """Return its version, "3.13.5"; ChildError if it cannot be started or lacks a package of the proxy's."""
        code = f"import platform, {', '.join(NEEDED)}; print(platform.python_version())"
        command = [*self.command, "-c", code]
        try:
            done = subprocess.run(command, env=self.env(), capture_output=True, text=True, check=False)
        except OSError as error:
            raise ChildError(f"{self.command[0]} cannot be started: {error.strerror}") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ChildError(f"{self.command[-1]} cannot run the proxy: {last}")
        return done.stdout.strip()


def of_engine_image(folder: Path) -> Interpreter:
    """Unpack the engine image (tools/engine_image) into `folder` and return its Python; ChildError without an image.

    It is started through its own dynamic loader, so that paths are this machine's and no privilege is needed.
    """
    built = subprocess.run([BUILD], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise ChildError("without the engine image name a Python with its packages: --python .venv/bin/python")
    with tarfile.open(built.stdout.strip()) as image:
        for layer in json.load(_member(image, "manifest.json"))[0]["Layers"]:
            with tarfile.open(fileobj=_member(image, layer)) as content:
                content.extractall(folder, filter="fully_trusted")
    return Interpreter(program_of(folder, "python3"), str(folder / "usr"), [folder / SITE_PACKAGES.lstrip("/")])


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    file = archive.extractfile(name)
    if file is None:
        raise ChildError(f"the engine image has no {name}")
    return file
