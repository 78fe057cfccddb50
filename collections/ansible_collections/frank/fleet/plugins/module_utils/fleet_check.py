"""What can be wrong with the inventory's description of a fleet. All of it is said at once."""

from __future__ import annotations

import re
from collections import Counter

#: Unit, container and label at once, so the narrowest rule of the three: that of a container's name.
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}")

#: Knob -> smallest whole number allowed. KV_MEM=0 is a value of its own: it makes the engine profile the shape.
NUMBERS = {"TP": 1, "MAXLEN": 1, "KV_MEM": 0, "MAXSEQS": 1, "CHUNK": 1, "SPEC": 0}
PATHS = ("SNAP", "DRAFTER")
KNOBS = (*NUMBERS, "GPU_UTIL", "SPEC_METHOD", *PATHS)
SPEC_METHODS = ("dflash", "mtp")
SHAPES = ("auto", "replicas", "tp2")

_REQUIRED = {
    "fleet": ("name", "served_model_name", "port", "shape", "knobs", "replicas"),
    "replica": ("name", "gpu", "port"),
    "tp2": ("name", "gpus"),
}
_OPTIONAL = {"fleet": ("host", "tp2"), "replica": ("host", "knobs"), "tp2": ("host", "knobs")}


class FleetError(ValueError):
    """The fleet cannot be planned; the message lists every fault."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("llm_fleet: " + "; ".join(faults))
        self.faults = faults


def faults_of(fleet: object, host: str) -> list[str]:
    """Every fault of the description, in the order a reader meets them; `host` is where unplaced parts would run."""
    faults = _keys("fleet", "the fleet", fleet)
    if faults:
        return faults
    parts = _parts(fleet)
    for kind, where, part in parts:
        faults += _keys(kind, where, part)
    if faults:
        return faults
    if fleet["shape"] not in SHAPES:
        faults.append(f"shape is {fleet['shape']!r}, must be one of {', '.join(SHAPES)}")
    if fleet["shape"] == "tp2" and not fleet.get("tp2"):
        faults.append("shape is tp2, but the tp2 part that describes it is missing")
    if not fleet["replicas"]:
        faults.append("replicas is empty")
    if not _whole(fleet["port"], 1, 65535):
        faults.append(f"port is {fleet['port']!r}, must be a number from 1 to 65535")
    for kind, where, part in parts:
        faults += _part(fleet, kind, where, part)
    return faults + _placement(fleet, host) + _names(fleet)


def _parts(fleet: dict) -> list[tuple[str, str, object]]:
    replicas = fleet["replicas"] if isinstance(fleet["replicas"], (list, tuple)) else [fleet["replicas"]]
    parts = [("replica", f"replica {_name_of(part, number)}", part) for number, part in enumerate(replicas, 1)]
    if fleet.get("tp2"):
        parts.append(("tp2", "tp2", fleet["tp2"]))
    return parts


def _name_of(part: object, number: int) -> str:
    return str(part["name"]) if isinstance(part, dict) and "name" in part else f"number {number}"


def _keys(kind: str, where: str, part: object) -> list[str]:
    if not isinstance(part, dict):
        return [f"{where} must be a mapping, got {part!r}"]
    allowed = _REQUIRED[kind] + _OPTIONAL[kind]
    faults = [f"{where} lacks {key}" for key in _REQUIRED[kind] if part.get(key) is None]
    faults += [f"{where} has the unknown key {key}" for key in part if key not in allowed]
    knobs = part.get("knobs")
    if knobs is not None and not isinstance(knobs, dict):
        faults.append(f"{where}: knobs must be a mapping, got {knobs!r}")
    return faults


def _part(fleet: dict, kind: str, where: str, part: dict) -> list[str]:
    faults = []
    gpus = [part["gpu"]] if kind == "replica" else part["gpus"]
    if not isinstance(gpus, (list, tuple)) or not gpus or not all(_whole(gpu, 0) for gpu in gpus):
        faults.append(f"{where}: GPUs are {gpus!r}, must be index numbers")
    elif len(set(map(str, gpus))) != len(gpus):
        faults.append(f"{where} names a GPU twice: {gpus!r}")
    if kind == "replica" and not _whole(part["port"], 1, 65535):
        faults.append(f"{where}: port is {part['port']!r}, must be a number from 1 to 65535")
    knobs = {**fleet["knobs"], **part.get("knobs", {})}
    faults += [f"{where}: {fault}" for fault in _knob_faults(knobs)]
    if isinstance(gpus, (list, tuple)) and _whole(knobs.get("TP"), 1) and int(knobs["TP"]) != len(gpus):
        faults.append(f"{where}: TP is {knobs['TP']}, but it has {len(gpus)} GPU(s)")
    return faults


def _knob_faults(knobs: dict) -> list[str]:
    faults = [f"unknown knob {knob}" for knob in knobs if knob not in KNOBS]
    for knob, least in NUMBERS.items():
        if not _whole(knobs.get(knob), least):
            faults.append(f"{knob} is {_shown(knobs, knob)}, must be a whole number from {least} (blank is not 0)")
    if not _fraction(knobs.get("GPU_UTIL")):
        faults.append(f"GPU_UTIL is {_shown(knobs, 'GPU_UTIL')}, must be above 0 and at most 1")
    method = knobs.get("SPEC_METHOD")
    if method not in SPEC_METHODS:
        faults.append(f"SPEC_METHOD is {_shown(knobs, 'SPEC_METHOD')}, must be {' or '.join(SPEC_METHODS)}")
    for knob in PATHS:
        wanted = knob == "SNAP" or method == "dflash" or knob in knobs
        if wanted and not str(knobs.get(knob)).startswith("/"):
            faults.append(f"{knob} is {_shown(knobs, knob)}, must be an absolute path")
    return faults


def _placement(fleet: dict, host: str) -> list[str]:
    faults = []
    placed = [replica["name"] for replica in fleet["replicas"] if replica.get("host")]
    if placed and not fleet.get("host"):
        faults.append(f"replica {placed[0]} names its host, so the fleet must name the endpoint's: add host")
    home = fleet.get("host", host)
    cards, ports = Counter(), Counter({(home, str(fleet["port"])): 1})
    for replica in fleet["replicas"]:
        where = replica.get("host", home)
        cards[where, str(replica["gpu"])] += 1
        ports[where, str(replica["port"])] += 1
    faults += [f"GPU {gpu} of {at} is given to {n} replicas" for (at, gpu), n in cards.items() if n > 1]
    faults += [f"port {port} of {at} is used {n} times" for (at, port), n in ports.items() if n > 1]
    return faults


def _names(fleet: dict) -> list[str]:
    names = [replica["name"] for replica in fleet["replicas"]] + [f"{fleet['name']}-proxy"]
    if fleet.get("tp2"):
        names.append(fleet["tp2"]["name"])
    faults = [f"the name {name} is used {n} times" for name, n in Counter(map(str, names)).items() if n > 1]
    for name in dict.fromkeys([fleet["name"], *names]):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            faults.append(f"{name!r} cannot name a unit: use letters, digits and _ . - (not first)")
    return faults


def _whole(value: object, least: int, most: int | None = None) -> bool:
    """True for a whole number in range; digits as text count, for values that come from the command line."""
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not re.fullmatch(r"\d+", str(value)):
        return False
    return least <= int(value) and (most is None or int(value) <= most)


def _fraction(value: object) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(value) <= 1
    except (TypeError, ValueError):
        return False


def _shown(knobs: dict, knob: str) -> str:
    return repr(knobs[knob]) if knob in knobs else "missing"
