"""retired_units: every file arrives in the trash, under its own path, over nothing else."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import files
from unit.collection.fakehost import FakeHost
from unit.collection.retirement import NAME, TEXT, retire, trashed


def test_files_go_with_their_relative_paths_drop_ins_and_own_environment(deployed: FakeHost) -> None:
    (deployed.path / "sub").mkdir()
    (deployed.path / "sub" / NAME).write_text(TEXT + "EnvironmentFile=old.env\nEnvironmentFile=-%h/outside.env\n")
    (deployed.path / "sub/old.env").write_text("A=1\n")
    (deployed.home / "outside.env").write_text("B=2\n")
    (deployed.path / f"{NAME}.d").mkdir()
    (deployed.path / f"{NAME}.d/10.conf").write_text("[Container]\n")

    retire(deployed)

    assert set(trashed(deployed)) == {NAME, f"sub/{NAME}", "sub/old.env", f"{NAME}.d/10.conf"}
    assert list(deployed.path.rglob("*")) == [deployed.path / "sub"]
    assert (deployed.home / "outside.env").exists()


def test_an_environment_file_that_another_unit_reads_stays(deployed: FakeHost) -> None:
    (deployed.path / NAME).write_text(TEXT + "EnvironmentFile=shared.env\n")
    (deployed.path / "other.container").write_text(TEXT + "EnvironmentFile=shared.env\n")
    (deployed.path / "shared.env").write_text("A=1\n")
    retire(deployed)
    assert (deployed.path / "shared.env").exists()


def test_a_link_is_moved_as_a_link(host: FakeHost) -> None:
    repository = host.root / "repository.container"
    repository.write_text(TEXT)
    host.path.mkdir(parents=True)
    (host.path / NAME).symlink_to(repository)
    retire(host)
    assert trashed(host) == {NAME: str(repository)} and repository.read_text() == TEXT


def test_a_dangling_link_and_a_linked_drop_in_folder_are_moved_too(host: FakeHost) -> None:
    elsewhere = host.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "10.conf").write_text("theirs")
    host.path.mkdir(parents=True)
    (host.path / NAME).symlink_to("/nowhere")
    (host.path / f"{NAME}.d").symlink_to(elsewhere)
    retire(host)
    assert trashed(host) == {NAME: "/nowhere", f"{NAME}.d": str(elsewhere)}
    assert (elsewhere / "10.conf").read_text() == "theirs"


def test_units_of_one_name_in_two_folders_both_survive(deployed: FakeHost) -> None:
    for folder in ("a", "b"):
        (deployed.path / folder).mkdir()
        (deployed.path / folder / NAME).write_text(folder)
    retire(deployed)
    assert trashed(deployed) == {NAME: TEXT, f"a/{NAME}": "a", f"b/{NAME}": "b"}


def test_two_runs_in_one_second_do_not_meet(deployed: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.time, "gmtime", lambda: time.struct_time((2026, 9, 16, 10, 15, 0, 2, 259, 0)))
    retire(deployed)
    (deployed.path / NAME).write_text("second")
    retire(deployed)
    folders = sorted(path.name for path in deployed.trash.iterdir())
    assert folders == ["20260916T101500Z-1", "20260916T101500Z-2"]
    assert (deployed.trash / folders[0] / NAME).read_text() == TEXT
    assert (deployed.trash / folders[1] / NAME).read_text() == "second"


@pytest.mark.parametrize("name", ["-x.container", "a b.container", "new\nline.container", "[a]*.container"])
def test_odd_names_are_handled(host: FakeHost, name: str) -> None:
    host.path.mkdir(parents=True)
    (host.path / name).write_text(TEXT)
    (host.path / "bystander.container").write_text(TEXT)
    retire(host, names=[name])
    assert trashed(host) == {name: TEXT} and (host.path / "bystander.container").exists()


def test_a_trash_on_another_file_system_gets_everything(deployed: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    (deployed.path / f"{NAME}.d").mkdir()
    (deployed.path / f"{NAME}.d/10.conf").write_text("drop-in")
    (deployed.path / f"{NAME}.d/20.conf").symlink_to("/nowhere")
    (deployed.path / "sub").mkdir()
    (deployed.path / "sub" / NAME).symlink_to("/nowhere")
    rename = Path.rename

    def across(self: Path, target: Path) -> Path:
        if (deployed.trash in self.parents) != (deployed.trash in Path(target).parents):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", across)
    retire(deployed)
    assert trashed(deployed) == {
        NAME: TEXT,
        f"{NAME}.d/10.conf": "drop-in",
        f"{NAME}.d/20.conf": "/nowhere",
        f"sub/{NAME}": "/nowhere",
    }
    assert list(deployed.path.rglob("*")) == [deployed.path / "sub"]


def test_a_trash_that_cannot_be_written_stops_everything_before_it_begins(deployed: FakeHost) -> None:
    deployed.trash.write_text("a file, not a folder")
    deployed.error("retired_units", names=[NAME])
    assert deployed.changes() == [] and (deployed.path / NAME).exists()


def test_a_trash_inside_the_quadlet_folder_is_refused(deployed: FakeHost) -> None:
    message = deployed.error("retired_units", names=[NAME], trash=str(deployed.path / ".trash"))
    assert "inside" in message and (deployed.path / NAME).exists()
