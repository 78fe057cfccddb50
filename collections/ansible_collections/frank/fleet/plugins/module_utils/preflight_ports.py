"""Are the ports of the fleet free, or held by its own units?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import is_managed

LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
MANIFEST = ".local/share/frank-fleet/manifest.json"


class Holder(NamedTuple):
    """A process that listens: its number, name and control group."""

    pid: int
    name: str
    cgroup: str

    def is_unit_of(self, user: Identity, units: set[str]) -> bool:
        """True if it runs in one of these units (names without suffix) of the user's manager."""
        services = re.findall(r"/([^/]+)\.service", self.cgroup)
        return f"user@{user.uid}" in services and bool(units & set(services))

    def is_manager_of(self, user: Identity) -> bool:
        """True if it is the user's systemd, which holds the ports of socket units."""
        return self.cgroup.rstrip().endswith(f"/user@{user.uid}.service/init.scope")

    @property
    def unit(self) -> str | None:
        """The unit that it runs in, as systemctl names it; None for a login session."""
        units = re.findall(r"/([^/]+\.(?:service|scope))", self.cgroup)
        own = [unit for unit in units if not unit.startswith(("user@", "session-", "init.scope"))]
        return own[0] if own else None


def check_ports(host: Host, user: Identity, ports: dict[int, str], units: set[str], report: Report) -> None:
    """Look at who listens on `ports` (port -> what will); `units` are the fleet's own, in either shape."""
    inodes = listeners(host)
    ours = units | installed_units(host, user)
    lowest = host.read("/proc/sys/net/ipv4/ip_unprivileged_port_start").strip()
    for port, purpose in sorted(ports.items()):
        if lowest.isdigit() and port < int(lowest):
            report.fault(
                f"port {port} of {purpose} is for root only",
                "net.ipv4.ip_unprivileged_port_start",
                f"{purpose} runs rootless and cannot listen below {lowest}",
                f"sudo sysctl -w net.ipv4.ip_unprivileged_port_start={port}, or a port from {lowest} in llm_fleet",
            )
        if port in inodes:
            holder = _holder(host, inodes[port])
            if not (holder and user.exists and _is_ours(host, holder, user, ours, port)):
                _add_fault(port, purpose, holder, report)
    report.row("ports", f"{', '.join(str(port) for port in sorted(ports))}: free, or held by the fleet itself")


def _is_ours(host: Host, holder: Holder, user: Identity, units: set[str], port: int) -> bool:
    """True if one of `units` listens, or the user's systemd does for a socket unit of one of them."""
    if not holder.is_manager_of(user):
        return holder.is_unit_of(user, units)
    sockets = [host.read(f"{user.home}/.config/systemd/user/{unit}.socket") for unit in units]
    return any(is_managed(text) and re.search(rf"^ListenStream=\S*:{port}$", text, re.MULTILINE) for text in sockets)


def listeners(host: Host) -> dict[int, set[str]]:
    """Sockets (inode numbers) that listen, by TCP port, on any address of this host."""
    found: dict[int, set[str]] = {}
    for table in ("tcp", "tcp6"):
        for line in host.read(f"/proc/net/{table}").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTEN:
                found.setdefault(int(fields[1].rsplit(":", 1)[1], 16), set()).add(fields[9])
    return found


def installed_units(host: Host, user: Identity) -> set[str]:
    """Names of the units that earlier deploys installed, also those that the inventory no longer has."""
    try:
        owners = json.loads(host.read(f"{user.home}/{MANIFEST}"))["owners"]
        return {Path(unit).stem for units in owners.values() for unit in units}
    except (ValueError, KeyError, TypeError, AttributeError):
        return set()


def holders(host: Host, targets: set[str]) -> Iterator[Holder]:
    """Processes that have one of these open, as /proc names them: `/dev/kfd`, `socket:[INODE]`."""
    for process in sorted(host.path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            if any(str(file.readlink()) in targets for file in (process / "fd").iterdir()):
                name = (process / "comm").read_text().strip()
                yield Holder(int(process.name), name, (process / "cgroup").read_text())
        except OSError:
            continue  # The process ended meanwhile.


def _holder(host: Host, inodes: set[str]) -> Holder | None:
    """The process that has one of the sockets open, None if it cannot be seen."""
    return next(holders(host, {f"socket:[{inode}]" for inode in inodes}), None)


def _add_fault(port: int, purpose: str, holder: Holder | None, report: Report) -> None:
    who, fix = "something that cannot be seen", f"sudo ss -ltnp 'sport = :{port}'   (names it)"
    if holder:
        unit = holder.unit
        who = f"{holder.name} (process {holder.pid}{f', {unit}' if unit else ''})"
        fix = f"sudo kill {holder.pid}"
        if unit:
            # Units of users are often generated, and those cannot be disabled.
            fix = (
                f"systemctl --user stop {unit}" if "/user@" in holder.cgroup else f"sudo systemctl disable --now {unit}"
            )
    report.fault(
        f"port {port} of {purpose} is taken",
        f"held by {who}",
        "two cannot listen on one port: the unit would fail at every start",
        f"{fix}, or give {purpose} another port in llm_fleet",
    )
