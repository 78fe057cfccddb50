"""Folders and free space."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from ansible_collections.frank.fleet.plugins.module_utils.preflight_storage import (
    STORE,
    check_folders,
    check_space,
    checkpoints_of,
)
from unit.collection.fakemachine import FakeMachine

IMAGE = "localhost/radiance-vllm:0.9.3"
FOLDERS = {"/models/target": "SNAP of a", "/patches": "mounted by every engine"}


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def folders(machine: FakeMachine, may_be_empty: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    report = Report()
    check_folders(machine, machine.dank, FOLDERS, list(may_be_empty), report)
    return [(fault.what, fault.where) for fault in report.faults]


def space(machine: FakeMachine, **changes: Any) -> Report:
    report = Report()
    options = {"image": IMAGE, "image_gib": 40, "caches": {"~/.cache": 10}, **changes}
    check_space(machine, machine.dank, report=report, **options)
    return report


def test_checkpoints_are_found_where_they_are_mounted_from() -> None:
    engines = [
        {"name": name, "knobs": {"SNAP": "/models/target", "DRAFTER": "/models/sub/drafter"}} for name in ("a", "b")
    ]
    engines.append({"name": "c", "knobs": {"SNAP": "/elsewhere/target"}})
    assert checkpoints_of(engines, "/data/llm") == {
        "/data/llm/target": "SNAP of a, SNAP of b",
        "/data/llm/sub/drafter": "DRAFTER of a, DRAFTER of b",
    }


def test_folders_that_are_there(machine: FakeMachine) -> None:
    assert folders(machine) == []


def test_a_missing_one_is_a_fault(machine: FakeMachine) -> None:
    machine.remove("/patches/patch.py")
    machine.path("/patches").rmdir()
    assert folders(machine) == [("/patches is not a folder on this host", "mounted by every engine")]
    machine.write("/patches", "a file")
    assert folders(machine) == [("/patches is not a folder on this host", "mounted by every engine")]


def test_an_empty_one_is_a_fault_unless_it_may_be(machine: FakeMachine) -> None:
    machine.remove("/models/target/config.json")
    assert folders(machine) == [("/models/target is empty", "SNAP of a")]
    assert folders(machine, ("/models/targets", "/mod")) == [("/models/target is empty", "SNAP of a")]
    assert folders(machine, ("/models/target",)) == folders(machine, ("/models",)) == []


def test_one_that_may_be_empty_must_be_there(machine: FakeMachine) -> None:
    machine.remove("/patches/patch.py")
    machine.path("/patches").rmdir()
    assert len(folders(machine, ("/patches",))) == 1


def test_one_that_root_may_not_list_is_left_to_the_user(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert folders(machine) == []
    machine.forbidden = {"/patches"}
    assert [what for what, _ in folders(machine)] == ["dank may not read /patches"]


def test_what_the_user_may_not_read_is_a_fault_of_its_folder(machine: FakeMachine) -> None:
    for name in ("b.py", "c.py"):
        machine.write(f"/patches/{name}", "")
    machine.forbidden = {"/patches/b.py", "/patches/c.py"}
    ((what, where),) = folders(machine)
    assert what == "dank may not read /patches/b.py and 1 more"
    assert where.startswith("/patches/b.py (-rw")
    machine.forbidden = {"/models/target"}
    assert [what for what, _ in folders(machine)] == ["dank may not read /models/target"]


def test_a_neighbour_whose_name_begins_alike_is_not_below_a_folder(machine: FakeMachine) -> None:
    machine.forbidden = {"/patches-old/b.py"}
    assert folders(machine) == []


def test_image_and_caches_on_one_file_system_share_its_space(machine: FakeMachine) -> None:
    machine.free = 50
    assert space(machine).faults == []
    machine.free = 49
    (fault,) = space(machine).faults
    assert fault.what == "49 GiB are free where 50 GiB are needed"
    assert fault.where == f"/home/dank/.cache (10 GiB), /home/dank/{STORE} (40 GiB)"


def test_each_file_system_is_judged_by_itself(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "space", lambda path: (1, 40.0) if STORE in path else (2, 9.0))
    (fault,) = space(machine).faults
    assert fault.where == "/home/dank/.cache (10 GiB)"


def test_an_image_that_is_stored_needs_no_more_room(machine: FakeMachine) -> None:
    machine.free = 10
    index = f"/home/dank/{STORE}/overlay-images/images.json"
    machine.write(index, json.dumps([{"id": "1"}, {"id": "2", "names": ["localhost/other:1"]}]))
    assert len(space(machine).faults) == 1
    machine.write(index, json.dumps([{"id": "1"}, {"id": "2", "names": ["localhost/other:1", IMAGE]}]))
    assert space(machine).faults == []


@pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
def test_an_index_that_cannot_be_read_counts_as_no_image(machine: FakeMachine, text: str) -> None:
    machine.write(f"/home/dank/{STORE}/overlay-images/images.json", text)
    machine.free = 10
    assert len(space(machine).faults) == 1
