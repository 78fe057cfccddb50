"""From the inventory's description of a fleet to what one host runs of it."""

from __future__ import annotations

from ansible_collections.frank.fleet.plugins.module_utils.fleet_check import KNOBS, FleetError, faults_of
from ansible_collections.frank.fleet.plugins.module_utils.pcie_shape import (
    AUTO,
    REFUSED,
    REPLICAS,
    TP2,
    Choice,
    choose_shape,
)


def plan(
    fleet: dict,
    host: str,
    addresses: dict[str, str] | None = None,
    shape: str | None = None,
    gpus: list[dict] | None = None,
    override: bool = False,
) -> dict:
    """What `host` runs of `fleet`: engines, proxy, the TP=2 target and the units of the other shape to retire.

    `addresses` gives the address of every other host that has a replica. The shape is resolved as `shape_of` does.
    Knobs come out as text, spelled as in the inventory. Raises FleetError.
    """
    fleet = asking_for(fleet, shape)
    faults = faults_of(fleet, host)
    if faults:
        raise FleetError(faults)
    choice = shape_of(fleet, host, gpus, override)
    if choice.shape == REFUSED:
        raise FleetError([f"shape tp2 is refused on {host}: {choice.reason}"])
    return draft(fleet, host, choice.shape, addresses)


def asking_for(fleet: dict, shape: str | None) -> dict:
    """The fleet, with another shape asked for when one is given."""
    return {**fleet, "shape": shape} if shape and isinstance(fleet, dict) else fleet


def shape_of(fleet: dict, host: str, gpus: list[dict] | None = None, override: bool = False) -> Choice:
    """The shape that `host` serves in, `replicas`, `tp2` or `refused`, and why.

    `gpus` are the PCIe verdicts of this host (frank.fleet.pcie_atomics_info). None means that nobody looked: `auto`
    is then replicas, since a TP=2 unit on a host that cannot carry it restarts for ever.
    """
    shape, target = fleet["shape"], fleet.get("tp2")
    if shape == REPLICAS:
        return Choice(REPLICAS, "asked for")
    home = fleet.get("host", host)
    place = target.get("host", home) if target else home
    if shape == AUTO:
        if not target:
            return Choice(REPLICAS, "the fleet describes no tp2")
        if any(replica.get("host", home) != place for replica in fleet["replicas"]):
            return Choice(REPLICAS, "the replicas are not all on the host that tp2 would use")
    if place != host:
        return Choice(TP2 if shape == TP2 else REPLICAS, f"{place} is the host that tp2 would use")
    if gpus is None:
        return Choice(TP2 if shape == TP2 else REPLICAS, "PCIe was not looked at")
    return choose_shape(shape, target["gpus"], gpus, override)


def draft(fleet: dict, host: str, shape: str, addresses: dict[str, str] | None = None) -> dict:
    """The plan for a shape that is settled, of a fleet whose faults are known to the caller."""
    replicas = [_engine(fleet, replica, host, replica["port"], [replica["gpu"]]) for replica in fleet["replicas"]]
    target = _engine(fleet, fleet["tp2"], host, fleet["port"], fleet["tp2"]["gpus"]) if fleet.get("tp2") else None
    tp2 = [target] if target else []
    running, resting = (replicas, tp2) if shape == REPLICAS else (tp2, replicas)
    retired = [engine["unit"] for engine in resting if engine["host"] == host]
    proxy = None
    home = fleet.get("host", host)
    if home == host:
        if shape == REPLICAS:
            proxy = _proxy(fleet, replicas, host, addresses or {})
        else:
            retired.append(_unit(proxy_name(fleet)))
    return {
        "shape": shape,
        "engines": [_public(engine) for engine in running if engine["host"] == host],
        "proxy": proxy,
        "proxy_host": home if shape == REPLICAS else None,
        "target": _public(target) if target else None,
        "retired": retired,
    }


def proxy_name(fleet: dict) -> str:
    """The name of the fleet's proxy, its unit and its container."""
    return f"{fleet['name']}-proxy"


def _unit(name: str) -> str:
    return f"{name}.container"


def _engine(fleet: dict, part: dict, host: str, port: int, gpus: list[int]) -> dict:
    knobs = {**fleet["knobs"], **part.get("knobs", {})}
    return {
        "name": part["name"],
        "unit": _unit(part["name"]),
        "host": part.get("host", fleet.get("host", host)),
        "port": int(port),
        "visible_devices": ",".join(str(gpu) for gpu in gpus),
        "knobs": {knob: str(knobs[knob]) for knob in KNOBS if knob in knobs},
        "served_model_name": fleet["served_model_name"],
    }


def _public(engine: dict) -> dict:
    return {key: value for key, value in engine.items() if key != "host"}


def _proxy(fleet: dict, replicas: list[dict], host: str, addresses: dict[str, str]) -> dict:
    unknown = sorted({engine["host"] for engine in replicas} - {host} - set(addresses))
    if unknown:
        raise FleetError([f"no address for host {name}: give it in fleet_plan(addresses={{...}})" for name in unknown])
    backends = []
    for engine in replicas:
        address = "127.0.0.1" if engine["host"] == host else addresses[engine["host"]]
        address = f"[{address}]" if ":" in address else address
        backends.append({"name": engine["name"], "url": f"http://{address}:{engine['port']}"})
    name = proxy_name(fleet)
    return {"name": name, "unit": _unit(name), "port": int(fleet["port"]), "backends": backends}
