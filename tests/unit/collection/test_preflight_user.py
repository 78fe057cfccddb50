"""The service user as a deploy finds it; what it makes itself is no fault."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from ansible_collections.frank.fleet.plugins.module_utils.preflight_user import check_user, identity_of
from unit.collection.fakemachine import FakeMachine

GROUPS = ["render", "video"]


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def look(machine: FakeMachine, name: str = "dank") -> Report:
    report = Report()
    check_user(machine, identity_of(machine, name, GROUPS), GROUPS, 65536, report)
    return report


def row(machine: FakeMachine) -> str:
    return dict(look(machine).rows)["user"]


def test_a_sound_user(machine: FakeMachine) -> None:
    machine.manager("44 105 1000")
    machine.write("/var/lib/systemd/linger/dank", "")
    expected = "dank (uid 1000), 65536 subordinate ids, lingers, groups render video"
    assert look(machine) == Report(rows=[("user", expected)])


def test_a_user_that_is_still_to_be_created_is_no_fault(machine: FakeMachine) -> None:
    assert look(machine, "newcomer") == Report(rows=[("user", "newcomer does not exist yet: a deploy creates it")])


def test_access_is_judged_with_the_groups_that_a_deploy_adds(machine: FakeMachine) -> None:
    machine.members["dank"] = {1000, 27}
    assert machine.dank.groups == (27, 44, 105, 1000)
    newcomer = identity_of(machine, "newcomer", ["render", "unknown"])
    assert (newcomer.exists, newcomer.uid, newcomer.groups) == (False, 65534, (105,))


def test_root_is_refused(machine: FakeMachine) -> None:
    machine.accounts["root"] = pwd.struct_passwd(("root", "x", 0, 0, "", "/root", "/bin/bash"))
    machine.members["root"] = {0}
    assert [fault.what for fault in look(machine, "root").faults] == ["the service user is root, which is root"]


def test_a_missing_home_is_a_fault(machine: FakeMachine) -> None:
    machine.remove("/home/dank/keep")
    machine.path("/home/dank").rmdir()
    (fault,) = look(machine).faults
    assert fault.what == "the home of dank does not exist"
    assert "install -d -m 0750 -o 1000 -g 1000 /home/dank" in fault.fix


def test_missing_ids_are_given_by_a_deploy(machine: FakeMachine) -> None:
    machine.write("/etc/subuid", "other:100000:65536\n")
    assert look(machine).faults == []
    assert "will get subordinate ids" in row(machine)


def test_too_few_ids_are_a_fault_whose_fix_takes_free_ones(machine: FakeMachine) -> None:
    machine.write("/etc/subgid", "dank:100000:1000\nother:300000:65536\n")
    (fault,) = look(machine).faults
    assert (fault.what, fault.where) == ("dank has 1000 subordinate ids, wanted are 65536", "/etc/subgid")
    assert "usermod --add-subgids 365536-431071 dank" in fault.fix


def test_ranges_add_up_and_may_name_the_number(machine: FakeMachine) -> None:
    machine.write("/etc/subuid", "dank:100000:32768\n1000:200000:32768\n# note\nbroken:x:1\n\n")
    assert look(machine).faults == []


def test_overlapping_ids_are_a_warning(machine: FakeMachine) -> None:
    machine.write("/etc/subuid", "dank:1:9\ndank:100000:65536\nother:165535:65536\nnext:165536:10\n")
    report = look(machine)
    assert report.faults == []
    assert [warning.split(",")[0] for warning in report.warnings] == ["/etc/subuid: the ids of dank and other overlap"]


def test_groups_come_with_the_managers_start_or_restart(machine: FakeMachine) -> None:
    assert "groups render video when its manager starts" in row(machine)
    machine.manager("44 1000")
    assert look(machine).faults == []
    assert "once a deploy has restarted its manager" in row(machine)


def test_a_manager_that_serves_without_a_group_is_a_fault(machine: FakeMachine) -> None:
    machine.manager("44 1000")
    machine.process(800, "conmon")
    (fault,) = look(machine).faults
    assert fault.what == "the running manager of dank lacks the group(s) render"
    assert fault.where == "user@1000.service (process 700)"
    assert fault.fix.startswith("sudo usermod -aG render dank && sudo systemctl restart user@1000.service ")


def test_containers_of_others_do_not_keep_the_manager_from_a_restart(machine: FakeMachine) -> None:
    machine.manager("44 1000")
    machine.process(800, "conmon")
    machine.owners[800] = 1001
    assert look(machine).faults == []


def test_a_group_that_does_not_exist_is_made_first(machine: FakeMachine) -> None:
    del machine.groups["render"]
    machine.manager("44 1000")
    machine.process(800, "conmon")
    (fault,) = look(machine).faults
    assert fault.fix.startswith("sudo groupadd --system render && sudo usermod -aG render dank && ")
