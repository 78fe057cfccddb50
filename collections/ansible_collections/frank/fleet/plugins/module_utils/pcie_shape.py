"""Choose how a host serves: one tensor-parallel engine over its GPUs, or one replica on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import normalise, short
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import OK, UNKNOWN

AUTO, REPLICAS, TP2, REFUSED = "auto", "replicas", "tp2", "refused"


class Choice(NamedTuple):
    """The shape to deploy (`replicas`, `tp2`, or `refused`) and why, in one line."""

    shape: str
    reason: str


def choose_shape(
    shape: str, wanted: Sequence[Union[int, str]], gpus: Sequence[Mapping[str, Any]], override: bool = False
) -> Choice:
    """Return the shape for the `wanted` GPUs.

    `wanted` holds PCI addresses (`03:00.0`) or indices into `gpus`; `gpus` is the list that
    frank.fleet.pcie_atomics_info returns (`address`, `verdict`, `reason`). RCCL's kernels cannot be launched on a GPU
    without PCIe AtomicOps, so `auto` becomes tp2 only where every wanted GPU is ok, and a `tp2` asked for is refused
    elsewhere. `override` lets an operator have tp2 all the same; it never turns `auto` into tp2.

    Raises ValueError for a shape that does not exist.
    """
    if shape not in (AUTO, REPLICAS, TP2):
        raise ValueError(f"shape must be {AUTO}, {REPLICAS} or {TP2}, not {shape!r}")
    if shape == REPLICAS:
        return Choice(REPLICAS, "asked for")
    otherwise = REPLICAS if shape == AUTO else REFUSED
    names = list(dict.fromkeys(_name(w, gpus) for w in wanted))
    if len(names) < 2:
        return Choice(otherwise, f"tensor parallelism needs two different GPUs, {len(names)} asked for")
    faults = [fault for fault in (_fault(name, gpus) for name in names) if fault]
    if not faults:
        return Choice(TP2, f"PCIe AtomicOps are ok on {', '.join(names)}")
    reason = "; ".join(faults)
    if shape == TP2 and override:
        return Choice(TP2, f"overridden by the operator although {reason}")
    return Choice(otherwise, reason)


def _name(wanted: Union[int, str], gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return one name for a GPU however it was asked for, so that asking twice for the same one shows."""
    text = str(wanted).strip()
    if text.isdecimal() and int(text) < len(gpus):
        return short(str(gpus[int(text)]["address"]))
    return short(normalise(text) or text)


def _fault(name: str, gpus: Sequence[Mapping[str, Any]]) -> Optional[str]:
    """Return why this GPU can't be part of tp2, None when it can."""
    for gpu in gpus:
        if short(str(gpu["address"])) == name:
            verdict = gpu.get("verdict", UNKNOWN)
            return (
                None if verdict == OK else f"PCIe AtomicOps of {name} are {verdict} ({gpu.get('reason', 'no reason')})"
            )
    return f"GPU {name} was not found"
