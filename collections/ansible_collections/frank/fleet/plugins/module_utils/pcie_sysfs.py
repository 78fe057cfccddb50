"""Read the PCI functions of a machine, or of a captured tree, from /sys/bus/pci/devices."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import normalise
from ansible_collections.frank.fleet.plugins.module_utils.pcie_config import decode
from ansible_collections.frank.fleet.plugins.module_utils.pcie_files import entries, read_bytes, read_number
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    CLASS_BRIDGE,
    CLASSES_GPU,
    PciFunction,
)

_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


def read_functions(root: Path) -> dict[str, PciFunction]:
    """Return every PCI function under `root`/sys by address; an empty dict when there is no such tree.

    Config space is read for displays and bridges only: reading it wakes a sleeping device.
    """
    functions = {}
    for link in entries(root / "sys/bus/pci/devices") or []:
        address = normalise(link.name)
        if address is not None:
            functions[address] = _read_function(address, link)
    return functions


def _read_function(address: str, link: Path) -> PciFunction:
    class_code = read_number(link / "class")
    function = PciFunction(address)
    if class_code is not None:
        function.class_code = class_code >> 8
    if function.class_code in CLASSES_GPU or function.class_code == CLASS_BRIDGE:
        decoded = decode(address, read_bytes(link / "config") or b"")
        decoded.class_code = function.class_code
        function = decoded
    # The kernel's own files outlive a device that fell off the bus and answers with ones only.
    function.vendor = read_number(link / "vendor")
    function.device = read_number(link / "device")
    _read_surroundings(function, link)
    return function


def _read_surroundings(function: PciFunction, link: Path) -> None:
    try:
        target = link.resolve()
        if link.is_symlink():
            function.parents = _bridges_above(target)
        driver = link / "driver"
        function.driver = driver.resolve().name if driver.is_symlink() else None
        function.virtual_function = (link / "physfn").is_symlink()
    except (OSError, RuntimeError):  # a loop of links in a damaged tree
        return
    for node in entries(link / "drm") or []:
        if node.name.startswith("renderD"):
            function.render_node = f"/dev/dri/{node.name}"


def _bridges_above(device: Path) -> list[str]:
    """Return the addresses between the device and its host bridge, nearest first.

    A VMD domain hangs below an endpoint of domain 0000; its root bus is the host bridge (`pci10000:e0`) nearest to it.
    """
    bridges = []
    for parent in device.parents:
        if _HOST_BRIDGE.fullmatch(parent.name):
            break
        address = normalise(parent.name)
        if address is not None:
            bridges.append(address)
    return bridges
