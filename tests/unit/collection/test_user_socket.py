"""user_socket: the port is systemd's, at boot too, and what holds it by itself lets go first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.collection.fakehost import FakeHost

TEXT = "# Managed by frank-fleet\n[Socket]\nListenStream=0.0.0.0:7770\n"
SOCKET, SERVICE = "p.socket", "p.service"
RELOAD = "systemctl --user daemon-reload"
START = [RELOAD, f"systemctl --user reset-failed {SOCKET}", f"systemctl --user start {SOCKET}"]


def folder(host: FakeHost) -> Path:
    return host.home / ".config/systemd/user"


def install_service(host: FakeHost) -> None:
    host.path.mkdir(parents=True)
    (host.path / "p.container").touch()


def wanted(**changes: Any) -> dict[str, Any]:
    return {"name": "p", "content": TEXT, **changes}


@pytest.fixture
def held(host: FakeHost) -> FakeHost:
    """A host whose systemd holds the socket, with its service running."""
    install_service(host)
    host.ok("user_socket", **wanted())
    host.unit(SOCKET)
    host.unit(SERVICE)
    (host.root / "calls").unlink()
    return host


def test_a_fresh_host_gets_the_socket_at_boot_and_now(host: FakeHost) -> None:
    result = host.ok("user_socket", **wanted())
    assert result["reasons"] == ["it is not installed yet", "it is not started at boot", "it is inactive/dead"]
    assert (folder(host) / SOCKET).read_text() == TEXT
    assert (folder(host) / "sockets.target.wants" / SOCKET).resolve() == folder(host) / SOCKET
    assert host.changes() == [RELOAD], "the start of its service, which is not installed yet, starts it"


def test_a_second_run_changes_nothing(held: FakeHost) -> None:
    assert held.ok("user_socket", **wanted())["changed"] is False and held.changes() == []


def test_a_service_that_listens_by_itself_lets_go_first(host: FakeHost) -> None:
    install_service(host)
    host.unit(SERVICE)
    host.ok("user_socket", **wanted())
    assert host.changes() == [f"systemctl --user stop {SERVICE}", *START]


def test_another_port_is_taken_over_with_both_stopped(held: FakeHost) -> None:
    result = held.ok("user_socket", **wanted(content=TEXT.replace("7770", "7780")))
    assert result["reasons"] == ["the file differs"]
    assert held.changes() == [f"systemctl --user stop {SOCKET}", f"systemctl --user stop {SERVICE}", *START]


def test_another_word_in_it_closes_no_port(held: FakeHost) -> None:
    assert held.ok("user_socket", **wanted(content=TEXT + "Backlog=5\n"))["reasons"] == ["the file differs"]
    assert held.changes() == [RELOAD]


def test_a_run_that_was_killed_before_the_start_is_finished(held: FakeHost) -> None:
    held.unit(SOCKET, ActiveState="inactive", SubState="dead")
    assert held.ok("user_socket", **wanted())["reasons"] == ["it is inactive/dead"]
    assert held.changes() == [f"systemctl --user stop {SERVICE}", *START]


def test_a_missing_link_is_made_without_touching_the_service(held: FakeHost) -> None:
    (folder(held) / "sockets.target.wants" / SOCKET).unlink()
    assert held.ok("user_socket", **wanted())["reasons"] == ["it is not started at boot"]
    assert held.changes() == [RELOAD]


def test_a_file_of_somebody_else_is_kept_in_the_trash(host: FakeHost) -> None:
    folder(host).mkdir(parents=True)
    (folder(host) / SOCKET).write_text("[Socket]\nListenStream=1\n")
    host.ok("user_socket", **wanted())
    [kept] = host.trash.rglob(SOCKET)
    assert kept.read_text() == "[Socket]\nListenStream=1\n"


def test_a_file_where_its_link_belongs_is_kept_in_the_trash(held: FakeHost) -> None:
    link = folder(held) / "sockets.target.wants" / SOCKET
    link.unlink()
    link.write_text("by hand")
    assert held.ok("user_socket", **wanted())["reasons"] == ["it is not started at boot"]
    [kept] = held.trash.rglob(SOCKET)
    assert kept.read_text() == "by hand" and link.is_symlink()


def test_a_file_that_systemd_has_not_read_yet_is_loaded(held: FakeHost) -> None:
    held.unit(SOCKET, NeedDaemonReload="yes")
    assert held.ok("user_socket", **wanted())["reasons"] == ["systemd has an older file loaded"]
    assert held.changes() == [RELOAD]


def test_a_link_in_its_place_is_not_followed(host: FakeHost) -> None:
    folder(host).mkdir(parents=True)
    (folder(host) / SOCKET).symlink_to("/etc/passwd")
    assert "is a symlink" in host.error("user_socket", **wanted())


def test_check_mode_predicts_without_a_bus(host: FakeHost) -> None:
    host.bus.unlink()
    result = host.ok("user_socket", check=True, **wanted())
    assert result["changed"] and result["diff"]["after"] == TEXT and not folder(host).exists()


def test_a_text_without_the_marker_is_refused(host: FakeHost) -> None:
    assert "Managed by frank-fleet" in host.error("user_socket", **wanted(content="[Socket]\n"))
