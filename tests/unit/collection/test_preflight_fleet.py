"""The inventory against itself and against the host, and the shape that follows."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.preflight_fleet import check_fleet, ports_of, units_of
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from unit.collection.fakemachine import KNOBS, UNFIT, fleet, gpu, pcie

FIT = gpu("0000:03:00.0", 0)


def look(
    description: Any, found: dict[str, Any] | None = None, shape: str = "", override: bool = False
) -> tuple[Report, Any]:
    report = Report()
    return report, check_fleet(description, "box", {}, shape, found or pcie(), override, report)


def test_two_cards_that_can_become_tp2() -> None:
    report, plan = look(fleet())
    assert report == Report(rows=[("shape", "tp2, asked for auto: PCIe AtomicOps are ok on 03:00.0, 43:00.0")])
    assert [engine["name"] for engine in plan["engines"]] == ["frank-medium"]


def test_a_card_that_cannot_makes_replicas_of_auto() -> None:
    report, plan = look(fleet(), pcie(FIT, UNFIT))
    assert report.faults == report.warnings == []
    assert dict(report.rows)["shape"].startswith("replicas, asked for auto: PCIe AtomicOps of 0b:00.0 are missing")
    assert [engine["name"] for engine in plan["engines"]] == ["frank-medium-a", "frank-medium-b"]


def test_replicas_that_were_asked_for_need_no_reason() -> None:
    assert dict(look(fleet(shape="replicas"))[0].rows)["shape"] == "replicas, as asked for"


@pytest.mark.parametrize("verdict", ["missing", "unknown"])
def test_tp2_is_refused_with_the_card_the_reason_and_the_way_out(verdict: str) -> None:
    report, plan = look(fleet(shape="tp2"), pcie(FIT, {**UNFIT, "verdict": verdict}))
    (fault,) = report.faults
    assert (fault.what, fault.where) == ("shape tp2 is refused on this host", f"0b:00.0 ({verdict})")
    assert "it sits behind 05:00.0" in fault.why and "RCCL" in fault.why
    assert fault.fix == (
        "move the card to a CPU slot; or shape: auto in llm_fleet. To have tp2 all the same: -e llm_shape_override=true"
    )
    assert [engine["name"] for engine in plan["engines"]] == ["frank-medium"]


def test_tp2_without_a_card_is_refused_too() -> None:
    (fault,) = look(fleet(shape="tp2"), {"gpus": [], "ignored": []})[0].faults
    assert "GPU 0 was not found" in fault.why


def test_an_override_is_a_warning() -> None:
    report, _ = look(fleet(shape="tp2"), pcie(FIT, UNFIT), override=True)
    assert report.faults == []
    assert report.warnings[0].startswith("shape tp2 is overridden by the operator although")


def test_another_shape_can_be_asked_for() -> None:
    assert dict(look(fleet(), shape="replicas")[0].rows)["shape"] == "replicas, as asked for"
    (fault,) = look(fleet(), shape="both")[0].faults
    assert fault.what == "shape is 'both', must be one of auto, replicas, tp2"


def test_faults_of_the_inventory_do_not_hide_the_rest() -> None:
    replicas = [{"name": "a", "gpu": 0, "port": 7771}, {"name": "b", "gpu": 0, "port": 7771}]
    report, plan = look(fleet(replicas=replicas, shape="replicas"))
    assert [(fault.what, fault.why.split(":")[0]) for fault in report.faults] == [
        ("GPU 0 of box is given to 2 replicas", "an engine takes its card for itself (98 % of the memory)"),
        ("port 7771 of box is used 2 times", "two cannot listen on one port"),
    ]
    assert [engine["visible_devices"] for engine in plan["engines"]] == ["0", "0"]


@pytest.mark.parametrize(
    "broken", [None, [], {}, {"name": "x"}, fleet(replicas=3), fleet(replicas=[{}]), fleet(tp2={"name": "x"})]
)
def test_what_is_too_broken_to_plan_is_faults_and_no_plan(broken: Any) -> None:
    report, plan = look(broken)
    assert report.faults and plan is None


def test_a_replica_whose_host_has_no_address_is_a_fault() -> None:
    replicas = [{"name": "a", "gpu": 0, "port": 7771}, {"name": "b", "gpu": 0, "port": 7771, "host": "other"}]
    report, plan = look(fleet(replicas=replicas, host="box", shape="replicas"))
    assert [fault.fix for fault in report.faults] == ["give ansible_host for it"]
    assert plan is None


def test_what_was_measured_not_to_fit_is_a_warning_for_each_engine() -> None:
    report, _ = look(fleet(shape="replicas", knobs={**KNOBS, "MAXLEN": 131072}))
    assert [warning.split(":")[0] for warning in report.warnings] == ["frank-medium-a", "frank-medium-b"]
    assert "MAXLEN=114688" in report.warnings[0]


def test_other_cards_were_not_measured() -> None:
    found = pcie({**FIT, "ids": "1002:744c"})
    report, _ = look(fleet(shape="replicas", knobs={**KNOBS, "MAXLEN": 131072}), found)
    assert report.warnings == []


def test_ports_and_units_of_both_shapes() -> None:
    _, replicas = look(fleet(), pcie(FIT, UNFIT))
    _, tp2 = look(fleet())
    assert ports_of(replicas, 7769) == {
        7769: "frank-medium-proxy (admin)", 7770: "frank-medium-proxy",
        7771: "frank-medium-a", 7772: "frank-medium-b",
    }  # fmt: skip
    assert ports_of(tp2, 7769) == {7770: "frank-medium"}
    units = {"frank-medium-a", "frank-medium-b", "frank-medium-proxy", "frank-medium"}
    assert units_of(fleet(), replicas) == units_of(fleet(), tp2) == units
