"""Which files on a host belong to a Quadlet unit, and what they say of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ansible_collections.frank.fleet.plugins.module_utils.generator import SERVICE_SUFFIXES, default_service
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import is_managed, port_of


def find_files(path: Path, name: str) -> list[Path]:
    """The unit's files, drop-in folders and own environment files, in every folder that Quadlet reads."""
    found = []
    for folder, folders, files in os.walk(path):
        here = Path(folder)
        found += [here / entry for entry in (*files, *folders) if entry == name]
        found += [here / entry for entry in (*folders, *files) if entry == f"{name}.d"]
    for unit in [entry for entry in found if entry.is_file() and not entry.is_symlink()]:
        found += environment_files(path, unit)
    return list(dict.fromkeys(found))


def find_socket(systemd: Path, name: str) -> list[Path]:
    """Our socket unit of this name, and the link that starts it at boot."""
    file, link = systemd / name, systemd / "sockets.target.wants" / name
    if file.is_symlink() or not file.is_file() or not is_managed(file.read_text("utf-8", "replace")):
        return []
    return [entry for entry in (link, file) if entry.is_symlink() or entry.is_file()]


def environment_files(path: Path, unit: Path) -> list[Path]:
    """Environment files below `path` that this unit alone reads."""
    others = [other for other in path.rglob("*") if other.suffix in SERVICE_SUFFIXES and other.is_file()]
    found = []
    for value in re.findall(r"^EnvironmentFile=-?(.+)$", unit.read_text("utf-8", "replace"), re.MULTILINE):
        file = Path(os.path.normpath(unit.parent / value.strip().strip('"').replace("%h", str(Path.home()))))
        shared = any(other != unit and file.name in other.read_text("utf-8", "replace") for other in others)
        if path in file.parents and file.is_file() and not shared:
            found.append(file)
    return found


def service_of(name: str, files: list[Path]) -> str:
    """The service that the unit becomes."""
    for file in files:
        if file.name == name and file.is_file():
            named = re.search(r"^ServiceName=(\S+)$", file.read_text("utf-8", "replace"), re.MULTILINE)
            if named:
                return f"{named[1]}.service"
    return default_service(name)


def ports_of(name: str, files: list[Path]) -> list[int]:
    """The TCP ports that the unit's files of this name listen on."""
    plain = [file for file in files if file.name == name and file.is_file() and not file.is_symlink()]
    return [port for port in (port_of(file.read_text("utf-8", "replace")) for file in plain) if port]
