"""Ports: free, held by the fleet itself, or held by somebody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.preflight_ports import check_ports, listeners
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from unit.collection.fakemachine import FakeMachine

PORTS = {7770: "frank-medium-proxy", 7771: "frank-medium-a"}
UNITS = {"frank-medium-a", "frank-medium-proxy", "frank-medium"}
MANAGER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice"


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def look(machine: FakeMachine, ports: dict[int, str] = PORTS, user: str = "dank") -> Report:
    report = Report()
    check_ports(machine, machine.dank._replace(exists=user == "dank"), ports, UNITS, report)
    return report


def test_free_ports(machine: FakeMachine) -> None:
    machine.listen(7772, "1")
    assert look(machine) == Report(rows=[("ports", "7770, 7771: free, or held by the fleet itself")])


def test_only_listening_sockets_count_in_both_tables(machine: FakeMachine) -> None:
    machine.listen(7770, "1", state="01")
    machine.listen(7771, "2", table="tcp6")
    machine.listen(7771, "3")
    assert listeners(machine) == {7771: {"2", "3"}}


@pytest.mark.parametrize(
    "unit", ["frank-medium-a.service/libpod-payload-abc", "frank-medium.service", "frank-medium-proxy.service/x"]
)
def test_units_of_the_fleet_may_hold_them_in_either_shape(machine: FakeMachine, unit: str) -> None:
    machine.listen(7770, "11")
    machine.process(500, "python3", f"1:name=systemd:/\n{MANAGER}/{unit}", socket="11")
    assert look(machine).faults == []


def test_a_unit_that_the_inventory_no_longer_has_is_ours_still(machine: FakeMachine) -> None:
    machine.listen(7771, "11")
    machine.process(500, "python3", f"{MANAGER}/frank-medium-old.service", socket="11")
    assert len(look(machine).faults) == 1
    manifest = {"owners": {"vllm_replica": {"frank-medium-old.container": {}}}}
    machine.write("/home/dank/.local/share/frank-fleet/manifest.json", json.dumps(manifest))
    assert look(machine).faults == []


def test_systemd_may_hold_one_for_a_socket_of_ours(machine: FakeMachine) -> None:
    machine.listen(7770, "11")
    machine.process(224, "systemd", f"0::{MANAGER.removesuffix('app.slice')}init.scope\n", socket="11")
    assert len(look(machine).faults) == 1, "it may be a socket of somebody else"
    socket = "/home/dank/.config/systemd/user/frank-medium-proxy.socket"
    machine.write(socket, "# Managed by frank-fleet\n[Socket]\nListenStream=0.0.0.0:7771\n")
    assert len(look(machine).faults) == 1, "ours listens on another port"
    machine.write(socket, "# Managed by frank-fleet\n[Socket]\nListenStream=0.0.0.0:7770\n")
    assert look(machine).faults == []


@pytest.mark.parametrize("text", ["", "[]", '{"owners": 1}', "{broken"])
def test_a_manifest_that_cannot_be_read_names_no_unit(machine: FakeMachine, text: str) -> None:
    machine.write("/home/dank/.local/share/frank-fleet/manifest.json", text)
    assert look(machine).faults == []


@pytest.mark.parametrize(
    ("cgroup", "who", "fix"),
    [
        ("0::/system.slice/nginx.service", ", nginx.service", "sudo systemctl disable --now nginx.service"),
        (f"{MANAGER}/other.service", ", other.service", "systemctl --user stop other.service"),
        # The same name in the manager of another user, and in the system's.
        (
            MANAGER.replace("1000", "1001") + "/frank-medium-a.service",
            ", frank-medium-a.service",
            "systemctl --user stop frank-medium-a.service",
        ),
        (
            "0::/system.slice/frank-medium-a.service",
            ", frank-medium-a.service",
            "sudo systemctl disable --now frank-medium-a.service",
        ),
        ("0::/user.slice/user-0.slice/session-4.scope", "", "sudo kill 500"),
    ],
)
def test_whoever_else_holds_one_is_named_with_the_way_to_end_it(
    machine: FakeMachine, cgroup: str, who: str, fix: str
) -> None:
    machine.listen(7771, "11")
    machine.process(500, "python3", cgroup, socket="11")
    (fault,) = look(machine).faults
    assert fault.what == "port 7771 of frank-medium-a is taken"
    assert fault.where == f"held by python3 (process 500{who})"
    assert fault.fix == f"{fix}, or give frank-medium-a another port in llm_fleet"


def test_a_holder_that_cannot_be_seen_is_a_fault_too(machine: FakeMachine) -> None:
    machine.listen(7771, "11")
    machine.process(500, "python3", socket="12")
    (fault,) = look(machine).faults
    assert fault.where == "held by something that cannot be seen"
    assert "ss -ltnp 'sport = :7771'" in fault.fix


def test_before_the_user_exists_no_unit_is_ours(machine: FakeMachine) -> None:
    machine.listen(7771, "11")
    machine.process(500, "python3", f"{MANAGER}/frank-medium-a.service", socket="11")
    assert len(look(machine, user="newcomer").faults) == 1


def test_a_port_for_root_only_is_a_fault(machine: FakeMachine) -> None:
    machine.write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "1024\n")
    assert look(machine, {1024: "a"}).faults == []
    (fault,) = look(machine, {1023: "a"}).faults
    assert fault.what == "port 1023 of a is for root only"
    assert "net.ipv4.ip_unprivileged_port_start=1023" in fault.fix
