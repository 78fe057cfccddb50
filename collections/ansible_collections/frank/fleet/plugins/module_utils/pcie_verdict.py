"""Put the sources together: one verdict for each GPU, with the hop and the bit that decided it.

Trust goes kfd, config, kernel_log, lspci: the first that knows decides, the others are heard and reported when they
disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ansible_collections.frank.fleet.plugins.module_utils import pcie_bits, pcie_kfd, pcie_log
from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import short, sort_key
from ansible_collections.frank.fleet.plugins.module_utils.pcie_kfd import Topology
from ansible_collections.frank.fleet.plugins.module_utils.pcie_kinds import DGPU, UNRESPONSIVE, VF, kind_of
from ansible_collections.frank.fleet.plugins.module_utils.pcie_log import LogLine
from ansible_collections.frank.fleet.plugins.module_utils.pcie_lspci import Dump
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    MISSING,
    OK,
    PROBLEM_NO_ROOT_PORT,
    PROBLEM_TERSE,
    UNKNOWN,
    VENDOR_AMD_GPU,
    Finding,
    PciFunction,
)
from ansible_collections.frank.fleet.plugins.module_utils.pcie_path import find_path, hop_status
from ansible_collections.frank.fleet.plugins.module_utils.pcie_words import fault_fix, problem_fix, problem_text

_CLASS_DISPLAY = 0x0380
_BIT_SOURCES = ("config", "lspci")  # the two that show every hop


@dataclass
class Evidence:
    """Everything that was gathered about one machine. None means: this source was not consulted."""

    sysfs: dict[str, PciFunction] = field(default_factory=dict)
    topology: Optional[Topology] = None
    log: Optional[Sequence[LogLine]] = None
    dump: Optional[Dump] = None

    def functions(self, source: str) -> dict[str, PciFunction]:
        """Return what the source `config` or `lspci` showed. Hex rows of a dump are config space where sysfs is not."""
        dump = self.dump or Dump()
        if source == "config":
            return self.sysfs or dump.configs
        return dump.functions if dump.has_details or not dump.configs else {}


def analyse(evidence: Evidence) -> dict[str, Any]:
    """Return `gpus`, `ignored`, `verdicts`, `verdict` and `reason`, as pcie_atomics_info documents them."""
    topology = evidence.topology or Topology()
    known = _known_functions(evidence, topology)
    kinds = {address: kind_of(function, known, topology) for address, function in known.items()}
    judged = [known[a] for a in sorted(known, key=sort_key) if kinds[a] in (DGPU, VF, UNRESPONSIVE)]
    judged.sort(key=lambda f: _kfd_order(topology, f.address))
    cards = [gpu for gpu in judged if kinds[gpu.address] == DGPU]
    gpus = [
        {"kind": kinds[gpu.address], **_describe(gpu, _findings(gpu, cards, evidence, topology), evidence, topology)}
        for gpu in judged
    ]
    return {
        "gpus": gpus,
        "ignored": [
            {"address": a, "ids": known[a].ids, "kind": kinds[a]}
            for a in sorted(known, key=sort_key)
            if kinds[a] not in (None, DGPU, VF, UNRESPONSIVE)
        ],
        "verdicts": {gpu["address"]: gpu["verdict"] for gpu in gpus},
        **_summarise(gpus),
    }


def _summarise(gpus: Sequence[dict[str, Any]]) -> dict[str, str]:
    if not gpus:
        return {"verdict": UNKNOWN, "reason": "no discrete AMD GPU was found"}
    verdicts = [gpu["verdict"] for gpu in gpus]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in (OK, MISSING, UNKNOWN) if v in verdicts)
    worst = next(v for v in (MISSING, UNKNOWN, OK) if v in verdicts)
    return {"verdict": worst, "reason": f"PCIe AtomicOps of {len(gpus)} GPU{'s' * (len(gpus) > 1)}: {counts}"}


def _known_functions(evidence: Evidence, topology: Topology) -> dict[str, PciFunction]:
    """Return one record for each function: the most trusted source's, completed by the others."""
    dump = evidence.dump or Dump()
    known: dict[str, PciFunction] = {}
    for functions in (evidence.sysfs, dump.configs, dump.functions, _kfd_functions(topology)):
        for address, function in functions.items():
            if address not in known:
                known[address] = replace(function)
            for name, value in vars(function).items():
                if getattr(known[address], name) is None:
                    setattr(known[address], name, value)
    return known


def _kfd_functions(topology: Topology) -> dict[str, PciFunction]:
    """Return the GPUs KFD knows: all there is where /sys/bus/pci is hidden."""
    functions = {}
    for node in topology.nodes:
        if node.address is not None:
            minor = node.properties.get("drm_render_minor", 0)
            functions[node.address] = PciFunction(
                node.address,
                vendor=node.properties.get("vendor_id", VENDOR_AMD_GPU),
                device=node.properties.get("device_id"),
                class_code=_CLASS_DISPLAY,
                render_node=f"/dev/dri/renderD{minor}" if minor else None,
            )
    return functions


def _kfd_order(topology: Topology, address: str) -> int:
    """Sort key that keeps the runtime's order: that of the KFD nodes, GPUs without one last."""
    node = topology.gpu(address)
    return node.number if node else 1 << 30


