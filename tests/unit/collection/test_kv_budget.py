"""Only what was measured is warned about."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.filter.kv_budget import FilterModule
from ansible_collections.frank.fleet.plugins.module_utils.kv_budget import R9700, budget_warnings


@pytest.mark.parametrize(
    ("max_len", "chunk", "words"),
    [
        (131072, 8192, "MAXLEN=131072 needs 5.58 GiB of KV cache and CHUNK=8192 left 5.22 GiB"),
        (262144, 8192, "MAXLEN=262144 needs 9.61 GiB of KV cache and CHUNK=8192 left 5.14 GiB"),
        (200000, 8192, "MAXLEN=131072 needs 5.58 GiB"),
        (114688, 16384, "MAXLEN=114688 needs 5.21 GiB of KV cache and CHUNK=16384 left 4.22 GiB"),
        (114688, 4096, "MAXLEN=114688 needs 5.0 GiB of KV cache and CHUNK=4096 left 4.16 GiB"),
        (262144, 4096, "CHUNK=4096 left 4.16 GiB"),
    ],
)
def test_a_shape_measured_not_to_fit_is_warned_about_with_one_that_does(max_len: int, chunk: int, words: str) -> None:
    (warning,) = budget_warnings(R9700, max_len, chunk)
    assert f"MAXLEN={max_len} with CHUNK={chunk} does not fit" in warning
    assert words in warning
    assert "MAXLEN=114688 with CHUNK=8192 was measured to fit (5.21 GiB needed, 5.44 GiB left)" in warning


@pytest.mark.parametrize(
    ("max_len", "chunk"), [(114688, 8192), (65536, 8192), (120000, 8192), (65536, 16384), (262144, 12288)]
)
def test_a_shape_that_fits_or_was_not_measured_is_passed_in_silence(max_len: int, chunk: int) -> None:
    assert budget_warnings(R9700, max_len, chunk) == []


def test_other_hardware_and_other_modes_were_not_measured() -> None:
    assert budget_warnings("1002:744c", 262144, 8192) == []
    assert budget_warnings("", 262144, 8192) == []
    assert budget_warnings(R9700, 262144, 8192, tensor_parallel=2) == []
    assert budget_warnings(R9700, 262144, 8192, kv_mem=18563072000) == []


def test_the_filter_takes_an_engines_knobs_as_text_or_numbers() -> None:
    warn = FilterModule().filters()["kv_budget"]
    assert len(warn({"MAXLEN": "131072", "CHUNK": 8192, "TP": "1", "KV_MEM": "0"}, R9700)) == 1
    assert warn({"MAXLEN": "131072", "CHUNK": 8192}, None) == []
    with pytest.raises(AnsibleFilterError, match="MAXLEN"):
        warn({"CHUNK": 8192}, R9700)
