"""quadlet_units: all units or none, reloaded exactly when needed, recorded."""

from __future__ import annotations

import json
import os

import pytest
from unit.collection.fakehost import FakeHost
from unit.collection.unit_files import arguments, install, text


def test_a_fresh_host_gets_the_units_and_one_reload(host: FakeHost) -> None:
    result = install(host, a=text(), b=text("Exec=serve\n"))

    assert result["changed"] and result["reloaded"]
    assert [(unit["name"], unit["service"], unit["changed"]) for unit in result["units"]] == [
        ("a.container", "a.service", True),
        ("b.container", "b.service", True),
    ]
    assert (host.path / "b.container").read_text() == text("Exec=serve\n")
    assert (host.path / "a.container").stat().st_mode & 0o777 == 0o644
    assert host.changes() == ["systemctl --user daemon-reload"]
    recorded = json.loads(host.manifest.read_text())["owners"]["replicas"]
    assert recorded["a.container"]["spec"] == "abc"
    assert len(recorded["a.container"]["sha256"]) == 64


def test_a_second_run_changes_nothing(host: FakeHost) -> None:
    install(host, a=text())
    before = host.snapshot()

    result = install(host, a=text())

    assert result["changed"] is False
    assert host.snapshot() == before
    assert host.changes() == ["systemctl --user daemon-reload"]


def test_check_mode_predicts_with_a_diff_and_writes_nothing(host: FakeHost) -> None:
    install(host, a=text())
    before = host.snapshot()

    result = install(host, check=True, a=text("Exec=serve\n"), b=text())

    assert result["changed"] and host.snapshot() == before
    assert [(entry["before"], entry["after"]) for entry in result["diff"]] == [
        (text(), text("Exec=serve\n")),
        ("", text()),
    ]
    assert host.changes() == ["systemctl --user daemon-reload"]


def test_check_mode_works_before_podman_the_bus_and_the_home_exist(host: FakeHost) -> None:
    host.bus.unlink()
    host.remove_command("podman")
    host.remove_command("systemctl")
    host.home.rmdir()
    listed = arguments(host, a=text())

    result = host.ok("quadlet_units", check=True, **{**listed, "generator": "/nonexistent"})

    assert result["changed"]
    assert "not validated" in str(result["warnings"])
    assert not host.home.exists()


def test_without_a_generator_nothing_is_installed(host: FakeHost) -> None:
    listed = arguments(host, a=text())
    message = host.error("quadlet_units", **{**listed, "generator": "/nonexistent"})
    assert "install Podman" in message and "/nonexistent" in message
    assert host.snapshot() == {}


def test_without_a_bus_the_message_names_the_fix(host: FakeHost) -> None:
    host.bus.unlink()
    message = install(host, a=text())["msg"]
    assert str(host.bus) in message and "XDG_RUNTIME_DIR=/run/user/UID" in message and "linger" in message
    assert host.snapshot() == {}


def test_an_inherited_bus_address_is_not_used(host: FakeHost) -> None:
    install(host, a=text())
    assert "DBUS_SESSION_BUS_ADDRESS" not in os.environ


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (text("Memory=4g\n"), "unsupported key 'Memory'"),
        (text(install=""), "WantedBy=default.target"),
        (text(install="[Install]\nWantedBy=multi-user.target\n"), "would not start at boot"),
        (text("nonsense\n"), "file contains line 1: nonsense"),
    ],
)
def test_a_set_with_one_bad_unit_is_refused_as_a_whole(host: FakeHost, broken: str, reason: str) -> None:
    install(host, a=text())
    before, calls = host.snapshot(), host.changes()

    result = install(host, a=text("Exec=serve\n"), b=broken)

    assert result["failed"] and "b.container" in result["msg"] and reason in result["msg"]
    assert host.snapshot() == before and host.changes() == calls


def test_a_broken_unit_of_somebody_else_is_a_warning(host: FakeHost) -> None:
    host.path.mkdir(parents=True)
    (host.path / "theirs.container").write_text("[Container]\nMemory=1\n")

    result = install(host, a=text())

    assert result["changed"] and "theirs.container" in str(result["warnings"])


