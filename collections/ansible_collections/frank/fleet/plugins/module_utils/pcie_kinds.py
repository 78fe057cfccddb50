"""Tell discrete AMD GPUs from processor graphics, virtual functions, audio functions and other makers' displays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import slot_of
from ansible_collections.frank.fleet.plugins.module_utils.pcie_kfd import Topology
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    CLASS_AUDIO,
    CLASSES_GPU,
    INTEGRATED,
    VENDOR_AMD_CPU,
    VENDOR_AMD_GPU,
    VENDOR_DEAD,
    PciFunction,
)

DGPU, IGPU, VF, AUDIO, UNRESPONSIVE = "dgpu", "igpu", "vf", "audio", "unresponsive"

# Other makers' displays, for dumps that show names and no ids.
_FOREIGN = re.compile(
    r"nvidia|intel|aspeed|matrox|red hat|qxl|virtio|vmware|cirrus|bochs|microsoft|silicon motion|huawei|innotek|xgi",
    re.IGNORECASE,
)


def kind_of(function: PciFunction, functions: Mapping[str, PciFunction], topology: Topology) -> Optional[str]:
    """Return the kind of an AMD graphics or audio function, or None for anything else.

    A function that reads as all ones, ids included, might be a GPU: it is `unresponsive`, not left out.
    """
    if function.vendor == VENDOR_DEAD:
        return UNRESPONSIVE
    if function.class_code == CLASS_AUDIO:
        return AUDIO if function.vendor == VENDOR_AMD_GPU else None
    if function.class_code not in CLASSES_GPU or not _may_be_amd(function):
        return None
    if function.virtual_function:
        return VF
    return IGPU if _is_integrated(function, functions, topology) else DGPU


def _may_be_amd(function: PciFunction) -> bool:
    if function.vendor is not None:
        return function.vendor == VENDOR_AMD_GPU
    return not _FOREIGN.search(function.name or "")


def _is_integrated(function: PciFunction, functions: Mapping[str, PciFunction], topology: Topology) -> bool:
    node = topology.gpu(function.address)
    if function.port == INTEGRATED or (node is not None and node.is_integrated):
        return True
    # Processor graphics shares its slot with the processor's own security and USB functions; a card never does.
    slot = slot_of(function.address)
    return any(f.vendor == VENDOR_AMD_CPU and slot_of(a) == slot for a, f in functions.items())
