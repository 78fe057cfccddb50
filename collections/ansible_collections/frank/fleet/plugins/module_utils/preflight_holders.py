"""Does somebody else hold what is to be the fleet's: names of units and containers, or the GPUs?"""

from __future__ import annotations

import json

from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_ports import holders, installed_units
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import is_managed

KFD = "/dev/kfd"
#: Units here win over generated ones of the same name, or are read beside ours (systemd.unit, podman-systemd.unit).
SHADOWS = ("{home}/.config/systemd/user/{name}.service", "/etc/systemd/user/{name}.service")
ELSEWHERE = ("/etc/containers/systemd/users/{name}.container", "/etc/containers/systemd/users/{uid}/{name}.container")


def check_holders(host: Host, user: Identity, names: set[str], devices: list[str], adopt: bool, report: Report) -> None:
    """Look for holders of `names` (units and containers of the plan) and, if engines get /dev/kfd, of the GPUs."""
    for name in sorted(names):
        _check_units(host, user, name, adopt, report)
    _check_containers(host, user, names, report)
    if KFD in devices:
        _check_gpus(host, user, names | installed_units(host, user), report)
    report.row("names", f"{', '.join(sorted(names))}: free, or the fleet's own")


def _check_units(host: Host, user: Identity, name: str, adopt: bool, report: Report) -> None:
    for pattern in (*SHADOWS, *ELSEWHERE):
        path = pattern.format(home=user.home, uid=user.uid, name=name)
        if host.path(path).exists() or host.path(path).is_symlink():
            report.fault(
                f"another unit has the name {name}",
                path,
                "systemd would run it in place of, or beside, the one that is installed",
                f"sudo mv {path} /root/   (then systemctl --user daemon-reload as {user.name})",
            )
    path = f"{user.home}/.config/containers/systemd/{name}.container"
    if host.path(path).is_symlink():
        report.fault(
            f"the unit file of {name} is a symlink", path, "it is not followed", f"mv {path} to another folder"
        )
    elif host.path(path).exists() and not is_managed(host.read(path)) and not adopt:
        report.fault(
            f"the unit {name} is not one of frank-fleet",
            path,
            "a deploy would replace what somebody else wrote",
            "move it away, or have it replaced and kept in ~/.AGENTTRASH: -e llm_adopt=true",
        )


def _check_containers(host: Host, user: Identity, names: set[str], report: Report) -> None:
    """Containers of the user that no Quadlet unit started, with names of ours: a unit's start would replace them."""
    runtime = f"/run/user/{user.uid}"
    if not host.path(f"{runtime}/bus").exists():
        return  # Without the user's manager nothing of his runs, and Podman would keep its state in /tmp.
    environment = (f"XDG_RUNTIME_DIR={runtime}", f"HOME={user.home}", "PATH=/usr/bin:/bin")
    asked = ("podman", "ps", "--all", "--format", "json")
    code, output = host.run("runuser", "--user", user.name, "--", "env", "--chdir=/", "-i", *environment, *asked)
    try:
        if code:
            raise ValueError(f"exit code {code}")
        containers = json.loads(output or "[]") or []
    except ValueError as error:
        report.warn(f"podman ps as {user.name} failed ({error}): nobody knows whose containers have the fleet's names")
        return
    for container in containers:
        unit = (container.get("Labels") or {}).get("PODMAN_SYSTEMD_UNIT")
        for name in sorted(names & set(container.get("Names") or [])):
            if unit != f"{name}.service":
                report.fault(
                    f"another container has the name {name}",
                    f"container {str(container.get('Id'))[:12]}, {container.get('State')}, of {unit or 'no unit'}",
                    "the unit's start would remove it and take its name",
                    f"podman rename {name} {name}-old   (as {user.name}), or podman rm {name}",
                )


def _check_gpus(host: Host, user: Identity, units: set[str], report: Report) -> None:
    for holder in holders(host, {KFD}):
        if not (user.exists and holder.is_unit_of(user, units)):
            report.fault(
                "the GPUs are in use by somebody else",
                f"{holder.name} (process {holder.pid}{f', {holder.unit}' if holder.unit else ''}) has {KFD} open",
                "an engine takes 98 % of its card's memory: one of the two would fail",
                f"sudo kill {holder.pid}, or stop {holder.unit or 'what started it'}",
            )
