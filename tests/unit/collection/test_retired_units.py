"""retired_units: stop, move, reload, forget, prove; nothing left running."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from unit.collection.fakehost import FakeHost
from unit.collection.retirement import NAME, SERVICE, TEXT, retire, trashed


def test_a_running_unit_is_stopped_before_its_file_goes(deployed: FakeHost) -> None:
    result = retire(deployed)

    assert result["changed"]
    assert deployed.changes() == [
        f"systemctl --user stop {SERVICE}",
        "systemctl --user daemon-reload",
        f"systemctl --user reset-failed {SERVICE}",
    ]
    assert trashed(deployed) == {NAME: TEXT} and not (deployed.path / NAME).exists()
    assert deployed.state["containers"] == []
    [unit] = result["retired"]
    assert unit["service"] == SERVICE and Path(unit["files"][0]).read_text() == TEXT


def test_a_second_run_changes_nothing(deployed: FakeHost) -> None:
    retire(deployed)
    before, calls = deployed.snapshot(), deployed.changes()
    assert retire(deployed)["changed"] is False
    assert deployed.snapshot() == before and deployed.changes() == calls


def test_on_a_host_that_never_had_it_nothing_happens(host: FakeHost) -> None:
    result = retire(host)
    assert (result["changed"], result["retired"]) == (False, [])
    assert host.changes() == [] and host.snapshot() == {}


def test_check_mode_lists_what_would_go(deployed: FakeHost) -> None:
    before = deployed.snapshot()
    result = retire(deployed, check=True)
    assert result["changed"] and result["retired"][0]["files"] == [str(deployed.path / NAME)]
    assert str(deployed.path / NAME) in result["diff"]["before"]
    assert deployed.snapshot() == before and deployed.changes() == []


def test_check_mode_works_on_an_empty_host(host: FakeHost) -> None:
    host.bus.unlink()
    host.remove_command("podman")
    host.remove_command("systemctl")
    assert retire(host, check=True)["changed"] is False


def test_without_a_bus_nothing_is_touched(deployed: FakeHost) -> None:
    deployed.bus.unlink()
    before = deployed.snapshot()
    assert "XDG_RUNTIME_DIR" in deployed.error("retired_units", names=[NAME])
    assert deployed.snapshot() == before


def test_a_unit_that_still_loads_leaves_no_container(deployed: FakeHost) -> None:
    deployed.unit(SERVICE, ActiveState="activating", SubState="start")
    retire(deployed)
    assert "podman rm --force --time 10 id-old.service" in deployed.changes()
    assert deployed.state["containers"] == []
    assert deployed.state["units"][SERVICE]["ActiveState"] == "inactive"


def test_a_failed_unit_is_cleared(deployed: FakeHost) -> None:
    deployed.set(containers=[])
    deployed.unit(SERVICE, ActiveState="failed", SubState="failed", Result="start-limit-hit")
    retire(deployed)
    assert deployed.state["units"][SERVICE]["ActiveState"] == "inactive"


def test_a_container_whose_file_was_deleted_by_hand_is_removed(host: FakeHost) -> None:
    """systemd has forgotten the unit: stopping it would hang, so its container goes first."""
    host.unit(SERVICE, LoadState="not-found")
    host.container(SERVICE)
    result = retire(host)
    assert result["changed"] and result["retired"][0]["files"] == []
    assert host.state["containers"] == [] and not any("stop" in call for call in host.changes())
    assert host.state["units"][SERVICE]["ActiveState"] == "inactive"


def test_a_file_deleted_without_a_reload_is_stopped_as_usual(host: FakeHost) -> None:
    host.unit(SERVICE)
    host.container(SERVICE)
    retire(host)
    assert host.changes()[0] == f"systemctl --user stop {SERVICE}" and host.state["containers"] == []


def test_a_unit_that_does_not_stop_keeps_its_file(deployed: FakeHost) -> None:
    deployed.unit(SERVICE, unstoppable=True)
    message = deployed.error("retired_units", names=[NAME])
    assert "Does not stop: old.service" in message and (deployed.path / NAME).exists()


def test_what_systemd_still_loads_is_a_failure(deployed: FakeHost) -> None:
    """A unit of the same name in another folder of Quadlet, say."""
    deployed.unit(SERVICE, SourcePath="/etc/containers/systemd/users/old.container")
    (deployed.bin / "systemctl").write_text(
        (deployed.bin / "systemctl").read_text().replace('unit["LoadState"] = "not-found"', "pass")
    )
    message = deployed.error("retired_units", names=[NAME])
    assert "/etc/containers/systemd/users/old.container" in message and "not gone" in message


def listen_on(host: FakeHost, port: int, form: str = "Environment=PORT={}") -> None:
    (host.path / NAME).write_text(f"{TEXT}{form.format(port)}\n")


@pytest.mark.parametrize("form", ["Environment=PORT={}", 'Environment="PORT={}"'])
def test_a_port_that_stays_taken_is_a_failure(deployed: FakeHost, form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listen_on(deployed, port, form)
        assert f"port {port} is still in use" in deployed.error("retired_units", names=[NAME])


def test_a_free_port_is_none(deployed: FakeHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    listen_on(deployed, port)
    assert retire(deployed)["changed"]


@pytest.mark.parametrize("name", ["old.service", "old", "../old.container", "a/old.container"])
def test_a_name_that_is_no_unit_file_is_refused(host: FakeHost, name: str) -> None:
    assert "no name of a Quadlet unit" in host.error("retired_units", names=[name])


def test_a_kill_after_the_move_is_finished_by_the_next_run(deployed: FakeHost) -> None:
    (deployed.path / NAME).unlink()
    deployed.unit(SERVICE, ActiveState="inactive", SubState="dead")
    deployed.set(containers=[])
    assert retire(deployed)["changed"]
    assert deployed.state["units"][SERVICE]["LoadState"] == "not-found"
    assert retire(deployed)["changed"] is False


def test_service_names_of_other_kinds_of_unit(host: FakeHost) -> None:
    host.path.mkdir(parents=True)
    (host.path / "cache.volume").write_text("[Volume]\n")
    (host.path / "named.container").write_text("[Container]\nServiceName=other\n")
    services = [unit["service"] for unit in retire(host, names=["cache.volume", "named.container"])["retired"]]
    assert services == ["cache-volume.service", "other.service"]


def write_manifest(host: FakeHost, **owners: list[str]) -> None:
    host.manifest.parent.mkdir(parents=True)
    units = {owner: {name: {"sha256": "x", "spec": None} for name in names} for owner, names in owners.items()}
    host.manifest.write_text(json.dumps({"owners": units}))


def owned(host: FakeHost) -> dict[str, list[str]]:
    return {owner: list(units) for owner, units in json.loads(host.manifest.read_text())["owners"].items()}


def test_the_manifest_forgets_what_was_retired(deployed: FakeHost) -> None:
    write_manifest(deployed, replicas=[NAME, "a.container"], proxy=["p.container"])
    assert retire(deployed)["changed"]
    assert owned(deployed) == {"replicas": ["a.container"], "proxy": ["p.container"]}


def test_a_manifest_that_alone_is_left_over_is_mended(host: FakeHost) -> None:
    write_manifest(host, replicas=[NAME])
    assert retire(host, check=True)["changed"] and owned(host) == {"replicas": [NAME]}
    assert retire(host)["changed"] and owned(host) == {}
    assert retire(host)["changed"] is False


SOCKET = "old.socket"


def add_socket(host: FakeHost, text: str = "# Managed by frank-fleet\n[Socket]\nListenStream=1\n") -> Path:
    """Have systemd hold a socket for the unit; returns the folder of its files."""
    folder = host.home / ".config/systemd/user"
    (folder / "sockets.target.wants").mkdir(parents=True)
    (folder / SOCKET).write_text(text)
    (folder / "sockets.target.wants" / SOCKET).symlink_to(f"../{SOCKET}")
    host.unit(SOCKET)
    return folder


def test_its_socket_goes_first(deployed: FakeHost) -> None:
    folder = add_socket(deployed)
    retire(deployed)
    assert deployed.changes()[:2] == [f"systemctl --user stop {SOCKET}", f"systemctl --user stop {SERVICE}"]
    assert not any(path.is_file() or path.is_symlink() for path in folder.rglob("*"))
    assert set(trashed(deployed)) == {NAME, f"systemd/user/{SOCKET}", f"systemd/user/sockets.target.wants/{SOCKET}"}


def test_a_socket_of_somebody_else_stays(deployed: FakeHost) -> None:
    folder = add_socket(deployed, "[Socket]\nListenStream=1\n")
    retire(deployed)
    assert (folder / SOCKET).exists() and f"systemctl --user stop {SOCKET}" not in deployed.changes()


def test_a_socket_that_outlived_its_unit_goes_too(host: FakeHost) -> None:
    folder = add_socket(host)
    assert retire(host)["changed"] and not (folder / SOCKET).exists()
