"""Say verdicts in words the owner of the machine understands, each with what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import short
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    PROBLEM_DEAD,
    PROBLEM_DENIED,
    PROBLEM_INCOMPLETE,
    PROBLEM_KFD,
    PROBLEM_LOG,
    PROBLEM_NO_DEVCAP2,
    PROBLEM_NO_EXPRESS,
    PROBLEM_NO_ROOT_PORT,
    PROBLEM_OLD_LSPCI,
    PROBLEM_TERSE,
    PROBLEM_VIRTUAL_FUNCTION,
    VENDOR_QEMU,
    Fault,
    PciFunction,
)

_CAPTURE = "capture the whole machine as root: sudo lspci -vvv > FILE"
_FIX_SLOT = "no software can change that; move the card to a CPU slot, or run one replica on each GPU"
_FIX_VM = (
    "in the virtual machine's definition pass the GPU's function .0 alone on its own pcie-root-port "
    "(QEMU 8.1 or newer), and check that the host itself carries AtomicOps to that slot"
)
_FIX_REQUESTER = "reboot, so that amdgpu probes the card again, and read its lines in the kernel log"
_FIX_LINK = "run as root to learn which hop stops them; if it can't be changed, run one replica on each GPU"

# problem: (what is wrong, what to do)
_PROBLEMS = {
    PROBLEM_DENIED: (
        "the configuration space of {hop} can be read by root only",
        "run as root (become: true), or " + _CAPTURE,
    ),
    PROBLEM_DEAD: (
        "{hop} does not answer (it reads as all ones): asleep in D3cold, or fallen off the bus",
        "wake the card by using it or reboot; if it stays silent, check seating and power",
    ),
    PROBLEM_NO_DEVCAP2: (
        "{hop} has a PCI Express capability of version 1, which has no register for AtomicOps",
        "load amdgpu and read KFD's topology on the machine; hardware of that age seldom carries AtomicOps",
    ),
    PROBLEM_OLD_LSPCI: (
        "the dump shows no AtomicOps line: pciutils before 3.5.3 does not decode them",
        "capture with pciutils 3.5.3 or newer, or as numbers, which any version prints: sudo lspci -xxx > FILE",
    ),
    PROBLEM_TERSE: ("the dump does not show the PCI Express registers of {hop}", _CAPTURE),
    PROBLEM_NO_EXPRESS: (
        "{hop} is neither a root port nor a PCI Express switch port, so nothing says whether it carries AtomicOps",
        "move the card to a PCI Express slot on the CPU",
    ),
    PROBLEM_INCOMPLETE: ("not every bridge above {gpu} was captured", _CAPTURE + ", without -s"),
    PROBLEM_NO_ROOT_PORT: (
        "no root port is visible above {gpu}, as in a virtual machine; "
        "there even an enabled requester bit does not prove that AtomicOps arrive",
        _FIX_VM,
    ),
    PROBLEM_KFD: ("", "load amdgpu and run on the machine itself, as root"),
    PROBLEM_LOG: ("", "run on the machine itself, as root"),
    PROBLEM_VIRTUAL_FUNCTION: (
        "{gpu} is an SR-IOV virtual function: it takes its answer from the physical function's driver",
        "read KFD's topology where the virtual function is used",
    ),
}


def problem_text(problem: str, gpu: str, hop: Optional[str] = None) -> str:
    """Return why nothing can be said; `hop` is the function that hides it, the GPU itself when None."""
    return _PROBLEMS[problem][0].format(gpu=short(gpu), hop=short(hop or gpu))


def problem_fix(problem: str) -> str:
    """Return what to do so that the next run can say more."""
    return _PROBLEMS[problem][1]


def fault_text(gpu: str, faults: Sequence[Fault]) -> str:
    """Return one sentence that names every hop at fault, the one nearest to the root first."""
    parts = []
    routing = _hops(faults, "routing")
    if routing:
        verb = "do" if len(routing) > 1 else "does"
        parts.append(f"{short(gpu)} sits behind {_join(routing)}, which {verb} not route AtomicOps")
    for hop in _hops(faults, "completer"):
        sizes = [f.bit.split()[0] for f in faults if f.hop == hop and f.kind == "completer"]
        parts.append(f"{short(gpu)} hangs on root port {short(hop)}, which does not complete {_join(sizes)} AtomicOps")
    for hop in _hops(faults, "egress"):
        parts.append(f"{short(hop)} above {short(gpu)} blocks AtomicOps on their way out (EgressBlck+)")
    if _hops(faults, "requester"):
        parts.append(f"amdgpu left AtomicOps of {short(gpu)} off (ReqEn-) although every hop above could carry them")
    return "; ".join(parts)


def fault_fix(faults: Sequence[Fault], functions: Mapping[str, PciFunction]) -> str:
    """Return the fix for a set of faults; what no software can change goes first."""
    kinds = {f.kind for f in faults}
    for fault in faults:
        hop = functions.get(fault.hop)
        if fault.kind == "completer" and hop is not None and hop.vendor == VENDOR_QEMU:
            return _FIX_VM
    if kinds & {"routing", "completer"}:
        return _FIX_SLOT
    if "egress" in kinds:
        hop_address = short(_hops(faults, "egress")[0])
        return (
            "firmware or a hypervisor set that bit: update the BIOS, or clear it before amdgpu loads "
            f"(setpci -s {hop_address} CAP_EXP+28.w=0000:0080)"
        )
    return _FIX_REQUESTER if "requester" in kinds else _FIX_LINK


def _hops(faults: Sequence[Fault], kind: str) -> list[str]:
    return list(dict.fromkeys(f.hop for f in faults if f.kind == kind))


def _join(words: Sequence[str]) -> str:
    texts = [short(w) for w in words]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def report_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the result of pcie_atomics_info as lines to read, a few for each GPU."""
    lines = [str(result["reason"])]
    for gpu in result["gpus"]:
        path = [short(a) for a in (gpu["address"], *(hop["address"] for hop in gpu["chain"]))]
        lines.append(f"{path[0]} ({gpu['ids'] or 'ids unknown'}): {gpu['verdict']} - {gpu['reason']}")
        if gpu["chain"]:
            lines.append(f"  path: {' -> '.join(path)}")
        if gpu["fix"]:
            lines.append(f"  fix: {gpu['fix']}")
        lines.extend(f"  disagreement: {note}" for note in gpu["disagreements"])
    return lines
