"""Does the inventory agree with itself and with the host: ports, GPUs, shape, measured budgets?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.frank.fleet.plugins.module_utils.fleet import asking_for, draft, proxy_name, shape_of
from ansible_collections.frank.fleet.plugins.module_utils.fleet_check import FleetError, faults_of
from ansible_collections.frank.fleet.plugins.module_utils.kv_budget import budget_warnings
from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import short
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import OK
from ansible_collections.frank.fleet.plugins.module_utils.pcie_shape import REFUSED, REPLICAS, TP2
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report

#: Words of a fault in the inventory -> why it matters.
_WHY = {
    "is given to": "an engine takes its card for itself (98 % of the memory): the second one would not start",
    "port ": "two cannot listen on one port: the unit would fail at every start",
    "the name ": "unit and container are named after it: one would replace the other",
}
_REFUSED = (
    "RCCL's kernels cannot be launched without PCIe AtomicOps: the engine would die at its first collective, "
    "and restart for ever"
)


def check_fleet(
    fleet: Any,
    host: str,
    addresses: dict[str, str],
    shape: str,
    pcie: Mapping[str, Any],
    override: bool,
    report: Report,
) -> dict | None:
    """Judge the description and the shape; returns the plan, or what can be planned in spite of faults, else None."""
    fleet = asking_for(fleet, shape)
    for fault in faults_of(fleet, host):
        why = next((why for words, why in _WHY.items() if words in fault), "units cannot be made from it")
        report.fault(fault, "llm_fleet in the inventory", why, "correct it in inventory/group_vars (or host_vars)")
    try:
        choice = shape_of(fleet, host, pcie["gpus"], override)
        plan = draft(fleet, host, TP2 if choice.shape == REFUSED else choice.shape, addresses)
    except FleetError as error:
        report.fault(str(error), "the inventory", "the proxy could not reach that replica", "give ansible_host for it")
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # Too broken to plan, which the faults above say.
    if choice.shape == REFUSED:
        _refuse(fleet, choice.reason, pcie["gpus"], report)
    elif choice.shape == TP2 and choice.reason.startswith("overridden"):
        report.warn(f"shape tp2 is {choice.reason}. {_REFUSED}")
    asked = "as asked for" if choice.shape == fleet["shape"] else f"asked for {fleet['shape']}"
    report.row("shape", f"{choice.shape}, {asked}" + (f": {choice.reason}" if fleet["shape"] != REPLICAS else ""))
    _check_budgets(plan["engines"], pcie["gpus"], report)
    return plan


def units_of(fleet: dict, plan: dict) -> set[str]:
    """Names of all units that belong to the fleet, whatever the shape."""
    replicas = {str(replica["name"]) for replica in fleet["replicas"]}
    return replicas | {proxy_name(fleet)} | ({plan["target"]["name"]} if plan["target"] else set())


def ports_of(plan: dict, admin_port: int) -> dict[int, str]:
    """Port -> who will listen on it."""
    ports = {engine["port"]: engine["name"] for engine in plan["engines"]}
    if plan["proxy"]:
        ports[plan["proxy"]["port"]] = plan["proxy"]["name"]
        ports[admin_port] = f"{plan['proxy']['name']} (admin)"
    return ports


def _refuse(fleet: dict, reason: str, gpus: list[dict], report: Report) -> None:
    unfit = [gpu for gpu in gpus if gpu["verdict"] != OK]
    fixes = list(dict.fromkeys(gpu["fix"] for gpu in unfit if gpu["fix"]))
    report.fault(
        "shape tp2 is refused on this host",
        ", ".join(f"{short(gpu['address'])} ({gpu['verdict']})" for gpu in unfit) or "/sys/bus/pci/devices",
        f"{reason}. {_REFUSED}",
        "; ".join([*fixes, "or shape: auto in llm_fleet"]) + ". To have tp2 all the same: -e llm_shape_override=true",
    )


def _check_budgets(engines: list[dict], gpus: list[dict], report: Report) -> None:
    for engine in engines:
        for index in map(int, engine["visible_devices"].split(",")):
            card = gpus[index]["ids"] if index < len(gpus) else None
            knobs = {name: int(engine["knobs"][name]) for name in ("MAXLEN", "CHUNK", "TP", "KV_MEM")}
            for warning in budget_warnings(card or "", knobs["MAXLEN"], knobs["CHUNK"], knobs["TP"], knobs["KV_MEM"]):
                report.warn(f"{engine['name']}: {warning}")
