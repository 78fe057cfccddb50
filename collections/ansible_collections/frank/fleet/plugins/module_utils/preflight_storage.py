"""Are checkpoints and patches there and readable, and is there room for image and caches?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import ENTER, READ, Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report

STORE = ".local/share/containers/storage"
#: Where the units mount the folder of the checkpoints.
MODELS = PurePosixPath("/models")


def checkpoints_of(engines: Iterable[dict], models_dir: str) -> dict[str, str]:
    """Folder on the host -> what it is (`SNAP of frank-medium-a, ...`), for every checkpoint and drafter."""
    found: dict[str, list[str]] = {}
    for engine in engines:
        for knob in ("SNAP", "DRAFTER"):
            inside = PurePosixPath(engine["knobs"].get(knob, ""))
            if MODELS in inside.parents:
                outside = str(PurePosixPath(models_dir, inside.relative_to(MODELS)))
                found.setdefault(outside, []).append(f"{knob} of {engine['name']}")
    return {path: ", ".join(uses) for path, uses in found.items()}


def check_folders(host: Host, user: Identity, folders: dict[str, str], may_be_empty: list[str], report: Report) -> None:
    """Look whether each folder (path -> what it is) is there, filled and readable by the user.

    Those in `may_be_empty`, and what is below them, must only be there.
    """
    wanted: list[tuple[str, int]] = []
    for path, purpose in folders.items():
        here = host.path(path)
        if not here.is_dir():
            report.fault(
                f"{path} is not a folder on this host",
                purpose,
                "the engines mount it, and podman does not start a container whose mount is missing",
                "sudo mount --all   (a disk is missing? else put it there, or name its place in inventory/host_vars)",
            )
            continue
        names = host.names_in(path)
        if names == [] and not _within(path, may_be_empty):
            report.fault(
                f"{path} is empty",
                purpose,
                "the engine would start without what it needs: an empty folder is often a disk that is not mounted",
                f"findmnt --target {shlex.quote(path)}   (mount or fill it; or list it in host_preflight_may_be_empty)",
            )
        wanted.append((path, ENTER))
        wanted += [(f"{path}/{name}", ENTER if (here / name).is_dir() else READ) for name in names or []]
    denied = host.denied(user, wanted)
    for path in folders:
        below = [entry for entry in denied if entry == path or entry.startswith(f"{path}/")]
        if below:
            more = f" and {len(below) - 1} more" if len(below) > 1 else ""
            report.fault(
                f"{user.name} may not read {below[0]}{more}",
                host.shown(below[0]),
                "the engine reads it with the rights of this user",
                f"sudo chmod -R a+rX {shlex.quote(path)}   (and a+x on every folder above it)",
            )
    report.row("folders", ", ".join(folders) or "none")


def check_space(
    host: Host, user: Identity, image: str, image_gib: float, caches: dict[str, float], report: Report
) -> None:
    """Compare the free space with what the image, unless it is stored already, and the caches (path -> GiB) take."""
    wanted = {path.replace("~", user.home, 1) if path.startswith("~") else path: size for path, size in caches.items()}
    if not has_image(host, user, image):
        wanted[f"{user.home}/{STORE}"] = image_gib
    systems: dict[int, list[str]] = {}
    free: dict[int, float] = {}
    for path in wanted:
        device, free_gib = host.space(path)
        systems.setdefault(device, []).append(path)
        free[device] = free_gib
    for device, paths in systems.items():
        needed = sum(wanted[path] for path in paths)
        if free[device] < needed:
            report.fault(
                f"{free[device]:.0f} GiB are free where {needed:.0f} GiB are needed",
                ", ".join(f"{path} ({wanted[path]:.0f} GiB)" for path in paths),
                "a disk that fills up in the middle of a pull or a compile leaves a half image or a broken cache",
                f"sudo -iu {user.name} podman image prune --all   (images that no container uses)",
            )
    report.row(
        "disk", ", ".join(f"{free[device]:.0f} GiB free for {' and '.join(paths)}" for device, paths in systems.items())
    )


def has_image(host: Host, user: Identity, image: str) -> bool:
    """True if the user's store has an image of this name, read from its index: asking podman would create the store."""
    try:
        entries = json.loads(host.read(f"{user.home}/{STORE}/overlay-images/images.json"))
        return any(image in (entry.get("names") or []) for entry in entries)
    except (ValueError, AttributeError, TypeError):
        return False


def _within(path: str, folders: list[str]) -> bool:
    here = PurePosixPath(path)
    return any(PurePosixPath(folder) in (here, *here.parents) for folder in folders)
