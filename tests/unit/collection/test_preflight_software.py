"""podman, its generator and runtime, systemd and the small programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from ansible_collections.frank.fleet.plugins.module_utils.preflight_software import (
    check_software,
    runtime_of,
    version_of,
)
from unit.collection.fakemachine import GENERATOR, FakeMachine


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def look(machine: FakeMachine) -> Report:
    report = Report()
    check_software(machine, machine.dank, report)
    return report


def faults(machine: FakeMachine) -> dict[str, str]:
    return {fault.what: fault.fix for fault in look(machine).faults}


def test_a_sound_machine_has_no_fault(machine: FakeMachine) -> None:
    assert look(machine) == Report(rows=[("podman", "5.4.2, runtime crun")])


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("podman version 4.3.1", (4, 3, 1)),
        ("podman version 5.0.0-dev", (5, 0, 0)),
        ("podman version 5.10.0", (5, 10, 0)),
        ("5.4", (5, 4, 0)),
        ("podman version 6.0.0-rc2+deb13", (6, 0, 0)),
        ("no such thing", None),
        ("", None),
    ],
)
def test_versions_are_numbers(text: str, version: tuple[int, ...] | None) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize("version", ["4.3.1", "4.9.3", "5.0.0-dev", "5.3.2", "3.10.0"])
def test_an_old_podman_is_a_fault(machine: FakeMachine, version: str) -> None:
    machine.answers["podman --version"] = f"podman version {version}"
    (fault,) = look(machine).faults
    assert fault.what == f"podman is {version.removesuffix('-dev')}, needed is 5.4 or newer"
    assert fault.where == "/usr/bin/podman"


@pytest.mark.parametrize("version", ["5.4.0", "5.10.0", "6.0.0", "10.1.2"])
def test_a_newer_podman_is_none(machine: FakeMachine, version: str) -> None:
    machine.answers["podman --version"] = f"podman version {version}"
    assert faults(machine) == {}


def test_a_podman_that_does_not_say_its_version_is_a_fault(machine: FakeMachine) -> None:
    machine.answers["podman --version"] = "Error: no home"
    assert list(faults(machine)) == ["podman is unreadable ('Error: no home'), needed is 5.4 or newer"]


def test_without_podman_there_is_one_fault_that_brings_the_rest_of_it(machine: FakeMachine) -> None:
    machine.programs -= {"podman", "crun"}
    machine.remove(GENERATOR)
    assert faults(machine) == {"podman is not installed": "sudo apt-get install podman crun uidmap dbus-user-session"}


def test_a_generator_that_systemd_would_not_run_is_a_fault(machine: FakeMachine) -> None:
    machine.remove(GENERATOR)
    (fault,) = look(machine).faults
    assert (fault.what, fault.where) == ("podman's Quadlet generator is not installed", GENERATOR)


def test_one_that_a_deploy_would_not_find_is_a_fault(machine: FakeMachine) -> None:
    machine.remove(GENERATOR, "/usr/libexec/podman/quadlet")
    machine.write("/etc/systemd/user-generators/podman-user-generator", "")
    assert [fault.where for fault in look(machine).faults] == ["/etc/systemd/user-generators/podman-user-generator"]
    machine.write("/usr/lib/podman/quadlet", "")
    assert faults(machine) == {}


@pytest.mark.parametrize(
    ("program", "package"),
    [("newuidmap", "uidmap"), ("newgidmap", "uidmap"), ("getsubids", "uidmap"), ("flock", "util-linux")],
)
def test_a_missing_program_is_a_fault_that_names_its_package(machine: FakeMachine, program: str, package: str) -> None:
    machine.programs.remove(program)
    assert faults(machine) == {f"{program} is not installed": f"sudo apt-get install {package}"}


def test_a_host_without_systemd_or_bus_is_told_so(machine: FakeMachine) -> None:
    machine.remove("/run/systemd/system/keep", "/usr/lib/systemd/user/dbus.socket")
    machine.path("/run/systemd/system").rmdir()
    assert list(faults(machine)) == ["systemd is not the init of this host", "the user manager has no message bus"]


def test_the_runtime_is_the_one_that_is_installed(machine: FakeMachine) -> None:
    assert runtime_of(machine, machine.dank) == "crun"
    machine.programs.remove("crun")
    assert runtime_of(machine, machine.dank) is None
    machine.programs.add("runc")
    assert runtime_of(machine, machine.dank) == "runc"
    assert "podman would run containers with runc" in faults(machine)


def test_the_last_setting_of_the_runtime_wins(machine: FakeMachine) -> None:
    machine.write("/usr/share/containers/containers.conf", '[engine]\n#runtime = "kata"\n')
    assert runtime_of(machine, machine.dank) == "crun"
    machine.write("/etc/containers/containers.conf", '[engine]\nruntime = "/usr/bin/runc"\n')
    assert runtime_of(machine, machine.dank) == "runc"
    machine.write("/etc/containers/containers.conf.d/10.conf", "[engine]\n  runtime = 'kata'\n")
    assert runtime_of(machine, machine.dank) == "kata"
    machine.write("/home/dank/.config/containers/containers.conf", '[engine]\nruntime = "crun"\n')
    assert runtime_of(machine, machine.dank) == "crun"


def test_a_setting_of_crun_does_not_install_it(machine: FakeMachine) -> None:
    machine.write("/etc/containers/containers.conf", '[engine]\nruntime = "crun"\n')
    machine.programs.remove("crun")
    assert list(faults(machine)) == ["podman would run containers with no runtime at all"]
