"""The shape follows the verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.pcie_shape import choose_shape

OK_A = {"address": "0000:03:00.0", "verdict": "ok", "reason": "fine"}
OK_B = {"address": "0000:43:00.0", "verdict": "ok", "reason": "fine"}
MISSING = {"address": "0000:0b:00.0", "verdict": "missing", "reason": "behind 05:00.0"}
UNKNOWN = {"address": "0000:0c:00.0", "verdict": "unknown", "reason": "not root"}


@pytest.mark.parametrize(
    ("shape", "gpus", "override", "chosen"),
    [
        ("auto", [OK_A, OK_B], False, "tp2"),
        ("auto", [OK_A, MISSING], False, "replicas"),
        ("auto", [OK_A, UNKNOWN], False, "replicas"),
        ("auto", [OK_A, MISSING], True, "replicas"),
        ("auto", [OK_A, UNKNOWN], True, "replicas"),
        ("tp2", [OK_A, OK_B], False, "tp2"),
        ("tp2", [OK_A, MISSING], False, "refused"),
        ("tp2", [OK_A, UNKNOWN], False, "refused"),
        ("tp2", [OK_A, MISSING], True, "tp2"),
        ("tp2", [OK_A, UNKNOWN], True, "tp2"),
        ("replicas", [OK_A, OK_B], False, "replicas"),
        ("replicas", [], False, "replicas"),
        ("auto", [OK_A], False, "replicas"),
        ("tp2", [OK_A], True, "refused"),
    ],
)
def test_shape(shape: str, gpus: list[dict[str, Any]], override: bool, chosen: str) -> None:
    assert choose_shape(shape, list(range(len(gpus))) or [0], gpus, override).shape == chosen


def test_only_the_wanted_gpus_count() -> None:
    gpus = [OK_A, MISSING, OK_B]
    assert choose_shape("auto", ["03:00.0", "0000:43:00.0"], gpus).shape == "tp2"
    assert choose_shape("auto", [0, "2"], gpus).shape == "tp2"
    assert choose_shape("auto", [0, 1], gpus).shape == "replicas"


def test_the_reason_names_gpu_verdict_and_cause() -> None:
    assert choose_shape("tp2", [0, 1], [OK_A, MISSING]).reason == (
        "PCIe AtomicOps of 0b:00.0 are missing (behind 05:00.0)"
    )
    assert choose_shape("tp2", [0, 1], [OK_A, MISSING], override=True).reason.startswith("overridden by the operator")


@pytest.mark.parametrize("wanted", [["03:00.0", "99:00.0"], [0, 7], ["03:00.0", "nonsense"]])
def test_a_gpu_that_is_not_there_is_not_ok(wanted: list[int | str]) -> None:
    choice = choose_shape("auto", wanted, [OK_A, OK_B])
    assert choice.shape == "replicas"
    assert "was not found" in choice.reason


def test_the_same_gpu_twice_is_one_gpu() -> None:
    assert choose_shape("auto", ["03:00.0", 0], [OK_A, OK_B]).shape == "replicas"


def test_a_shape_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="not 'tp4'"):
        choose_shape("tp4", [0, 1], [OK_A, OK_B])
