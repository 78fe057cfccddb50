"""The shape that a host serves in: asked for, resolved from PCIe verdicts, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.filter.fleet_plan import FilterModule
from unit.collection.fakemachine import UNFIT, fleet, gpu

plan = FilterModule().filters()["fleet_plan"]
FIT = [gpu("0000:03:00.0", 0), gpu("0000:43:00.0", 1)]
MIXED = [FIT[0], UNFIT]
UNKNOWN = [FIT[0], {**UNFIT, "verdict": "unknown"}]


def shape(description: dict[str, Any], host: str = "box", **options: Any) -> str:
    result = plan(description, host, {"box": "10.0.0.1", "far": "10.0.0.2"}, **options)
    return str(result["shape"])


@pytest.mark.parametrize(("gpus", "expected"), [(FIT, "tp2"), (MIXED, "replicas"), (UNKNOWN, "replicas")])
def test_auto_is_tp2_only_where_every_card_can(gpus: list[dict[str, Any]], expected: str) -> None:
    assert shape(fleet(), gpus=gpus) == expected
    # An override is for a shape that was asked for: it never makes tp2 of auto.
    assert shape(fleet(), gpus=gpus, override=True) == expected


def test_auto_is_replicas_where_nobody_looked_or_nothing_was_found() -> None:
    assert shape(fleet()) == shape(fleet(), gpus=[]) == shape(fleet(), gpus=FIT[:1]) == "replicas"


def test_each_shape_retires_the_units_of_the_other() -> None:
    assert plan(fleet(), "box", gpus=FIT)["retired"] == [
        "frank-medium-a.container",
        "frank-medium-b.container",
        "frank-medium-proxy.container",
    ]
    assert plan(fleet(), "box", gpus=MIXED)["retired"] == ["frank-medium.container"]


@pytest.mark.parametrize("gpus", [MIXED, UNKNOWN, []])
def test_tp2_is_refused_where_it_cannot_run_unless_overridden(gpus: list[dict[str, Any]]) -> None:
    with pytest.raises(AnsibleFilterError, match="shape tp2 is refused on box: "):
        shape(fleet(shape="tp2"), gpus=gpus)
    if gpus:
        assert shape(fleet(shape="tp2"), gpus=gpus, override=True) == "tp2"


def test_tp2_is_taken_at_its_word_where_nobody_looked() -> None:
    assert shape(fleet(shape="tp2")) == "tp2"


def test_one_run_can_ask_for_another_shape() -> None:
    assert shape(fleet(), shape="tp2", gpus=FIT) == "tp2"
    assert shape(fleet(), shape="replicas", gpus=FIT) == "replicas"
    assert shape(fleet(shape="tp2"), shape="", gpus=FIT) == "tp2"
    with pytest.raises(AnsibleFilterError, match="must be one of auto"):
        shape(fleet(), shape="tp3")
    with pytest.raises(AnsibleFilterError, match="the tp2 part that describes it is missing"):
        shape(fleet(tp2=None), shape="tp2")


def test_auto_without_a_tp2_part_is_replicas() -> None:
    assert shape(fleet(tp2=None), gpus=FIT) == "replicas"


def test_a_fleet_that_spans_hosts_stays_replicas() -> None:
    replicas = [{"name": "a", "gpu": 0, "port": 1}, {"name": "b", "gpu": 0, "port": 1, "host": "far"}]
    spanning = fleet(replicas=replicas, host="box")
    assert shape(spanning, gpus=FIT) == shape(spanning, "far", gpus=FIT) == "replicas"


def test_only_the_verdicts_of_the_host_that_would_run_it_count() -> None:
    assert shape(fleet(shape="tp2", host="box"), "far", gpus=MIXED) == "tp2"
    assert shape(fleet(host="box"), "far", gpus=FIT) == "replicas"
