"""fleet_plan: what each host runs, and every fault of an inventory at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.filter.fleet_plan import FilterModule
from ansible_collections.frank.fleet.plugins.module_utils.fleet_check import KNOBS
from hypothesis import given
from hypothesis import strategies as st
from unit.collection.fakemachine import KNOBS as KNOB_VALUES
from unit.collection.fakemachine import fleet as production_fleet

plan = FilterModule().filters()["fleet_plan"]


def fleet(**changes: Any) -> dict[str, Any]:
    """The production fleet in the replicas shape, with some keys changed."""
    return production_fleet(**({"shape": "replicas"} | changes))


def faults(description: Any, host: str = "box") -> str:
    with pytest.raises(AnsibleFilterError) as caught:
        plan(description, host)
    return str(caught.value)


def test_replicas_behind_a_proxy() -> None:
    result = plan(fleet(), "box")
    assert result["shape"] == "replicas"
    assert [(e["name"], e["unit"], e["port"], e["visible_devices"]) for e in result["engines"]] == [
        ("frank-medium-a", "frank-medium-a.container", 7771, "0"),
        ("frank-medium-b", "frank-medium-b.container", 7772, "1"),
    ]
    assert result["proxy"] == {
        "name": "frank-medium-proxy",
        "unit": "frank-medium-proxy.container",
        "port": 7770,
        "backends": [
            {"name": "frank-medium-a", "url": "http://127.0.0.1:7771"},
            {"name": "frank-medium-b", "url": "http://127.0.0.1:7772"},
        ],
    }
    assert result["retired"] == ["frank-medium.container"]


def test_one_engine_on_both_cards() -> None:
    result = plan(fleet(shape="tp2"), "box")
    [engine] = result["engines"]
    assert (engine["name"], engine["unit"], engine["port"]) == ("frank-medium", "frank-medium.container", 7770)
    assert engine["visible_devices"] == "0,1"
    assert (engine["knobs"]["TP"], engine["knobs"]["KV_MEM"], engine["knobs"]["SPEC"]) == ("2", "18563072000", "7")
    assert result["proxy"] is None and result["proxy_host"] is None
    assert result["retired"] == [
        "frank-medium-a.container",
        "frank-medium-b.container",
        "frank-medium-proxy.container",
    ]
    assert result["target"] == engine


def test_the_target_is_rendered_whatever_the_shape() -> None:
    assert plan(fleet(), "box")["target"] == plan(fleet(shape="tp2"), "box")["target"]


def test_auto_means_replicas_as_long_as_nothing_proves_collectives() -> None:
    assert plan(fleet(shape="auto"), "box") == plan(fleet(), "box")


def test_a_fleet_without_a_target_has_none() -> None:
    description = fleet()
    del description["tp2"]
    assert (plan(description, "box")["target"], plan(description, "box")["retired"]) == (None, [])


def test_knobs_keep_their_spelling_and_zero_is_a_value() -> None:
    knobs = plan(fleet(), "box")["engines"][0]["knobs"]
    assert knobs == {knob: str(value) for knob, value in KNOB_VALUES.items()}
    assert (knobs["KV_MEM"], knobs["GPU_UTIL"]) == ("0", "0.98")
    assert all(type(value) is str for value in knobs.values())


def test_a_replica_overrides_single_knobs() -> None:
    description = fleet()
    description["replicas"][1]["knobs"] = {"SPEC": 5}
    engines = plan(description, "box")["engines"]
    assert [engine["knobs"]["SPEC"] for engine in engines] == ["7", "5"]


def test_digits_as_text_are_numbers() -> None:
    """Values from the command line (-e) are text."""
    description = fleet(port="7770", knobs={**KNOB_VALUES, "KV_MEM": "0"})
    description["replicas"][0]["gpu"] = "0"
    assert plan(description, "box")["proxy"]["port"] == 7770


def test_the_plan_leaves_the_inventory_alone() -> None:
    description = fleet()
    before = copy.deepcopy(description)
    plan(description, "box")["engines"][0]["knobs"]["SPEC"] = "9"
    assert description == before


@given(count=st.integers(1, 20))
def test_any_number_of_replicas(count: int) -> None:
    replicas = [{"name": f"r{n}", "gpu": n, "port": 8000 + n} for n in range(count)]
    result = plan(fleet(replicas=replicas), "box")
    assert [engine["visible_devices"] for engine in result["engines"]] == [str(n) for n in range(count)]
    assert len(result["proxy"]["backends"]) == count


def two_hosts(**changes: Any) -> dict[str, Any]:
    description = fleet(host="front", **changes)
    description["replicas"][1].update(host="back", gpu=0, port=7771)
    return description


def test_each_host_gets_its_part_and_the_front_all_backends() -> None:
    addresses = {"back": "192.168.0.9", "front": "192.168.0.8"}
    front, back = (plan(two_hosts(), host, addresses) for host in ("front", "back"))
    assert [engine["name"] for engine in front["engines"]] == ["frank-medium-a"]
    assert [backend["url"] for backend in front["proxy"]["backends"]] == [
        "http://127.0.0.1:7771",
        "http://192.168.0.9:7771",
    ]
    assert [engine["name"] for engine in back["engines"]] == ["frank-medium-b"]
    assert (back["proxy"], back["proxy_host"], back["retired"]) == (None, "front", [])


def test_another_shape_retires_on_each_host_what_it_had() -> None:
    description = two_hosts(shape="tp2")
    assert plan(description, "front")["retired"] == ["frank-medium-a.container", "frank-medium-proxy.container"]
    assert plan(description, "back")["retired"] == ["frank-medium-b.container"]
    assert plan(description, "back")["engines"] == []


def test_ipv6_addresses_are_bracketed() -> None:
    backends = plan(two_hosts(), "front", {"back": "fd00::9"})["proxy"]["backends"]
    assert backends[1]["url"] == "http://[fd00::9]:7771"


def test_a_backend_without_an_address_is_refused_not_dropped() -> None:
    assert "back" in faults(two_hosts(), "front")


def test_a_placed_replica_needs_the_endpoints_host() -> None:
    description = fleet()
    description["replicas"][1]["host"] = "back"
    assert "add host" in faults(description)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"port": 7771}, "port 7771 of box is used 2 times"),
        ({"port": "7771"}, "port 7771 of box is used 2 times"),
        ({"port": 0}, "port is 0, must be a number from 1 to 65535"),
        ({"port": True}, "port is True"),
        ({"shape": "mesh"}, "shape is 'mesh', must be one of auto, replicas, tp2"),
        ({"shape": "tp2", "tp2": None}, "the tp2 part that describes it is missing"),
        ({"replicas": []}, "replicas is empty"),
        ({"replicas": "a"}, "must be a mapping"),
        ({"replicas": ["a"]}, "replica number 1 must be a mapping"),
        ({"name": None}, "the fleet lacks name"),
        ({"served_model_name": None}, "the fleet lacks served_model_name"),
        ({"knobs": None}, "the fleet lacks knobs"),
        ({"knobs": [1]}, "knobs must be a mapping"),
        ({"prot": 1}, "the fleet has the unknown key prot"),
        ({"name": "a/b"}, "'a/b' cannot name a unit"),
        ({"name": "-a"}, "'-a' cannot name a unit"),
        ({"name": 7}, "7 cannot name a unit"),
        ({"name": "frank medium"}, "cannot name a unit"),
    ],
)
def test_faults_of_the_fleet(changes: dict[str, Any], fault: str) -> None:
    assert fault in faults(fleet(**changes))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": "frank-medium-a"}, "the name frank-medium-a is used 2 times"),
        ({"name": "frank-medium-proxy"}, "the name frank-medium-proxy is used 2 times"),
        ({"name": "frank-medium"}, "the name frank-medium is used 2 times"),
        ({"gpu": 0}, "GPU 0 of box is given to 2 replicas"),
        ({"gpu": "0"}, "GPU 0 of box is given to 2 replicas"),
        ({"gpu": -1}, "GPUs are [-1], must be index numbers"),
        ({"port": 7771}, "port 7771 of box is used 2 times"),
        ({"port": 7770}, "port 7770 of box is used 2 times"),
        ({"port": 70000}, "replica frank-medium-b: port is 70000"),
        ({"gpu": None}, "replica frank-medium-b lacks gpu"),
        ({"gpus": [1]}, "replica frank-medium-b has the unknown key gpus"),
        ({"knobs": {"TP": 2}}, "replica frank-medium-b: TP is 2, but it has 1 GPU(s)"),
        ({"knobs": {"SPECK": 5}}, "replica frank-medium-b: unknown knob SPECK"),
        ({"name": "a\nb"}, "cannot name a unit"),
        ({"name": "a=b"}, "cannot name a unit"),
    ],
)
def test_faults_of_a_replica(changes: dict[str, Any], fault: str) -> None:
    description = fleet()
    description["replicas"][1].update(changes)
    assert fault in faults(description)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"gpus": [0]}, "tp2: TP is 2, but it has 1 GPU(s)"),
        ({"gpus": [0, 0]}, "tp2 names a GPU twice"),
        ({"gpus": []}, "GPUs are []"),
        ({"gpus": 2}, "GPUs are 2"),
        ({"knobs": {}}, "tp2: TP is 1, but it has 2 GPU(s)"),
    ],
)
def test_faults_of_the_target(changes: dict[str, Any], fault: str) -> None:
    description = fleet()
    description["tp2"].update(changes)
    assert fault in faults(description)


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("KV_MEM", ""), ("KV_MEM", None), ("KV_MEM", -1), ("KV_MEM", False), ("KV_MEM", "0x10"), ("KV_MEM", 1.5),
        ("TP", 0), ("MAXLEN", "long"), ("MAXSEQS", 0), ("CHUNK", 0), ("SPEC", -1),
        ("GPU_UTIL", 0), ("GPU_UTIL", 1.1), ("GPU_UTIL", "most"), ("GPU_UTIL", True), ("GPU_UTIL", None),
        ("SPEC_METHOD", "eagle"), ("SNAP", "models/target"), ("SNAP", None), ("DRAFTER", "drafter"),
    ],
)  # fmt: skip
def test_values_that_no_knob_may_have(knob: str, value: Any) -> None:
    assert f"replica frank-medium-a: {knob} is {value!r}" in faults(fleet(knobs={**KNOB_VALUES, knob: value}))


@pytest.mark.parametrize("knob", [knob for knob in KNOBS if knob != "TP"])
def test_every_knob_is_required(knob: str) -> None:
    description = fleet()
    for part in (description["knobs"], description["tp2"]["knobs"]):
        part.pop(knob, None)
    assert f"{knob} is missing" in faults(description)


def test_only_dflash_needs_a_drafter() -> None:
    knobs = {**KNOB_VALUES, "SPEC_METHOD": "mtp"}
    del knobs["DRAFTER"]
    assert "DRAFTER" not in plan(fleet(knobs=knobs), "box")["engines"][0]["knobs"]


def test_all_faults_are_said_at_once() -> None:
    description = fleet(port=7771, shape="mesh")
    description["replicas"][1].update(gpu=0, knobs={"KV_MEM": ""})
    message = faults(description)
    assert all(part in message for part in ("port 7771", "mesh", "GPU 0", "KV_MEM is ''"))


@pytest.mark.parametrize("garbage", [None, [], "fleet", 7])
def test_something_else_than_a_fleet_is_refused(garbage: Any) -> None:
    assert "the fleet must be a mapping" in faults(garbage)
