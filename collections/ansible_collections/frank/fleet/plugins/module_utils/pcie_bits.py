"""Judge one GPU by the AtomicOp bits of one source: sysfs config space, a hex dump, or lspci text.

The path says what the hardware can do, the GPU's requester bit (ReqEn) what the driver did. Where the two disagree the
driver's act counts, and the disagreement is reported.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import short
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    MISSING,
    OK,
    PROBLEM_DEAD,
    PROBLEM_NO_DEVCAP2,
    PROBLEM_NO_ROOT_PORT,
    PROBLEM_TERSE,
    PROBLEM_VIRTUAL_FUNCTION,
    UNKNOWN,
    Fault,
    Finding,
    PciFunction,
)
from ansible_collections.frank.fleet.plugins.module_utils.pcie_path import DEVCTL2, Path, find_path, likely_culprits
from ansible_collections.frank.fleet.plugins.module_utils.pcie_words import fault_text, problem_text


def judge(source: str, gpu: PciFunction, functions: Mapping[str, PciFunction]) -> Finding:
    """Return what `source` says about `gpu`. `functions` is everything this source showed."""
    if gpu.virtual_function:
        return _unknown(source, gpu, PROBLEM_VIRTUAL_FUNCTION)
    if gpu.problem in (PROBLEM_DEAD, PROBLEM_NO_DEVCAP2):
        return _unknown(source, gpu, gpu.problem)
    path = find_path(gpu, functions)
    if gpu.requester:
        return _judge_enabled(source, gpu, path)
    if gpu.requester is False:
        return _judge_disabled(source, gpu, path, functions)
    return _judge_path(source, gpu, path)


def _judge_enabled(source: str, gpu: PciFunction, path: Path) -> Finding:
    if path.problem == PROBLEM_NO_ROOT_PORT:
        # Kernels before 2026 enabled the bit even where no root port was visible.
        return _unknown(source, gpu, PROBLEM_NO_ROOT_PORT)
    enabled = f"AtomicOps of {short(gpu.address)} are enabled (AtomicOpsCtl ReqEn+)"
    if path.verdict == MISSING:
        note = f"{source}: {enabled}, but {fault_text(gpu.address, path.faults)}"
        return Finding(source, OK, f"{enabled} by the driver", disagreements=[note])
    if path.verdict == OK:
        return Finding(source, OK, f"{enabled} and every hop up to {_root(path)} carries them")
    return Finding(source, OK, f"{enabled} by the driver; the path above could not be read in full")


def _judge_disabled(source: str, gpu: PciFunction, path: Path, functions: Mapping[str, PciFunction]) -> Finding:
    if path.verdict == OK:
        if gpu.driver == "amdgpu":
            fault = Fault(gpu.address, DEVCTL2, "AtomicOp requester enable (bit 6) is 0", "requester")
            text = fault_text(gpu.address, [fault])
            return Finding(source, MISSING, text, [fault], disagreements=[f"{source}: {text}"])
        note = (
            f"{source}: every hop up to {_root(path)} carries AtomicOps, but those of {short(gpu.address)} are off "
            "(ReqEn-); amdgpu turns them on when it loads"
        )
        return Finding(source, OK, f"every hop up to {_root(path)} carries AtomicOps", disagreements=[note])
    if path.verdict == UNKNOWN:
        culprits = likely_culprits(gpu, functions)
        if culprits:
            return Finding(source, MISSING, fault_text(gpu.address, culprits), culprits)
    return _judge_path(source, gpu, path)


def _judge_path(source: str, gpu: PciFunction, path: Path) -> Finding:
    if path.verdict == MISSING:
        return Finding(source, MISSING, fault_text(gpu.address, path.faults), path.faults)
    if path.verdict == OK:
        return Finding(source, OK, f"every hop up to {_root(path)} carries AtomicOps")
    if gpu.problem is not None:
        return _unknown(source, gpu, gpu.problem)
    detail = problem_text(path.problem or PROBLEM_TERSE, gpu.address, path.problem_hop)
    return Finding(source, UNKNOWN, detail, problem=path.problem)


def _unknown(source: str, gpu: PciFunction, problem: str) -> Finding:
    return Finding(source, UNKNOWN, problem_text(problem, gpu.address), problem=problem)


def _root(path: Path) -> str:
    return f"root port {short(path.root_port.address)}" if path.root_port else "the root"
