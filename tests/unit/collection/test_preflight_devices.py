"""Device files, GPUs and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.preflight_devices import check_devices, check_memory
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from unit.collection.fakemachine import FakeMachine, gpu, pcie

DEVICES = ["/dev/kfd", "/dev/dri"]
ENGINES = [{"name": "a", "visible_devices": "0"}, {"name": "b", "visible_devices": "1"}]


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def look(machine: FakeMachine, found: dict[str, Any] | None = None, **changes: Any) -> Report:
    report = Report()
    options = {"devices": DEVICES, "engines": ENGINES, "pcie": found or pcie(), **changes}
    check_devices(machine, machine.dank, report=report, **options)
    return report


def test_each_engine_is_shown_with_its_card_and_node(machine: FakeMachine) -> None:
    expected = "0 03:00.0 /dev/dri/renderD128 for a; 1 43:00.0 /dev/dri/renderD129 for b"
    assert look(machine) == Report(rows=[("GPUs", expected)])


def test_an_engine_over_both_cards_needs_both(machine: FakeMachine) -> None:
    machine.remove("/dev/dri/renderD129")
    report = look(machine, engines=[{"name": "both", "visible_devices": "0,1"}])
    assert [fault.what for fault in report.faults] == ["/dev/dri/renderD129 does not exist"]


def test_a_host_without_devices_needs_no_gpu(machine: FakeMachine) -> None:
    machine.remove("/dev/kfd")
    report = look(machine, {"gpus": [], "ignored": []}, devices=[])
    assert report == Report(rows=[("GPUs", "none looked for: the inventory gives the engines no devices")])


def test_a_missing_device_is_a_fault_once(machine: FakeMachine) -> None:
    machine.remove("/dev/kfd")
    (fault,) = look(machine).faults
    assert (fault.what, fault.fix.split(" &&")[0]) == ("/dev/kfd does not exist", "sudo modprobe amdgpu")


def test_a_card_that_is_not_there_is_a_fault(machine: FakeMachine) -> None:
    (fault,) = look(machine, pcie(gpu("0000:03:00.0", 0))).faults
    assert fault.what == "b is given GPU 1, but this host has 1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"driver": None}, "its driver is missing"),
        ({"driver": "vfio-pci"}, "its driver is vfio-pci"),
        ({"kfd_node": None}, "the driver made no compute node (KFD) for it"),
        ({"render_node": None}, "it has no render node"),
    ],
)
def test_a_card_that_cannot_compute_is_a_fault(machine: FakeMachine, change: dict[str, Any], words: str) -> None:
    (fault,) = look(machine, pcie(gpu("0000:03:00.0", 0), gpu("0000:43:00.0", 1, **change))).faults
    assert fault.what == f"GPU 1 (43:00.0) of b cannot compute: {words}"
    assert fault.where == "/sys/bus/pci/devices/0000:43:00.0"


def test_a_node_of_another_group_is_a_fault_that_names_the_group(machine: FakeMachine) -> None:
    machine.forbidden.add("/dev/dri/renderD129")
    node = machine.path("/dev/dri/renderD129")
    node.chmod(0o660)
    machine.groups["gpu"] = node.stat().st_gid
    (fault,) = look(machine).faults
    assert fault.what == "dank may not open /dev/dri/renderD129"
    assert fault.fix.startswith("add gpu to service_user_groups in the inventory")
    assert "usermod -aG gpu dank" in fault.fix


@pytest.mark.parametrize(("mode", "group"), [(0o600, "gpu"), (0o620, "gpu"), (0o660, "root")])
def test_a_node_that_no_group_may_open_needs_a_rule(machine: FakeMachine, mode: int, group: str) -> None:
    machine.forbidden.add("/dev/kfd")
    machine.path("/dev/kfd").chmod(mode)
    machine.groups[group] = machine.path("/dev/kfd").stat().st_gid
    (fault,) = look(machine).faults
    assert fault.fix.startswith("""echo 'KERNEL=="kfd|renderD*", GROUP="render", MODE="0660"'""")


def test_processor_graphics_before_a_card_are_a_warning(machine: FakeMachine) -> None:
    for address in ("00:02.0", "12:00.0"):
        before = look(machine, pcie(ignored=({"address": f"0000:{address}", "kind": "igpu"},)))
        (warning,) = before.warnings
        assert f"processor graphics at {address} come before a card" in warning
    after = look(machine, pcie(ignored=({"address": "0000:70:00.0", "kind": "igpu"},)))
    audio = look(machine, pcie(ignored=({"address": "0000:03:00.1", "kind": "audio"},)))
    assert after.warnings == audio.warnings == []


def test_several_cards_without_iommu_pt_are_a_warning(machine: FakeMachine) -> None:
    machine.write("/proc/cmdline", "quiet iommu=ptx\n")
    assert [warning[:8] for warning in look(machine).warnings] == ["iommu=pt"]
    one = look(machine, pcie(gpu("0000:03:00.0", 0)), engines=ENGINES[:1])
    assert one.warnings == []


def test_less_memory_than_checkpoints_is_a_warning(machine: FakeMachine) -> None:
    machine.write("/proc/meminfo", "MemTotal:       2 kB\n")
    machine.write("/models/target/weights.safetensors", "x" * 1500)
    for checkpoints, warnings in ((["/models/target"], 0), (["/models/target", "/models/target"], 1), (["/gone"], 0)):
        report = Report()
        check_memory(machine, checkpoints, report)
        assert len(report.warnings) == warnings
