"""quadlet_units: nothing is followed, nothing is lost, nothing is left half written."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import files
from unit.collection.fakehost import FakeHost
from unit.collection.unit_files import arguments, install, text


@pytest.mark.parametrize("link", [".config", ".config/containers", ".config/containers/systemd"])
def test_a_linked_folder_is_refused_by_name(host: FakeHost, link: str) -> None:
    elsewhere = host.root / "elsewhere"
    elsewhere.mkdir()
    (host.home / link).parent.mkdir(parents=True, exist_ok=True)
    (host.home / link).symlink_to(elsewhere)

    message = install(host, a=text())["msg"]

    assert f"{host.home / link} is a symlink to {elsewhere}" in message
    assert list(elsewhere.iterdir()) == []


def test_a_linked_unit_is_refused_and_its_target_left_alone(host: FakeHost) -> None:
    host.path.mkdir(parents=True)
    target = host.root / "repository.container"
    target.write_text("theirs")
    (host.path / "a.container").symlink_to(target)

    assert str(host.path / "a.container") in install(host, a=text())["msg"]
    assert target.read_text() == "theirs"


def test_a_home_behind_a_link_is_fine(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    (host.root / "link").symlink_to(host.home)
    monkeypatch.setenv("HOME", str(host.root / "link"))
    assert install(host, a=text())["changed"]


def test_a_folder_in_place_of_a_unit_is_refused(host: FakeHost) -> None:
    (host.path / "a.container").mkdir(parents=True)
    assert "not a regular file" in install(host, a=text())["msg"]


def test_a_unit_of_the_same_name_in_a_subfolder_is_refused(host: FakeHost) -> None:
    (host.path / "old").mkdir(parents=True)
    (host.path / "old/a.container").write_text(text())
    assert str(host.path / "old/a.container") in install(host, a=text())["msg"]


@pytest.mark.parametrize("theirs", ["theirs", text("Exec=mine\n")])
def test_a_file_we_did_not_write_is_kept_in_the_trash(host: FakeHost, theirs: str) -> None:
    host.path.mkdir(parents=True)
    (host.path / "a.container").write_text(theirs)

    [kept] = install(host, a=text())["kept"]

    assert Path(kept).read_text() == theirs and Path(kept).is_relative_to(host.trash)
    assert (host.path / "a.container").read_text() == text()


def test_an_edit_by_hand_is_kept_and_undone(host: FakeHost) -> None:
    install(host, a=text())
    (host.path / "a.container").write_text(text("Exec=edited\n"))

    [kept] = install(host, a=text())["kept"]

    assert Path(kept).read_text() == text("Exec=edited\n")
    assert (host.path / "a.container").read_text() == text()


def test_our_own_previous_version_needs_no_copy(host: FakeHost) -> None:
    install(host, a=text())
    assert install(host, a=text("Exec=serve\n"))["kept"] == []
    assert not host.trash.exists()


def test_a_trash_that_cannot_be_written_stops_the_change(host: FakeHost) -> None:
    host.path.mkdir(parents=True)
    (host.path / "a.container").write_text("theirs")
    host.trash.write_text("a file, not a folder")

    assert install(host, a=text(), b=text())["failed"]
    assert (host.path / "a.container").read_text() == "theirs" and not (host.path / "b.container").exists()


def test_a_trash_inside_the_quadlet_folder_is_refused(host: FakeHost) -> None:
    listed = {**arguments(host, a=text()), "trash": str(host.path / "trash")}
    assert "inside" in host.error("quadlet_units", **listed)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_unit(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    install(host, a=text())

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.os if step == "fsync" else Path, step, broken)
    assert "disk full" in install(host, a=text("Exec=serve\n"))["msg"]
    assert (host.path / "a.container").read_text() == text()
    assert [path.name for path in host.path.iterdir()] == ["a.container"]


def test_a_temporary_file_is_no_unit_and_is_swept_later(host: FakeHost) -> None:
    install(host, a=text())
    leftover = host.path / ".frank-fleet-x1y2.tmp"
    leftover.write_text("[Container]\nMem")
    install(host, a=text())
    assert not leftover.exists()


def test_a_truncated_live_file_is_repaired(host: FakeHost) -> None:
    install(host, a=text())
    (host.path / "a.container").write_text("")
    assert install(host, a=text())["changed"]
    assert (host.path / "a.container").read_text() == text()
