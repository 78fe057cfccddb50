"""From the inventory's description of a fleet to what one host runs of it."""

from __future__ import annotations

from ansible_collections.frank.fleet.plugins.module_utils.fleet_check import KNOBS, FleetError, faults_of


def plan(fleet: dict, host: str, addresses: dict[str, str] | None = None) -> dict:
    """What `host` runs of `fleet`: engines, proxy, the TP=2 target and the units of the other shape to retire.

    `addresses` gives the address of every other host that has a replica. Knobs come out as text, spelled as in the
    inventory. Raises FleetError.
    """
    faults = faults_of(fleet, host)
    if faults:
        raise FleetError(faults)
    replicas = [_engine(fleet, replica, host, replica["port"], [replica["gpu"]]) for replica in fleet["replicas"]]
    target = _engine(fleet, fleet["tp2"], host, fleet["port"], fleet["tp2"]["gpus"]) if fleet.get("tp2") else None
    # Nothing says yet that two cards can run collectives together, and a TP=2 unit that cannot restarts for ever: so
    # `auto` means replicas.
    shape = "tp2" if fleet["shape"] == "tp2" else "replicas"
    tp2 = [target] if target else []
    running, resting = (replicas, tp2) if shape == "replicas" else (tp2, replicas)
    retired = [engine["unit"] for engine in resting if engine["host"] == host]
    proxy = None
    if fleet.get("host", host) == host:
        if shape == "replicas":
            proxy = _proxy(fleet, replicas, host, addresses or {})
        else:
            retired.append(_unit(proxy_name(fleet)))
    return {
        "shape": shape,
        "engines": [_public(engine) for engine in running if engine["host"] == host],
        "proxy": proxy,
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
