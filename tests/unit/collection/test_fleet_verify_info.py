"""fleet_verify_info: every check holds on a sound host, and each fault is one FAIL line with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import verify
from ansible_collections.frank.fleet.plugins.module_utils.manifest import Manifest
from ansible_collections.frank.fleet.plugins.modules import fleet_verify_info
from unit.collection.fakehost import FakeHost
from unit.collection.serving import IMAGE, Engine

UNIT = "# Managed by frank-fleet\n[Container]\nLabel=io.frank-fleet.spec=s1\n"
UP = {"a": {"state": "up", "reason": ""}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's own files: dank lingers, the admin port listens on loopback."""
    root = tmp_path / "root"
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger/dank").touch()
    listen(root, "0100007F")
    for name in ("check_linger", "check_admin"):
        check = getattr(fleet_verify_info, name)
        monkeypatch.setattr(fleet_verify_info, name, lambda *what, check=check: check(*what, root))
    return root


def listen(root: Path, *addresses: str) -> None:
    """Have something listen on the admin port (7769) of these addresses."""
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    lines = "".join(f"  0: {address}:1E59 00000000:0000 0A\n" for address in addresses)
    (root / "proc/net/tcp").write_text(f"head\n{lines}")
    (root / "proc/net/tcp6").write_text("head\n")


def record(host: FakeHost, unit: str) -> None:
    """Have the manifest know a unit as it is on disk."""
    manifest = Manifest(host.manifest)
    manifest.record("owner", unit, (host.path / unit).read_text())
    manifest.save()


@pytest.fixture
def plan(host: FakeHost, root: Path, engine: Engine) -> dict[str, Any]:
    """A host that runs one engine and the proxy as planned; the endpoint `engine` answers for both."""
    host.path.mkdir(parents=True)
    host.set(images={IMAGE: "i1"})
    for name in ("a", "p"):
        file = host.path / f"{name}.container"
        file.write_text(UNIT)
        record(host, f"{name}.container")
        host.unit(f"{name}.service", UnitFileState="generated", WantedBy="default.target", SourcePath=str(file))
        host.container(f"{name}.service", spec="s1", image="i1")
    host.unit("p.socket", WantedBy="sockets.target")
    engine.answers["/health"] = (200, {"replicas": UP})
    port = engine.server.server_port
    return {
        "engines": [{"name": "a", "unit": "a.container", "port": port}],
        "proxy": {"name": "p", "unit": "p.container", "port": port, "backends": [{"name": "a"}]},
        "retired": ["old.container"],
    }


def found(host: FakeHost, plan: dict[str, Any]) -> list[str]:
    """Return subject, check and what was seen of every check that does not hold."""
    result = host.ok("fleet_verify_info", plan=plan, model="frank-medium", image=IMAGE, user="dank")
    failed = [finding for finding in result["findings"] if not finding["ok"]]
    assert result["failed_checks"] == len(failed) == sum(line.startswith("FAIL ") for line in result["lines"])
    assert all(finding["fix"] for finding in failed)
    return [f"{finding['subject']} {finding['check']}: {finding['seen']}" for finding in failed]


def test_a_sound_host(host: FakeHost, plan: dict[str, Any]) -> None:
    assert found(host, plan) == []
    result = host.ok("fleet_verify_info", plan=plan, model="frank-medium", image=IMAGE, user="dank")
    assert len(result["findings"]) == 13 and host.changes() == []


def test_the_tp2_shape_has_no_proxy(host: FakeHost, plan: dict[str, Any]) -> None:
    assert found(host, {**plan, "proxy": None}) == []


@pytest.mark.parametrize(
    ("properties", "seen"),
    [
        (
            {"ActiveState": "failed", "SubState": "failed", "Result": "start-limit-hit"},
            "failed/failed (start-limit-hit)",
        ),
        ({"UnitFileState": "disabled"}, "its file state is disabled"),
        ({"WantedBy": "multi-user.target"}, "stays dark after a reboot"),
        ({"NeedDaemonReload": "yes"}, "an older file loaded"),
    ],
)
def test_units(host: FakeHost, plan: dict[str, Any], properties: dict[str, str], seen: str) -> None:
    host.unit("a.service", **{**host.state["units"]["a.service"], **properties})
    [fault] = found(host, plan)
    assert fault.startswith("a unit: ") and seen in fault


