"""Write and move files so that a kill at any moment loses nothing."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from pathlib import Path

#: Ends in nothing that Quadlet or systemd reads, so a temp file left by a kill can never be taken for a unit.
TEMP_PREFIX, TEMP_SUFFIX = ".frank-fleet-", ".tmp"


class UnsafePathError(Exception):
    """A path leads through a symlink, or something other than a plain file or folder is in the way."""


def refuse_links(path: Path, base: Path | None = None) -> None:
    """Raise UnsafePathError if `path` or a folder on the way to it, below `base` (default: home), is a symlink.

    What lies above the base is the administrator's: a home folder behind a link is common and safe.
    """
    base = base or Path.home()
    below = path.relative_to(base).parts if base in path.parents else path.parts[1:]
    here = base if base in path.parents else Path(path.anchor)
    for part in below:
        here = here / part
        if here.is_symlink():
            raise UnsafePathError(f"{here} is a symlink to {here.readlink()}; replace it by a real file or folder")


def read_plain(path: Path) -> str | None:
    """Text of a regular file, None if there is none. Raises UnsafePathError for anything else in its place."""
    if path.is_symlink():
        raise UnsafePathError(f"{path} is a symlink to {path.readlink()}; move it away, it is not followed")
    if not path.exists():
        return None
    if not path.is_file():
        raise UnsafePathError(f"{path} is not a regular file; move it away")
    return path.read_bytes().decode("utf-8", "surrogateescape")


def write_atomically(path: Path, text: str, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Replace `path` in one step: after a kill or power cut there is the old file or the new one, never half of it.

    `owner` is a pair of user and group number; without it the file is the caller's.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=TEMP_PREFIX, suffix=TEMP_SUFFIX, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            if owner:
                os.fchown(stream.fileno(), *owner)
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_temporaries(folder: Path) -> None:
    """Remove temp files that a killed run left in a folder."""
    for leftover in folder.glob(f"{TEMP_PREFIX}*{TEMP_SUFFIX}"):
        leftover.unlink()


class Trash:
    """A place that keeps what is removed: `<root>/<UTC time>-<n>/<relative path>`, a new folder for each run."""

    def __init__(self, root: Path):
        self.root = root
        self.folder: Path | None = None

    def open(self) -> None:
        """Make this run's folder; raises OSError if the trash cannot be written, before anything was moved."""
        if self.folder:
            return
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        number = 1
        while True:
            folder = self.root / f"{stamp}-{number}"
            try:
                folder.mkdir(mode=0o700)  # mkdir, not exists(): two runs in one second get two folders.
            except FileExistsError:
                number += 1
                continue
            self.folder = folder
            return

    def copy(self, source: Path, relative: Path) -> Path:
        """Keep a copy of a regular file."""
        target = self._place(relative)
        shutil.copy2(source, target, follow_symlinks=False)
        return target

    def move(self, source: Path, relative: Path) -> Path:
        """Move a file, a folder or a symlink (never what it points to) here, from another file system too."""
        target = self._place(relative)
        try:
            source.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_then_remove(source, target)
        return target

    def _place(self, relative: Path) -> Path:
        self.open()
        target = self.folder / relative
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return target


def _copy_then_remove(source: Path, target: Path) -> None:
    """Move across file systems: the source goes only when the copy is complete under its final name."""
    partial = target.with_name(target.name + ".partial")
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, partial, symlinks=True)
        partial.rename(target)
        shutil.rmtree(source)
    else:
        shutil.copy2(source, partial, follow_symlinks=False)
        partial.rename(target)
        source.unlink()
