"""Read what the kernel and the HIP runtime say about AtomicOps, in all the spellings seen in the field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import normalise
from ansible_collections.frank.fleet.plugins.module_utils.pcie_kfd import Topology
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    MISSING,
    PROBLEM_LOG,
    UNKNOWN,
    Fault,
    Finding,
    PciFunction,
)

_NOT_SUPPORTED = re.compile(r"PCIe atomic ops (?:is|are) not supported", re.IGNORECASE)
_DEVICE = re.compile(r"\bamdgpu ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):", re.IGNORECASE)
_SKIPPED = re.compile(
    r"skipped device ([0-9a-f]{4}:[0-9a-f]{4}), PCI rejects atomics(?: ([0-9]{1,9})<([0-9]{1,9}))?", re.IGNORECASE
)
_HOSTCALL = re.compile(r"Pcie atomics not enabled, hostcall not supported", re.IGNORECASE)

FIX_FIRMWARE = (
    "update linux-firmware and the kernel, so that the GPU is accepted and can serve alone; "
    "tensor parallelism still needs AtomicOps"
)


@dataclass(frozen=True)
class LogLine:
    """One line about missing AtomicOps; it names a GPU by address, by ids, or not at all."""

    text: str
    address: Optional[str] = None
    ids: Optional[str] = None
    firmware: Optional[str] = None  # "1850, older than 2090" when the kernel gave its reason
    skipped: bool = False  # the GPU was refused as a compute device


def parse(text: str) -> list[LogLine]:
    """Return the lines that report missing AtomicOps. `added device` is none of them: it proves nothing."""
    lines = []
    for raw in text.splitlines():
        skipped = _SKIPPED.search(raw)
        if skipped:
            ids, have, need = skipped.groups()
            firmware = f"{have}, older than {need}" if have else None
            lines.append(LogLine(raw.strip(), ids=ids.lower(), firmware=firmware, skipped=True))
        elif _NOT_SUPPORTED.search(raw):
            device = _DEVICE.search(raw)
            lines.append(LogLine(raw.strip(), address=normalise(device.group(1)) if device else None))
        elif _HOSTCALL.search(raw):
            lines.append(LogLine(raw.strip()))
    return lines


def judge(lines: Sequence[LogLine], gpu: PciFunction, gpus: Sequence[PciFunction], topology: Topology) -> Finding:
    """Return what the log says about `gpu`. `gpus` are all discrete GPUs, among which unnamed lines may mean any."""
    for line in lines:
        if line.address == gpu.address:
            return _missing(gpu, line)
    unclear = None
    for line in lines:
        suspects = _suspects(line, gpus, topology)
        if gpu not in suspects:
            continue
        if len(suspects) == 1 or (line.skipped and topology.present):
            return _missing(gpu, line)
        unclear = unclear or f"the log reports a GPU without AtomicOps but not which of {len(suspects)}: {line.text}"
    if unclear:
        return Finding("kernel_log", UNKNOWN, unclear, problem=PROBLEM_LOG)
    return Finding(
        "kernel_log", UNKNOWN, "the log has no line about this GPU, which proves nothing", problem=PROBLEM_LOG
    )


def _suspects(line: LogLine, gpus: Sequence[PciFunction], topology: Topology) -> list[PciFunction]:
    """Return the GPUs a line without an address may be about. A GPU with a KFD node was not skipped."""
    if line.address is not None:
        return []
    return [
        g
        for g in gpus
        if g.driver in (None, "amdgpu")
        and (line.ids is None or line.ids == g.ids)
        and not (line.skipped and topology.gpu(g.address))
    ]


def _missing(gpu: PciFunction, line: LogLine) -> Finding:
    detail = f"the log says that AtomicOps are missing: {line.text}"
    if line.firmware:
        detail = (
            "the kernel skipped this GPU: AtomicOps are missing, and its MEC firmware is version "
            f"{line.firmware}, the first one that copes without"
        )
    elif line.skipped:
        detail = "the kernel skipped this GPU as a compute device, because AtomicOps are missing"
    fault = Fault(gpu.address, "kernel log", line.text, "log")
    return Finding("kernel_log", MISSING, detail, [fault], fix=FIX_FIRMWARE if line.skipped else None)