@pytest.mark.parametrize(
    ("container", "seen"),
    [({"spec": "s0", "image": "i1"}, "it runs spec s0, the installed unit is s1"),
     ({"spec": "s1", "image": "i0"}, "it runs image i0, localhost/engine:1 is i1"),
     ({"spec": "s1", "image": "i1", "State": "exited"}, "no container of it runs")],
)  # fmt: skip
def test_containers(host: FakeHost, plan: dict[str, Any], container: dict[str, str], seen: str) -> None:
    host.set(containers=[kept for kept in host.state["containers"] if kept["Id"] != "id-a.service"])
    host.container("a.service", **container)
    assert found(host, plan) == [f"a container: {seen}"]


@pytest.mark.parametrize(
    ("replicas", "seen"),
    [({"a": {"state": "draining", "reason": "drained by an operator"}}, "a draining (drained by an operator)"),
     ({"a": {"state": "down", "reason": "refused"}}, "a down (refused)"),
     ({**UP, "z": UP["a"]}, "it routes to a, z, the inventory has a")],
)  # fmt: skip
@pytest.mark.parametrize("code", [200, 503])
def test_the_proxys_view(
    host: FakeHost, plan: dict[str, Any], engine: Engine, replicas: dict[str, Any], seen: str, code: int
) -> None:
    engine.answers["/health"] = (code, {"replicas": replicas})
    assert f"p health: {seen}" in found(host, plan)


@pytest.mark.parametrize("answer", [(500, "x"), (200, {"data": [{"id": "other"}]})])
def test_completions(host: FakeHost, plan: dict[str, Any], engine: Engine, answer: tuple[int, Any]) -> None:
    engine.answers["/v1/models"] = answer
    assert [fault.partition(":")[0] for fault in found(host, plan)] == ["a completion", "p completion"]


def test_a_key_goes_to_the_proxy_alone(host: FakeHost, plan: dict[str, Any], engine: Engine) -> None:
    host.ok("fleet_verify_info", plan=plan, model="frank-medium", image=IMAGE, user="dank", api_key="k" * 16)
    keys = [key for path, _, key in engine.asked if path == "/v1/chat/completions"]
    assert keys == [None, f"Bearer {'k' * 16}"]


@pytest.mark.parametrize("addresses", [(), ("00000000",), ("0100007F", "0A00000A")])
def test_the_admin_port(host: FakeHost, plan: dict[str, Any], root: Path, addresses: tuple[str, ...]) -> None:
    listen(root, *addresses)
    [fault] = found(host, plan)
    assert fault.startswith("p admin: port 7769: ")


def test_a_unit_that_was_edited_by_hand(host: FakeHost, plan: dict[str, Any]) -> None:
    (host.path / "a.container").write_text(f"{UNIT}# more\n")
    assert found(host, plan) == ["a file: edited since it was installed"]


def test_without_the_user_manager_the_rest_is_checked_all_the_same(host: FakeHost, plan: dict[str, Any]) -> None:
    host.bus.unlink()
    plan["engines"][0]["port"] = 1
    assert [fault.partition(":")[0] for fault in found(host, plan)] == ["dank manager", "a completion"]


@pytest.mark.parametrize("answer", [{"replicas": ["a"]}, {"replicas": {"a": "up"}}, [], "no json"])
def test_an_answer_that_is_no_proxys(host: FakeHost, plan: dict[str, Any], engine: Engine, answer: Any) -> None:
    engine.answers["/health"] = (200, answer)
    assert [fault.partition(":")[0] for fault in found(host, plan)] == ["p health"]


def test_linger(host: FakeHost, plan: dict[str, Any], root: Path) -> None:
    (root / "var/lib/systemd/linger/dank").unlink()
    assert found(host, plan) == ["dank linger: off: nothing starts at boot"]


@pytest.mark.parametrize("properties", [{"ActiveState": "failed"}, {"WantedBy": ""}])
def test_the_socket(host: FakeHost, plan: dict[str, Any], properties: dict[str, str]) -> None:
    host.unit("p.socket", **{"WantedBy": "sockets.target", **properties})
    [fault] = found(host, plan)
    assert fault.startswith("p socket: ")


def test_a_unit_of_the_other_shape(host: FakeHost, plan: dict[str, Any]) -> None:
    host.unit("old.service")
    assert found(host, plan) == ["old retired: loaded, active"]


def test_a_proxy_that_does_not_answer(host: FakeHost, plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "TIMEOUT_SECONDS", 1)
    plan["proxy"]["port"] = 1
    assert [fault.partition(":")[0] for fault in found(host, plan)] == ["p health", "p completion"]
