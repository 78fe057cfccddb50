"""Walk from a GPU to its root port and judge every hop, by the rules the kernel uses.

The rules are those of pci_enable_atomic_ops_to_root() (drivers/pci/pci.c) as amdgpu calls it: 32-bit and 64-bit
completion at the root port, routing at every switch port, no egress blocking at switch upstream ports. The root port's
own routing bit is not looked at (it is about traffic between root ports), nor are the completer bits of switch ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import bus_of, domain_of
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    DOWNSTREAM,
    MISSING,
    OK,
    PROBLEM_INCOMPLETE,
    PROBLEM_NO_EXPRESS,
    PROBLEM_NO_ROOT_PORT,
    ROOT,
    UNKNOWN,
    UPSTREAM,
    Fault,
    PciFunction,
)

DEVCAP2, DEVCTL2 = "DevCap2", "DevCtl2"


@dataclass
class Path:
    """The bridges above one GPU, nearest first, and what they add up to."""

    hops: list[PciFunction]
    verdict: str
    faults: list[Fault] = field(default_factory=list)  # nearest to the root first
    problem: Optional[str] = None  # why it is unknown
    problem_hop: Optional[str] = None

    @property
    def root_port(self) -> Optional[PciFunction]:
        """Return the root port, when the path reaches one."""
        return self.hops[-1] if self.hops and self.hops[-1].port == ROOT else None


def find_path(gpu: PciFunction, functions: Mapping[str, PciFunction]) -> Path:
    """Return the judged path above `gpu`. `functions` maps normalised addresses to what one source knows."""
    if gpu.parents is not None:
        hops = [functions.get(a) or PciFunction(a, problem=PROBLEM_INCOMPLETE) for a in gpu.parents]
        gaps = False
    else:
        hops, gaps = _climb(gpu, functions)
    faults = [fault for hop in reversed(hops) for fault in hop_faults(hop)]
    if faults:
        return Path(hops, MISSING, faults)
    for hop in reversed(hops):
        if hop_status(hop) == UNKNOWN:
            return Path(hops, UNKNOWN, problem=hop.problem or PROBLEM_NO_EXPRESS, problem_hop=hop.address)
    if hops and hops[-1].port == ROOT and not gaps:
        return Path(hops, OK)
    top = hops[-1] if hops else gpu
    rootless = gpu.parents is not None or bus_of(top.address) == 0
    return Path(hops, UNKNOWN, problem=PROBLEM_NO_ROOT_PORT if rootless and not gaps else PROBLEM_INCOMPLETE)


def hop_faults(hop: PciFunction) -> list[Fault]:
    """Return the bits of one bridge that are known to stop AtomicOps."""
    faults = []
    if hop.port == ROOT:
        if hop.completer32 is False:
            faults.append(Fault(hop.address, DEVCAP2, "32-bit AtomicOp completer (bit 7) is 0", "completer"))
        if hop.completer64 is False:
            faults.append(Fault(hop.address, DEVCAP2, "64-bit AtomicOp completer (bit 8) is 0", "completer"))
    if hop.port in (UPSTREAM, DOWNSTREAM) and hop.routing is False:
        faults.append(Fault(hop.address, DEVCAP2, "AtomicOp routing (bit 6) is 0", "routing"))
    if hop.port == UPSTREAM and hop.egress_blocked:
        faults.append(Fault(hop.address, DEVCTL2, "AtomicOp egress blocking (bit 7) is 1", "egress"))
    return faults


def hop_status(hop: PciFunction) -> str:
    """Return ok, missing or unknown for one bridge."""
    if hop_faults(hop):
        return MISSING
    needed = {
        ROOT: (hop.completer32, hop.completer64),
        UPSTREAM: (hop.routing, hop.egress_blocked),
        DOWNSTREAM: (hop.routing,),
    }.get(hop.port or "", (None,))
    return UNKNOWN if None in needed else OK


def likely_culprits(gpu: PciFunction, functions: Mapping[str, PciFunction]) -> list[Fault]:
    """Return non-routing ports that a shortened dump shows without bus numbers, on a bus before the GPU's.

    Only evidence in support of a requester bit that is already known to be off, never on its own.
    """
    return [
        fault
        for function in functions.values()
        if function.secondary is None
        and domain_of(function.address) == domain_of(gpu.address)
        and bus_of(function.address) < bus_of(gpu.address)
        for fault in hop_faults(function)
    ]


def _climb(gpu: PciFunction, functions: Mapping[str, PciFunction]) -> tuple[list[PciFunction], bool]:
    """Follow bus numbers upwards. Return the bridges, nearest first, and whether some between them were not seen."""
    hops: list[PciFunction] = []
    gaps = False
    current = gpu
    while current.port != ROOT:
        bridge = _bridge_above(current, functions)
        if bridge is None or bridge in hops:
            break
        gaps = gaps or bridge.secondary != bus_of(current.address)
        hops.append(bridge)
        current = bridge
    return hops, gaps


def _bridge_above(function: PciFunction, functions: Mapping[str, PciFunction]) -> Optional[PciFunction]:
    """Return the bridge with the narrowest bus range that holds `function`."""
    domain, bus = domain_of(function.address), bus_of(function.address)
    candidates = [
        f
        for f in functions.values()
        if f.secondary is not None
        and f.secondary <= bus <= (f.subordinate if f.subordinate is not None else f.secondary)
        and domain_of(f.address) == domain
        and bus_of(f.address) != bus
    ]
    return max(candidates, key=lambda f: f.secondary or 0, default=None)
