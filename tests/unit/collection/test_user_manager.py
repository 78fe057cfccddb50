"""user_manager: lingering, running, answering, and with the groups the user has."""

from __future__ import annotations

import grp
import os
import pwd
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.modules import user_manager
from unit.collection.fakehost import FakeHost

UID, GID, RENDER, VIDEO = 1000, 1000, 105, 44
GROUPS = {"dank": GID, "render": RENDER, "video": VIDEO}


@pytest.fixture
def box(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host with the user dank (in render and video), no linger and no user manager."""
    entry = pwd.struct_passwd(("dank", "x", UID, GID, "", "/home/dank", "/bin/bash"))

    def user(name: str) -> pwd.struct_passwd:
        if name != "dank":
            raise KeyError(name)
        return entry

    def group(name: str) -> grp.struct_group:
        return grp.struct_group((name, "x", GROUPS[name], []))

    monkeypatch.setattr(user_manager.pwd, "getpwnam", user)
    monkeypatch.setattr(user_manager.grp, "getgrnam", group)
    monkeypatch.setattr(user_manager.os, "getgrouplist", lambda *_: [GID, RENDER, VIDEO])
    monkeypatch.setattr(user_manager, "LINGER", host.root / "linger")
    monkeypatch.setattr(user_manager, "RUNTIME", host.root / "run")
    monkeypatch.setattr(user_manager, "PROC", host.root / "proc")
    (host.root / "proc").mkdir()
    host.bus.unlink()
    return host


def manage(box: FakeHost, check: bool = False, **changes: Any) -> dict[str, Any]:
    return box.ok("user_manager", check, **{"user": "dank", "timeout": 0, **changes})


def commands(box: FakeHost) -> list[str]:
    return [call for call in box.calls if "show" not in call]


def running(box: FakeHost, *groups: int) -> None:
    """Have the manager run with these groups."""
    box.bus.touch()
    box.set(manager_pid=77, lingers=True)
    (box.root / "linger").mkdir(exist_ok=True)
    (box.root / "linger/dank").touch()
    process(box, 77, "systemd", groups=" ".join(map(str, groups)))


def process(box: FakeHost, pid: int, name: str, groups: str = "") -> None:
    folder = box.root / "proc" / str(pid)
    folder.mkdir()
    (folder / "comm").write_text(f"{name}\n")
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t0\nGid:\t{GID}\t{GID}\t{GID}\t{GID}\nGroups:\t{groups} \n")


def test_a_first_run_enables_starts_and_waits(box: FakeHost) -> None:
    result = manage(box)
    assert result["changed"]
    assert result["actions"] == ["enable lingering", "start user@1000.service"]
    assert commands(box) == ["loginctl enable-linger dank", "systemctl start user@1000.service"]
    assert (result["uid"], result["home"]) == (UID, "/home/dank")
    assert result["runtime_dir"] == str(box.root / "run/1000")


def test_a_second_run_changes_nothing(box: FakeHost) -> None:
    manage(box)
    before = commands(box)
    assert manage(box)["changed"] is False
    assert commands(box) == before


def test_linger_needs_its_file_for_the_next_boot(box: FakeHost) -> None:
    running(box)
    (box.root / "linger/dank").unlink()
    assert manage(box)["actions"] == ["enable lingering"]


def test_a_bus_that_comes_late_is_waited_for(box: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    state = box.state
    box.write_state(**{**state, "bus": str(box.root / "elsewhere/bus")})
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            box.bus.touch()

    monkeypatch.setattr(user_manager.time, "sleep", pause)
    assert manage(box, timeout=60)["changed"]
    assert len(pauses) == 3


def test_a_bus_that_never_comes_is_an_error_with_the_fix(box: FakeHost) -> None:
    box.write_state(**{**box.state, "bus": str(box.root / "elsewhere/bus")})
    message = box.error("user_manager", user="dank", timeout=0)
    assert str(box.bus) in message and "dbus-user-session" in message and "journalctl -u user@1000.service" in message


def test_a_bus_without_a_manager_behind_it_does_not_count(box: FakeHost) -> None:
    running(box)
    box.set(fail={"systemctl --user --machine": "Connection refused"})
    assert "does not answer" in box.error("user_manager", user="dank", timeout=0)


def test_a_failed_start_is_passed_on(box: FakeHost) -> None:
    box.set(fail={"systemctl start": "Job for user@1000.service failed."})
    assert "Job for user@1000.service failed" in box.error("user_manager", user="dank")


def test_a_manager_with_all_groups_is_left_alone(box: FakeHost) -> None:
    running(box, RENDER, VIDEO)
    assert manage(box, groups=["render", "video", "dank"])["changed"] is False


def test_an_idle_manager_that_lacks_a_group_is_restarted(box: FakeHost) -> None:
    running(box, VIDEO)
    result = manage(box, groups=["render", "video"])
    assert result["actions"] == ["restart user@1000.service to get the group(s) render"]
    assert commands(box) == ["systemctl restart user@1000.service"]


def test_a_manager_with_a_running_container_is_not_restarted(box: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    running(box, VIDEO)
    process(box, 78, "conmon")
    monkeypatch.setattr(user_manager.Manager, "owns", lambda *_: True)
    message = box.error("user_manager", user="dank", groups=["render"])
    assert "render" in message and "systemctl restart user@1000.service" in message
    assert commands(box) == []


def test_a_container_of_somebody_else_does_not_matter(box: FakeHost) -> None:
    running(box, VIDEO)
    process(box, 78, "conmon")
    assert os.geteuid() != UID
    assert manage(box, groups=["render"])["changed"]


def test_a_process_that_is_no_container_does_not_matter(box: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    running(box, VIDEO)
    process(box, 78, "bash")
    monkeypatch.setattr(user_manager.Manager, "owns", lambda *_: True)
    assert manage(box, groups=["render"])["changed"]


def test_restarting_can_be_forbidden(box: FakeHost) -> None:
    running(box, VIDEO)
    assert "render" in box.error("user_manager", user="dank", groups=["render"], restart_if_idle=False)
    assert commands(box) == []


def test_without_linger_only_groups_are_looked_at(box: FakeHost) -> None:
    assert manage(box, linger=False, groups=["render"])["changed"] is False
    assert commands(box) == []


@pytest.mark.parametrize("group", ["docker", "nonexistent"])
def test_a_group_the_user_is_not_in_is_named_with_the_fix(
    box: FakeHost, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    monkeypatch.setitem(GROUPS, "docker", 999)
    assert f"usermod -aG {group} dank" in box.error("user_manager", user="dank", groups=[group])


def test_a_user_that_is_not_there_is_named(box: FakeHost) -> None:
    assert "no user ghost" in box.error("user_manager", user="ghost")


def test_check_mode_before_the_user_exists(box: FakeHost) -> None:
    assert manage(box, check=True, user="ghost")["changed"]


def test_check_mode_before_the_groups_exist(box: FakeHost) -> None:
    running(box)
    assert manage(box, check=True, groups=["nonexistent"])["changed"] is False


def test_check_mode_predicts_and_touches_nothing(box: FakeHost) -> None:
    assert manage(box, check=True)["actions"] == ["enable lingering", "start user@1000.service"]
    running(box, VIDEO)
    assert manage(box, check=True, groups=["render"])["changed"]
    assert commands(box) == []
