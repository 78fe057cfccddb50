"""Kernel and HIP log lines in every spelling, and whom they may be about."""

from __future__ import annotations

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import pcie_log
from ansible_collections.frank.fleet.plugins.module_utils.pcie_kfd import Node, Topology
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import Finding, PciFunction
from ansible_collections.frank.fleet.plugins.module_utils.pcie_verdict import Evidence, analyse

FIRST, SECOND = "0000:03:00.0", "0000:07:00.0"
NO_KFD = Topology()


def gpu(address: str, device: int = 0x7551, driver: str | None = None) -> PciFunction:
    return PciFunction(address, vendor=0x1002, device=device, class_code=0x0300, driver=driver)


def judge(text: str, *gpus: PciFunction, topology: Topology = NO_KFD) -> list[Finding]:
    lines = pcie_log.parse(text)
    return [pcie_log.judge(lines, g, gpus, topology) for g in gpus]


def verdicts(text: str, *gpus: PciFunction, topology: Topology = NO_KFD) -> list[str]:
    return [f.verdict for f in judge(text, *gpus, topology=topology)]


@pytest.mark.parametrize(
    "line",
    [
        "[    4.1] amdgpu 0000:07:00.0: amdgpu: PCIE atomic ops is not supported",
        "Sep 16 10:00:00 host kernel: amdgpu 0000:07:00.0: PCIE atomic ops is not supported",
        "amdgpu 0000:07:00.0: amdgpu: PCIe atomic ops are not supported",
        "AMDGPU 0000:07:00.0: PCIE ATOMIC OPS IS NOT SUPPORTED",
    ],
)
def test_a_line_with_an_address_is_about_that_gpu_only(line: str) -> None:
    assert verdicts(line, gpu(FIRST), gpu(SECOND)) == ["unknown", "missing"]


@pytest.mark.parametrize(
    "line",
    ["[drm] PCIE atomic ops is not supported", ":1:rocvirtual.cpp: Pcie atomics not enabled, hostcall not supported"],
)
def test_a_line_without_an_address_needs_a_single_gpu(line: str) -> None:
    assert verdicts(line, gpu(FIRST)) == ["missing"]
    both = judge(line, gpu(FIRST), gpu(SECOND))
    assert [f.verdict for f in both] == ["unknown", "unknown"]
    assert "not which of 2" in both[0].detail


def test_a_gpu_that_another_driver_holds_is_not_suspected() -> None:
    line = "[drm] PCIE atomic ops is not supported"
    assert verdicts(line, gpu(FIRST, driver="vfio-pci"), gpu(SECOND, driver="amdgpu")) == ["unknown", "missing"]


@pytest.mark.parametrize("prefix", ["kfd kfd: ", "kfd kfd: amdgpu: ", "amdgpu: "])
def test_a_skipped_device_is_found_by_its_ids(prefix: str) -> None:
    line = prefix + "skipped device 1002:67DF, PCI rejects atomics"
    assert verdicts(line, gpu(FIRST), gpu(SECOND, device=0x67DF)) == ["unknown", "missing"]


def test_the_skipped_one_of_two_like_cards_is_the_one_without_a_kfd_node() -> None:
    line = "kfd kfd: amdgpu: skipped device 1002:7551, PCI rejects atomics 1850<2090"
    node = Node(1, {"simd_count": 128, "location_id": 0x0300, "domain": 0})
    topology = Topology([Node(0, {"cpu_cores_count": 16}), node], present=True)
    assert verdicts(line, gpu(FIRST), gpu(SECOND), topology=topology) == ["unknown", "missing"]
    assert verdicts(line, gpu(FIRST), gpu(SECOND)) == ["unknown", "unknown"]
    assert verdicts(line, gpu(FIRST), gpu(SECOND), topology=Topology(present=True)) == ["missing", "missing"]


def test_a_card_skipped_for_its_firmware_is_told_to_update_not_to_move() -> None:
    text = "kfd kfd: amdgpu: skipped device 1002:7551, PCI rejects atomics 1850<2090"
    evidence = Evidence(sysfs={FIRST: gpu(FIRST)}, topology=Topology(present=True), log=pcie_log.parse(text))
    (result,) = analyse(evidence)["gpus"]
    assert result["verdict"] == "missing"
    assert "MEC firmware is version 1850, older than 2090" in result["reason"]
    assert result["fix"] == pcie_log.FIX_FIRMWARE
    assert "slot" not in result["fix"]


def test_the_amdgpu_line_alone_is_enough() -> None:
    text = "amdgpu 0000:03:00.0: amdgpu: PCIE atomic ops is not supported\nkfd kfd: amdgpu: added device 1002:7551\n"
    result = analyse(Evidence(sysfs={FIRST: gpu(FIRST), SECOND: gpu(SECOND)}, log=pcie_log.parse(text)))
    assert result["verdicts"] == {FIRST: "missing", SECOND: "unknown"}
    assert result["gpus"][0]["deciding"]["source"] == "kernel_log"


@pytest.mark.parametrize("text", ["", "kfd kfd: amdgpu: added device 1002:7551", "something else about atomics"])
def test_silence_and_an_added_device_prove_nothing(text: str) -> None:
    (finding,) = judge(text, gpu(FIRST))
    assert finding.verdict == "unknown"
    assert "proves nothing" in finding.detail
