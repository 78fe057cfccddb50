"""One private network for all hosts: each in its own namespace, on a bridge that has a namespace of its own.

The bridge lives in a namespace because a packet filter of the outer machine (Docker's drops what it forwards) would
otherwise sit between two hosts.
"""

import ipaddress
from collections.abc import Iterable
from pathlib import Path

from test_host.common import ToolError, run, succeeds

SUBNET = ipaddress.ip_network("10.203.77.0/24")
OUTER_ADDRESS = str(SUBNET[1])
OUTER_LINK = "frank-fleet"
BRIDGE_NAMESPACE = "frank-fleet"
BRIDGE = "hosts"
GUEST_LINK = "host0"


def choose_address(wanted: str | None, taken: Iterable[str]) -> str:
    """Return the wanted address, or the lowest free one of the subnet.

    Raises ToolError if the wanted one is outside the subnet, reserved or taken, or if none is free.
    """
    free = [str(address) for address in list(SUBNET.hosts())[1:] if str(address) not in set(taken)]
    if wanted is None:
        if not free:
            raise ToolError(f"no free address in {SUBNET}: take a host down")
        return free[0]
    if wanted in set(taken):
        raise ToolError(f"{wanted} belongs to another host: see `tools/test_host/host status`")
    if wanted not in free:
        raise ToolError(f"{wanted} is not an address for a host: use {SUBNET[2]} to {SUBNET[-2]}")
    return wanted


def namespace(name: str) -> str:
    """Return the network namespace of a host."""
    return f"{BRIDGE_NAMESPACE}-{name}"


def namespace_path(name: str) -> Path:
    """Return the file that holds the network namespace of a host."""
    return Path("/run/netns") / namespace(name)


def attach(name: str, address: str) -> None:
    """Give a host its namespace and its link to the bridge; what an earlier run left of them is replaced."""
    if not _bridge_is_whole():
        _make_bridge()
    detach(name)
    port = _port(address)
    succeeds("ip", "-n", BRIDGE_NAMESPACE, "link", "del", port)
    run("ip", "netns", "add", namespace(name))
    run("ip", "-n", namespace(name), "link", "set", "lo", "up")
    run(
        *("ip", "-n", BRIDGE_NAMESPACE, "link", "add", port, "type", "veth"),
        *("peer", "name", GUEST_LINK, "netns", namespace(name), "address", _hardware_address(address)),
    )
    run("ip", "-n", BRIDGE_NAMESPACE, "link", "set", port, "master", BRIDGE, "up")


def detach(name: str) -> None:
    """Remove a host's namespace and link, if they exist."""
    if namespace_path(name).exists():
        # The link goes first: a namespace that a mount elsewhere still holds would keep it alive.
        succeeds("ip", "-n", namespace(name), "link", "del", GUEST_LINK)
        run("ip", "netns", "del", namespace(name))


def in_use() -> bool:
    """Tell whether any host has a namespace, whoever brought it up."""
    return any(Path("/run/netns").glob(f"{BRIDGE_NAMESPACE}-*"))


def remove_bridge() -> None:
    """Remove the network that the hosts share, if it exists."""
    succeeds("ip", "link", "del", OUTER_LINK)
    if (Path("/run/netns") / BRIDGE_NAMESPACE).exists():
        succeeds("ip", "-n", BRIDGE_NAMESPACE, "link", "del", BRIDGE)
        run("ip", "netns", "del", BRIDGE_NAMESPACE)


def _port(address: str) -> str:
    return f"host{address.rpartition('.')[2]}"


def _hardware_address(address: str) -> str:
    """Return the same hardware address for a host each time: neighbours keep the old one for half a minute."""
    return "02:00:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address).packed)


def _bridge_is_whole() -> bool:
    """Tell whether a former run got to its last step, which brings the outer link up."""
    link = Path("/sys/class/net") / OUTER_LINK / "operstate"
    return link.exists() and link.read_text().strip() == "up"


def _make_bridge() -> None:
    remove_bridge()
    if routes := run("ip", "-o", "route", "show", "to", "root", str(SUBNET)).splitlines():
        raise ToolError(f"this machine already has a network there: {routes[0].strip()}; hosts need {SUBNET}")
    run("ip", "netns", "add", BRIDGE_NAMESPACE)
    try:
        run("ip", "-n", BRIDGE_NAMESPACE, "link", "add", BRIDGE, "type", "bridge")
    except ToolError as error:
        raise ToolError(f"this kernel has no bridges (CONFIG_BRIDGE, module bridge): {error}") from error
    run("ip", "-n", BRIDGE_NAMESPACE, "link", "set", BRIDGE, "up")
    run("ip", "link", "add", OUTER_LINK, "type", "veth", "peer", "name", "outside", "netns", BRIDGE_NAMESPACE)
    run("ip", "-n", BRIDGE_NAMESPACE, "link", "set", "outside", "master", BRIDGE, "up")
    run("ip", "addr", "add", f"{OUTER_ADDRESS}/{SUBNET.prefixlen}", "dev", OUTER_LINK)
    run("ip", "link", "set", OUTER_LINK, "up")