def test_a_foreign_unit_that_stops_the_generator_is_named(host: FakeHost) -> None:
    host.path.mkdir(parents=True)
    (host.path / "theirs.container").write_text("nonsense\n")
    assert "theirs.container" in install(host, a=text())["msg"]
    assert not (host.path / "a.container").exists()


def test_what_the_generator_says_of_ours_is_passed_on(host: FakeHost) -> None:
    unit = text().replace("localhost/x:1", "short")
    assert "not a fully qualified name" in str(install(host, a=unit)["warnings"])


def test_the_whole_set_is_validated_including_subfolders_and_drop_ins(host: FakeHost) -> None:
    (host.path / "sub").mkdir(parents=True)
    (host.path / "sub/other.container").write_text("[Container]\nMemory=1\n")
    assert "other.container" in str(install(host, a=text())["warnings"])


def test_a_kill_between_writing_and_reload_is_finished_by_the_next_run(host: FakeHost) -> None:
    install(host, a=text())
    (host.path / "a.container").write_text(text("Exec=serve\n"))
    host.unit("a.service", NeedDaemonReload="yes")

    result = install(host, a=text("Exec=serve\n"))

    assert result["changed"] and result["reloaded"]
    assert host.changes() == ["systemctl --user daemon-reload"] * 2


def test_a_unit_that_systemd_never_loaded_is_reloaded(host: FakeHost) -> None:
    install(host, a=text())
    host.set(units={})
    assert install(host, a=text())["reloaded"]


def test_a_reload_that_does_not_help_is_a_failure(host: FakeHost) -> None:
    host.set(ignored=["a.service"])
    assert "no current a.service" in install(host, a=text())["msg"]


def test_a_lost_manifest_is_written_anew(host: FakeHost) -> None:
    install(host, a=text())
    recorded = host.manifest.read_text()
    host.manifest.unlink()

    assert install(host, check=True, a=text())["changed"] and not host.manifest.exists()
    assert install(host, a=text())["changed"]
    assert host.manifest.read_text() == recorded
    assert host.changes() == ["systemctl --user daemon-reload"]


@pytest.mark.parametrize("garbage", ["{", "[]", '{"owners": 3}', '{"owners": {"replicas": ["a"]}}'])
def test_a_manifest_that_is_none_is_refused_by_name(host: FakeHost, garbage: str) -> None:
    host.manifest.parent.mkdir(parents=True)
    host.manifest.write_text(garbage)
    assert str(host.manifest) in install(host, a=text())["msg"]
    assert host.manifest.read_text() == garbage


def test_a_unit_that_left_the_list_is_reported_and_stays(host: FakeHost) -> None:
    install(host, a=text(), b=text())
    result = install(host, a=text())
    assert result["unlisted"] == ["b.container"] and not result["changed"]
    assert (host.path / "b.container").exists()
    assert "b.container" in json.loads(host.manifest.read_text())["owners"]["replicas"]


def test_owners_do_not_see_each_other(host: FakeHost) -> None:
    install(host, a=text())
    result = host.ok("quadlet_units", **{**arguments(host, p=text()), "owner": "proxy"})
    assert result["unlisted"] == []
    assert set(json.loads(host.manifest.read_text())["owners"]) == {"replicas", "proxy"}


def test_a_unit_that_changes_owner_has_one(host: FakeHost) -> None:
    install(host, a=text())
    host.ok("quadlet_units", **{**arguments(host, a=text()), "owner": "proxy"})
    owners = json.loads(host.manifest.read_text())["owners"]
    assert {owner: list(units) for owner, units in owners.items()} == {"proxy": ["a.container"]}


@pytest.mark.parametrize(
    ("units", "fault"),
    [
        ([{"name": "a.service", "content": text()}], "no name of a Quadlet unit"),
        ([{"name": "../a.container", "content": text()}], "no name of a Quadlet unit"),
        ([{"name": ".a.container", "content": text()}], "no name of a Quadlet unit"),
        ([{"name": "a.container", "content": "[Container]\n"}], "# Managed by frank-fleet"),
        ([{"name": "a.container", "content": text()}] * 2, "listed twice"),
    ],
)
def test_units_that_cannot_be_are_refused(host: FakeHost, units: list[dict[str, str]], fault: str) -> None:
    listed = {**arguments(host), "units": units}
    assert fault in host.error("quadlet_units", **listed)
    assert host.snapshot() == {}
