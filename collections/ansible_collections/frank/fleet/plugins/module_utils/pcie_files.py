"""Read small files that may be absent, forbidden, or refuse to be read; sysfs has all three."""

from __future__ import annotations

from pathlib import Path
from typing import Optional


def read_bytes(path: Path) -> Optional[bytes]:
    """Return the content, or None when it can't be had for whatever reason."""
    try:
        return path.read_bytes()
    except (OSError, ValueError):
        return None


def read_text(path: Path) -> Optional[str]:
    """Return the content without surrounding blanks, or None when it can't be had. Never fails on odd bytes."""
    content = read_bytes(path)
    return None if content is None else content.decode("utf-8", errors="replace").strip()


def read_number(path: Path) -> Optional[int]:
    """Return the number in a sysfs file (`0x1002` or `4098`), or None."""
    try:
        return int(read_text(path) or "", 0)
    except ValueError:
        return None


def entries(path: Path) -> Optional[list[Path]]:
    """Return what a folder holds, sorted, or None when it can't be listed."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return None
