"""What a host has of the fleet, from its files to its ports: the whole of it, so that a leftover shows."""

import json
from typing import Any

from contract import QUADLET_DIR, USER, as_user

Host = Any
TRASH = f"/home/{USER}/.AGENTTRASH"
PORTS = range(7769, 7773)


def unit_files(host: Host) -> set[str]:
    """Everything in the folder that Quadlet reads, below its subfolders too."""
    return set(host.check_output(f"find {QUADLET_DIR} -mindepth 1 -printf '%P\\n'").split())


def services(host: Host) -> set[str]:
    """Services of the fleet that the user manager knows, in whatever state."""
    lines = as_user(host, "systemctl --user list-units --all --plain --no-legend 'frank-*'").splitlines()
    return {line.split()[0] for line in lines}


def all_containers(host: Host) -> set[str]:
    """Containers, running or not."""
    return {name for found in json.loads(as_user(host, "podman ps --all --format json")) for name in found["Names"]}


def open_ports(host: Host) -> set[int]:
    """Those ports of the fleet, in either shape, that somebody listens on."""
    listening = host.check_output("ss -ltnH").split()
    return {port for port in PORTS if any(word.endswith(f":{port}") for word in listening)}


def manifest_units(host: Host) -> set[str]:
    """Units that the manifest lists."""
    owners = json.loads(host.check_output(f"cat /home/{USER}/.local/share/frank-fleet/manifest.json"))["owners"]
    return {unit for units in owners.values() for unit in units}


def trash(host: Host) -> dict[str, str]:
    """Content of everything that was moved to the trash, by its path there."""
    paths = host.run(f"find {TRASH} -type f").stdout.split()
    return {path: host.check_output(f"cat {path}") for path in paths}
