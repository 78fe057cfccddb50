"""Read KFD's topology (/sys/class/kfd) and what it says about the link from a GPU to the CPU.

The driver marks that link when it could not enable AtomicOps to the root port, and ROCm believes the mark. It is the
only source that needs no root and the one that decides in practice. Flag bits as in amdkfd/kfd_crat.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import compose
from ansible_collections.frank.fleet.plugins.module_utils.pcie_files import entries, read_text
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    MISSING,
    OK,
    PROBLEM_KFD,
    UNKNOWN,
    Fault,
    Finding,
)

_ENABLED, _NO_ATOMICS_32, _NO_ATOMICS_64 = 0x1, 0x4, 0x8
LINK_PCIE = 2
_NODES = ("sys/class/kfd/kfd/topology/nodes", "sys/devices/virtual/kfd/kfd/topology/nodes")
_HEAPS_VRAM = (1, 2)  # frame buffer, CPU-visible or not
# gfx_target_version of processors with built-in graphics (LLVM, "AMDGPU Processors", type APU).
_TARGETS_INTEGRATED = frozenset(
    {80001, 90002, 90009, 90012, 100103, 100303, 100305, 100306, 100307, 110003, 110500, 110501, 110502, 110503}
)


@dataclass
class Node:
    """One topology node; a node that may not be read has no properties."""

    number: int
    properties: dict[str, int] = field(default_factory=dict)
    links: list[dict[str, int]] = field(default_factory=list)
    heaps: list[int] = field(default_factory=list)  # heap_type of each memory bank

    @property
    def is_gpu(self) -> bool:
        """Return whether this node computes."""
        return self.properties.get("simd_count", 0) > 0

    @property
    def is_cpu(self) -> bool:
        """Return whether this node has CPU cores (an old APU has both)."""
        return self.properties.get("cpu_cores_count", 0) > 0

    @property
    def is_integrated(self) -> bool:
        """Return whether this GPU is part of the processor."""
        no_vram = bool(self.heaps) and not any(h in _HEAPS_VRAM for h in self.heaps)
        return self.is_cpu or no_vram or self.properties.get("gfx_target_version") in _TARGETS_INTEGRATED

    @property
    def address(self) -> Optional[str]:
        """Return the PCI address of a GPU node."""
        location = self.properties.get("location_id")
        if not self.is_gpu or location is None:
            return None
        return compose(self.properties.get("domain", 0), location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7)


@dataclass
class Topology:
    """All nodes; `present` is False when the machine has no KFD topology at all."""

    nodes: list[Node] = field(default_factory=list)
    present: bool = False

    def gpu(self, address: str) -> Optional[Node]:
        """Return the node of the GPU at a PCI address."""
        return next((n for n in self.nodes if n.address == address), None)


def read_topology(root: Path) -> Topology:
    """Return the topology under `root`/sys; whatever can't be read is left out, never guessed."""
    for folder in _NODES:
        found = entries(root / folder)
        if found is not None:
            return Topology([_read_node(f) for f in found if f.name.isdecimal() and len(f.name) < 9], present=True)
    return Topology()


def parse_properties(text: Optional[str]) -> dict[str, int]:
    """Return the `name value` lines of a properties file. Values are decimal and may exceed 32 bits unsigned."""
    properties = {}
    for line in (text or "").splitlines():
        name, _, value = line.strip().partition(" ")
        if value.strip().isdecimal() and len(value) < 25:
            properties[name] = int(value)
    return properties


def judge(topology: Topology, address: str) -> Finding:
    """Return what KFD says about the GPU at `address`."""
    if not topology.present:
        return _unknown("there is no KFD topology: amdgpu is not loaded, or /sys is not there")
    node = topology.gpu(address)
    if node is None:
        hidden = [n.number for n in topology.nodes if not n.properties]
        if hidden:
            return _unknown(f"KFD node {_list(hidden)} may not be read (device cgroup or container)")
        return _unknown("KFD has no node for this GPU: amdgpu is not bound to it, or the kernel skipped it")
    cpus = {n.number for n in topology.nodes if n.is_cpu}
    readings = [_judge_link(link, address) for link in node.links if link.get("node_to") in cpus]
    for verdict in (MISSING, OK, UNKNOWN):
        for reading in readings:
            if reading.verdict == verdict:
                return reading
    return _unknown(f"KFD node {node.number} shows no link to a CPU node")


def _judge_link(link: dict[str, int], address: str) -> Finding:
    """Judge the GPU-to-CPU direction. The other direction says nothing about the slot."""
    flags = link.get("flags", 0)
    if not flags & _ENABLED:
        return _unknown(f"KFD's link from the GPU to the CPU is not enabled (flags {flags})")
    names = [
        name
        for bit, name in ((_NO_ATOMICS_32, "NO_ATOMICS_32_BIT"), (_NO_ATOMICS_64, "NO_ATOMICS_64_BIT"))
        if flags & bit
    ]
    if not names:
        return Finding("kfd", OK, f"the driver enabled AtomicOps from the GPU to the CPU (KFD link flags {flags})")
    fault = Fault(address, "KFD io_link flags", f"{' and '.join(names)} set (flags {flags})", "link")
    detail = f"the driver could not enable AtomicOps from the GPU to the CPU (KFD link: {fault.bit})"
    return Finding("kfd", MISSING, detail, [fault])


def _read_node(folder: Path) -> Node:
    return Node(
        int(folder.name),
        parse_properties(read_text(folder / "properties")),
        [parse_properties(read_text(f / "properties")) for f in entries(folder / "io_links") or []],
        [
            bank["heap_type"]
            for bank in (parse_properties(read_text(f / "properties")) for f in entries(folder / "mem_banks") or [])
            if "heap_type" in bank
        ],
    )


def _unknown(detail: str) -> Finding:
    return Finding("kfd", UNKNOWN, detail, problem=PROBLEM_KFD)


def _list(numbers: list[int]) -> str:
    return ", ".join(str(n) for n in numbers)
