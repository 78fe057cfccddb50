"""PCI addresses in one spelling, so that sysfs, KFD, log lines and lspci text can be joined."""

from __future__ import annotations

import re
from typing import Optional

_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])")


def normalise(text: object) -> Optional[str]:
    """Return `text` as `dddd:bb:dd.f` in lower case, or None when it is no PCI address.

    lspci leaves the domain out when a machine has only one; VMD domains are longer than four digits (`10000:e1:00.0`).
    """
    match = _ADDRESS.fullmatch(str(text).strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    if int(device, 16) > 0x1F:
        return None
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def compose(domain: int, bus: int, device: int, function: int) -> str:
    """Return the normalised address for its four numbers."""
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def domain_of(address: str) -> str:
    """Return the domain of a normalised address, as text."""
    return address.split(":")[0]


def bus_of(address: str) -> int:
    """Return the bus number of a normalised address."""
    return int(address.split(":")[1], 16)


def slot_of(address: str) -> str:
    """Return a normalised address without its function: what all functions of one card share."""
    return address.rsplit(".", 1)[0]


def short(address: str) -> str:
    """Return an address as lspci shows it: without the domain when that is 0000."""
    return address[len("0000:") :] if address.startswith("0000:") else address


def sort_key(address: str) -> tuple[int, int, str]:
    """Return a key that sorts addresses by number (domain 10000 comes after 0000 and after ffff)."""
    domain, bus, rest = address.split(":")
    return int(domain, 16), int(bus, 16), rest
