"""Names and GPUs: free, the fleet's own, or somebody else's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.preflight_holders import check_holders
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from unit.collection.fakemachine import FakeMachine

NAMES = {"frank-medium-a", "frank-medium-proxy"}
UNIT = "/home/dank/.config/containers/systemd/frank-medium-a.container"
ASK = (
    "runuser --user dank -- env --chdir=/ -i XDG_RUNTIME_DIR=/run/user/1000 HOME=/home/dank PATH=/usr/bin:/bin "
    "podman ps --all --format json"
)
MANAGER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice"


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def look(machine: FakeMachine, devices: tuple[str, ...] = ("/dev/kfd",), adopt: bool = False) -> Report:
    report = Report()
    check_holders(machine, machine.dank, NAMES, list(devices), adopt, report)
    return report


def run_containers(machine: FakeMachine, *containers: tuple[str, str | None]) -> None:
    machine.programs.add("runuser")
    machine.write("/run/user/1000/bus", "")
    labels = [{"PODMAN_SYSTEMD_UNIT": unit} if unit else None for _, unit in containers]
    listed = [
        {"Id": "c0ffee" * 10, "State": "running", "Names": [name], "Labels": label}
        for (name, _), label in zip(containers, labels, strict=True)
    ]
    machine.answers[ASK] = json.dumps(listed)


def hold_kfd(machine: FakeMachine, pid: int, cgroup: str) -> None:
    machine.process(pid, "python3", cgroup)
    machine.path(f"/proc/{pid}/fd/9").symlink_to("/dev/kfd")


def test_a_fresh_host_has_no_holders(machine: FakeMachine) -> None:
    assert look(machine) == Report(rows=[("names", "frank-medium-a, frank-medium-proxy: free, or the fleet's own")])


def test_what_a_deploy_left_is_the_fleets_own(machine: FakeMachine) -> None:
    machine.write(UNIT, "# Managed by frank-fleet\n[Container]\n")
    run_containers(machine, ("frank-medium-a", "frank-medium-a.service"), ("other", None))
    hold_kfd(machine, 500, f"{MANAGER}/frank-medium-a.service/libpod-payload-1")
    assert look(machine).faults == []


@pytest.mark.parametrize(
    "path",
    ["/home/dank/.config/systemd/user/frank-medium-a.service", "/etc/systemd/user/frank-medium-a.service",
     "/etc/containers/systemd/users/frank-medium-a.container",
     "/etc/containers/systemd/users/1000/frank-medium-a.container"],
)  # fmt: skip
def test_a_unit_that_would_run_in_its_place_is_named(machine: FakeMachine, path: str) -> None:
    machine.write(path, "[Service]\n")
    [fault] = look(machine).faults
    assert "another unit has the name frank-medium-a" in fault.what and fault.where == path and path in fault.fix


def test_a_unit_file_of_somebody_else_is_refused_unless_adopted(machine: FakeMachine) -> None:
    machine.write(UNIT, "[Container]\nImage=x\n")
    [fault] = look(machine).faults
    assert fault.where == UNIT and "llm_adopt=true" in fault.fix
    assert look(machine, adopt=True).faults == []


@pytest.mark.parametrize("adopt", [True, False])
def test_a_symlinked_unit_file_is_refused(machine: FakeMachine, adopt: bool) -> None:
    machine.write("/home/dank/a.container", "# Managed by frank-fleet\n")
    machine.path(UNIT).parent.mkdir(parents=True)
    machine.path(UNIT).symlink_to("/home/dank/a.container")
    [fault] = look(machine, adopt=adopt).faults
    assert "is a symlink" in fault.what


@pytest.mark.parametrize("unit", [None, "somebody.service"])
def test_a_container_that_a_start_would_remove_is_named(machine: FakeMachine, unit: str | None) -> None:
    run_containers(machine, ("frank-medium-a", unit))
    [fault] = look(machine).faults
    assert "another container has the name frank-medium-a" in fault.what and (unit or "no unit") in fault.where


@pytest.mark.parametrize(("answer", "said"), [("{broken", True), ("null", False), ("", False)])
def test_a_podman_that_cannot_tell_is_said(machine: FakeMachine, answer: str, said: bool) -> None:
    run_containers(machine)
    machine.answers[ASK] = answer
    report = look(machine)
    assert report.faults == [] and any("podman ps as dank failed" in line for line in report.warnings) is said


def test_without_the_users_manager_podman_is_not_asked(machine: FakeMachine) -> None:
    run_containers(machine, ("frank-medium-a", None))
    machine.remove("/run/user/1000/bus")
    assert look(machine).faults == []


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [("0::/system.slice/ollama.service", "ollama.service"), (f"{MANAGER}/other.service", "other.service"),
     ("0::/user.slice/user-1001.slice/user@1001.service/app.slice/frank-medium-a.service", "frank-medium-a.service")],
)  # fmt: skip
def test_whoever_else_has_the_gpus_is_named(machine: FakeMachine, cgroup: str, unit: str) -> None:
    hold_kfd(machine, 4711, cgroup)
    [fault] = look(machine).faults
    assert "process 4711" in fault.where and unit in fault.where and "kill 4711" in fault.fix


def test_without_gpus_nobody_looks_who_has_them(machine: FakeMachine) -> None:
    hold_kfd(machine, 4711, "0::/system.slice/ollama.service")
    assert look(machine, devices=()).faults == []
