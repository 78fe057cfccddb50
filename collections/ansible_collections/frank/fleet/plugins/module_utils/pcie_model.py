"""What is known about one PCI function, whichever source it was read from.

A bit that no source showed is None, never False: absence is not an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

OK = "ok"
MISSING = "missing"
UNKNOWN = "unknown"

# Port types that take part in the decision (PCI Express capability, device/port type field).
ROOT = "root port"
UPSTREAM = "switch upstream port"
DOWNSTREAM = "switch downstream port"
ENDPOINT = "endpoint"
INTEGRATED = "root complex integrated endpoint"
PCI_BRIDGE = "PCIe-to-PCI bridge"
OTHER = "other"

VENDOR_AMD_GPU = 0x1002
VENDOR_AMD_CPU = 0x1022
VENDOR_QEMU = 0x1B36
VENDOR_DEAD = 0xFFFF

CLASS_BRIDGE = 0x0604
CLASS_AUDIO = 0x0403
# VGA, 3D, other display, and the "processing accelerator" class of the Instinct cards.
CLASSES_GPU = frozenset({0x0300, 0x0302, 0x0380, 0x1200})

# Why bits of a function are unknown.
PROBLEM_DENIED = "denied"
PROBLEM_DEAD = "dead"
PROBLEM_NO_DEVCAP2 = "no-devcap2"
PROBLEM_OLD_LSPCI = "old-lspci"
PROBLEM_TERSE = "terse"
PROBLEM_NO_EXPRESS = "no-express"
PROBLEM_INCOMPLETE = "incomplete"
PROBLEM_NO_ROOT_PORT = "no-root-port"
PROBLEM_KFD = "kfd"
PROBLEM_LOG = "log"
PROBLEM_VIRTUAL_FUNCTION = "virtual-function"


@dataclass
class PciFunction:
    """One PCI function with the AtomicOp bits of its DevCap2 and DevCtl2 registers."""

    address: str
    vendor: Optional[int] = None
    device: Optional[int] = None
    class_code: Optional[int] = None  # base class << 8 | subclass, e.g. 0x0300
    name: Optional[str] = None
    port: Optional[str] = None
    routing: Optional[bool] = None
    completer32: Optional[bool] = None
    completer64: Optional[bool] = None
    requester: Optional[bool] = None
    egress_blocked: Optional[bool] = None
    secondary: Optional[int] = None  # bus right below a bridge
    subordinate: Optional[int] = None  # last bus below a bridge
    parents: Optional[list[str]] = None  # bridges above, nearest first; None: to be found from bus numbers
    driver: Optional[str] = None
    render_node: Optional[str] = None
    virtual_function: bool = False
    problem: Optional[str] = None

    @property
    def ids(self) -> Optional[str]:
        """Return `vvvv:dddd`, or None when the ids are not known."""
        if self.vendor is None or self.device is None:
            return None
        return f"{self.vendor:04x}:{self.device:04x}"


@dataclass(frozen=True)
class Fault:
    """One bit that keeps AtomicOps from getting through, and the hop that holds it."""

    hop: str
    register: str
    bit: str
    kind: str  # routing | completer | egress | requester | link | log


@dataclass
class Finding:
    """What one source says about one GPU."""

    source: str  # kfd | config | kernel_log | lspci
    verdict: str
    detail: str  # one sentence for the owner
    faults: list[Fault] = field(default_factory=list)
    problem: Optional[str] = None  # for unknown: which fix to offer
    fix: Optional[str] = None  # a fix only this source can know
    disagreements: list[str] = field(default_factory=list)