def _describe(gpu: PciFunction, findings: Sequence[Finding], evidence: Evidence, topology: Topology) -> dict[str, Any]:
    winner = next((f for f in findings if f.verdict != UNKNOWN), None)
    verdict = winner.verdict if winner else UNKNOWN
    # A link flag or a log line tells that AtomicOps are missing; a source with the same verdict may know the hop.
    agreeing = [f for f in findings if f.verdict == verdict]
    explained = next((f for f in agreeing if f.source in _BIT_SOURCES and f.faults), winner)
    shown = [s for s in _BIT_SOURCES if gpu.address in evidence.functions(s)]
    if explained and explained.source in shown:
        shown = [explained.source]
    functions = evidence.functions(shown[0]) if shown else {}
    node = topology.gpu(gpu.address)
    return {
        "address": gpu.address,
        "ids": gpu.ids,
        "name": gpu.name,
        "driver": gpu.driver,
        "render_node": gpu.render_node,
        "kfd_node": node.number if node else None,
        "requester_enabled": gpu.requester,
        "verdict": verdict,
        "reason": _reason(gpu, explained, agreeing),
        "fix": _fix(explained, agreeing, functions),
        "deciding": _deciding(explained),
        "chain": [_hop(h) for h in find_path(functions[gpu.address], functions).hops] if shown else [],
        "sources": [{"source": f.source, "verdict": f.verdict, "detail": f.detail} for f in findings],
        "disagreements": _disagreements(winner, findings),
    }


def _findings(gpu: PciFunction, cards: Sequence[PciFunction], evidence: Evidence, topology: Topology) -> list[Finding]:
    """Return what each consulted source says, the most trusted first."""
    findings = []
    if evidence.topology is not None:
        findings.append(pcie_kfd.judge(topology, gpu.address))
    config, text = evidence.functions("config"), evidence.functions("lspci")
    if gpu.address in config:
        findings.append(pcie_bits.judge("config", config[gpu.address], config))
    if evidence.log is not None:
        findings.append(pcie_log.judge(evidence.log, gpu, cards, topology))
    if gpu.address in text:
        findings.append(pcie_bits.judge("lspci", text[gpu.address], text))
    return _doubt_without_root_port(findings, gpu)


def _doubt_without_root_port(findings: list[Finding], gpu: PciFunction) -> list[Finding]:
    """Take back KFD's ok where no root port is visible: kernels before 2026 said yes there without knowing."""
    if not any(f.problem == PROBLEM_NO_ROOT_PORT for f in findings):
        return findings
    doubt = problem_text(PROBLEM_NO_ROOT_PORT, gpu.address)
    return [
        Finding("kfd", UNKNOWN, f"{f.detail}, but {doubt}", problem=PROBLEM_NO_ROOT_PORT)
        if f.source == "kfd" and f.verdict == OK
        else f
        for f in findings
    ]


def _reason(gpu: PciFunction, explained: Optional[Finding], agreeing: Sequence[Finding]) -> str:
    if explained is None:
        details = dict.fromkeys(f.detail for f in agreeing)
        return f"nothing certain about {short(gpu.address)}: " + ("; ".join(details) or "no source shows it")
    skipped = [f.detail for f in agreeing if f.fix and f is not explained]
    return "; ".join([explained.detail, *skipped])


def _fix(explained: Optional[Finding], agreeing: Sequence[Finding], functions: dict[str, PciFunction]) -> Optional[str]:
    if explained is None:
        problems = {f.source: f.problem for f in agreeing if f.problem}
        order = ("config", "lspci", "kfd", "kernel_log")
        return problem_fix(next((problems[s] for s in order if s in problems), PROBLEM_TERSE))
    if explained.verdict == OK:
        return None
    special = next((f.fix for f in agreeing if f.fix), None)
    hardware = [f for f in explained.faults if f.kind not in ("link", "log")]
    if special and not hardware:
        return special
    return "; ".join(filter(None, [fault_fix(explained.faults, functions), special]))


def _deciding(explained: Optional[Finding]) -> Optional[dict[str, Any]]:
    if explained is None or not explained.faults:
        return None
    first = explained.faults[0]
    return {
        "source": explained.source,
        "hop": first.hop,
        "register": first.register,
        "bit": " and ".join(f.bit for f in explained.faults if (f.hop, f.register) == (first.hop, first.register)),
        "hops": list(dict.fromkeys(f.hop for f in explained.faults)),
    }


def _disagreements(winner: Optional[Finding], findings: Sequence[Finding]) -> list[str]:
    notes = [note for f in findings for note in f.disagreements]
    for finding in findings:
        if winner and finding.verdict not in (UNKNOWN, winner.verdict):
            notes.append(
                f"{winner.source} says {winner.verdict}, {finding.source} says {finding.verdict}: {finding.detail}"
            )
    return notes


def _hop(hop: PciFunction) -> dict[str, Any]:
    return {
        "address": hop.address,
        "ids": hop.ids,
        "port": hop.port,
        "routing": hop.routing,
        "completer32": hop.completer32,
        "completer64": hop.completer64,
        "egress_blocked": hop.egress_blocked,
        "status": hop_status(hop),
    }
