"""fleet_verify_info: every check holds on a sound host, and each fault is one FAIL line with what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import verify as checks
from ansible_collections.frank.fleet.plugins.module_utils.manifest import Manifest
from ansible_collections.frank.fleet.plugins.modules import fleet_verify_info
from unit.collection.fakehost import FakeHost
from unit.collection.serving import IMAGE, Engine

UNIT = "# Managed by frank-fleet\n[Container]\nLabel=io.frank-fleet.spec=s1\n"
# What the fixtures `verify` and `found` are.
Run, Found = Callable[..., dict[str, Any]], Callable[..., list[str]]
UP = {"a": {"state": "up", "reason": ""}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Path:
    """The host's own files: dank lingers, the admin port listens on loopback."""
    root = tmp_path / "root"
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger/dank").touch()
    listen(root, engine.port, "0100007F")
    for name in ("check_linger", "check_admin"):
        check = getattr(fleet_verify_info, name)
        monkeypatch.setattr(fleet_verify_info, name, lambda *what, check=check: check(*what, root))
    return root


def listen(root: Path, port: int, *addresses: str) -> None:
    """Have something listen on a port of these addresses."""
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    lines = "".join(f"  0: {address}:{port:04X} 00000000:0000 0A\n" for address in addresses)
    (root / "proc/net/tcp").write_text(f"head\n{lines}")
    (root / "proc/net/tcp6").write_text("head\n")


def record(host: FakeHost, unit: str) -> None:
    """Have the manifest know a unit as it is on disk."""
    manifest = Manifest(host.manifest)
    manifest.record("owner", unit, (host.path / unit).read_text())
    manifest.save()


@pytest.fixture
def plan(host: FakeHost, root: Path, engine: Engine) -> dict[str, Any]:
    """A host that runs one engine and the proxy as planned; `engine` answers for both and the admin port."""
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
    engine.answers["/replicas"] = (200, [{"name": "a", "url": engine.url}])
    engine.headers = {"X-Fleet-Replica": "a"}
    backends = [{"name": "a", "url": engine.url}]
    return {
        "engines": [{"name": "a", "unit": "a.container", "port": engine.port}],
        "proxy": {"name": "p", "unit": "p.container", "port": engine.port, "backends": backends},
        "retired": ["old.container"],
    }


@pytest.fixture
def verify(host: FakeHost, plan: dict[str, Any], engine: Engine) -> Run:
    """Run the module."""
    fixed = {"model": "frank-medium", "image": IMAGE, "user": "dank", "admin_port": engine.port}
    return lambda **changes: host.ok("fleet_verify_info", **{"plan": plan, **fixed, **changes})


@pytest.fixture
def found(verify: Run) -> Found:
    """Run the module; returns subject, check and what was seen of every check that does not hold."""
    return lambda **changes: failures(verify(**changes))


def failures(result: dict[str, Any]) -> list[str]:
    """Return subject, check and what was seen of every check that does not hold."""
    failed = [finding for finding in result["findings"] if not finding["ok"]]
    assert result["failed_checks"] == len(failed) == sum(line.startswith("FAIL ") for line in result["lines"])
    assert all(finding["fix"] for finding in failed)
    return [f"{finding['subject']} {finding['check']}: {finding['seen']}" for finding in failed]


def test_a_sound_host(host: FakeHost, verify: Run, found: Found) -> None:
    assert found() == []
    assert len(verify()["findings"]) == 14 and host.changes() == []


def test_the_tp2_shape_has_no_proxy(plan: dict[str, Any], found: Found) -> None:
    assert found(plan={**plan, "proxy": None}) == []


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
def test_units(host: FakeHost, found: Found, properties: dict[str, str], seen: str) -> None:
    host.unit("a.service", **{**host.state["units"]["a.service"], **properties})
    [fault] = found()
    assert fault.startswith("a unit: ") and seen in fault


@pytest.mark.parametrize(
    ("container", "seen"),
    [({"spec": "s0", "image": "i1"}, "it runs spec s0, the installed unit is s1"),
     ({"spec": "s1", "image": "i0"}, "it runs image i0, localhost/engine:1 is i1"),
     ({"spec": "s1", "image": "i1", "State": "exited"}, "no container of it runs")],
)  # fmt: skip
def test_containers(host: FakeHost, found: Found, container: dict[str, str], seen: str) -> None:
    host.set(containers=[kept for kept in host.state["containers"] if kept["Id"] != "id-a.service"])
    host.container("a.service", **container)
    assert found() == [f"a container: {seen}"]


@pytest.mark.parametrize(
    ("replicas", "seen"),
    [({"a": {"state": "draining", "reason": "drained by an operator"}}, "a draining (drained by an operator)"),
     ({"a": {"state": "down", "reason": "refused"}}, "a down (refused)"),
     ({**UP, "z": UP["a"]}, "it routes to a, z, the inventory has a")],
)  # fmt: skip
@pytest.mark.parametrize("code", [200, 503])
def test_the_proxys_view(engine: Engine, found: Found, replicas: dict[str, Any], seen: str, code: int) -> None:
    engine.answers["/health"] = (code, {"replicas": replicas})
    assert f"p health: {seen}" in found()


@pytest.mark.parametrize("answer", [(500, "x"), (200, {"data": [{"id": "other"}]})])
def test_completions(engine: Engine, found: Found, answer: tuple[int, Any]) -> None:
    engine.answers["/v1/models"] = answer
    assert [fault.partition(":")[0] for fault in found()] == ["a completion", "p completion"]


def test_a_key_goes_to_the_proxy_alone(engine: Engine, verify: Run) -> None:
    verify(api_key="k" * 16)
    keys = [key for path, _, key in engine.asked if path == "/v1/chat/completions"]
    assert keys == [None, f"Bearer {'k' * 16}"]


@pytest.mark.parametrize("addresses", [(), ("00000000",), ("0100007F", "0A00000A")])
def test_the_admin_port(engine: Engine, root: Path, found: Found, addresses: tuple[str, ...]) -> None:
    listen(root, engine.port, *addresses)
    [fault] = found()
    assert fault.startswith("p admin: port ")


def test_a_unit_that_was_edited_by_hand(host: FakeHost, found: Found) -> None:
    (host.path / "a.container").write_text(f"{UNIT}# more\n")
    assert found() == ["a file: edited since it was installed"]


def test_without_the_user_manager_the_rest_is_checked_all_the_same(
    host: FakeHost, plan: dict[str, Any], found: Found
) -> None:
    host.bus.unlink()
    plan["engines"][0]["port"] = 1
    assert [fault.partition(":")[0] for fault in found()] == ["dank manager", "a completion"]


@pytest.mark.parametrize("answer", [{"replicas": ["a"]}, {"replicas": {"a": "up"}}, [], "no json"])
def test_an_answer_that_is_no_proxys(engine: Engine, found: Found, answer: Any) -> None:
    engine.answers["/health"] = (200, answer)
    assert [fault.partition(":")[0] for fault in found()] == ["p health"]


def test_linger(root: Path, found: Found) -> None:
    (root / "var/lib/systemd/linger/dank").unlink()
    assert found() == ["dank linger: off: nothing starts at boot"]


@pytest.mark.parametrize("properties", [{"ActiveState": "failed"}, {"WantedBy": ""}])
def test_the_socket(host: FakeHost, found: Found, properties: dict[str, str]) -> None:
    host.unit("p.socket", **{"WantedBy": "sockets.target", **properties})
    [fault] = found()
    assert fault.startswith("p socket: ")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", None])
def test_a_replica_that_the_proxy_looks_for_elsewhere(engine: Engine, found: Found, url: str | None) -> None:
    engine.answers["/replicas"] = (200, [{"name": "a" if url else "z", "url": url}])
    assert found() == [f"p backends: a at {url}, not {engine.url}"]


@pytest.mark.parametrize("answer", [(500, "x"), (200, ["a"]), (200, "no json")])
def test_an_admin_port_that_is_no_proxys(engine: Engine, found: Found, answer: tuple[int, Any]) -> None:
    engine.answers["/replicas"] = answer
    assert [fault.partition(":")[0] for fault in found()] == ["p backends"]


@pytest.mark.parametrize(("by", "seen"), [({}, "no X-Fleet-Replica"), ({"X-Fleet-Replica": "z"}, "by z")])
def test_a_completion_by_no_replica_of_ours(engine: Engine, found: Found, by: dict[str, str], seen: str) -> None:
    engine.headers = by
    [fault] = found()
    assert fault.startswith("p completion: ") and seen in fault


def test_the_endpoint_from_where_clients_are(host: FakeHost, engine: Engine) -> None:
    asked = {"name": "p", "url": engine.url, "model": "frank-medium", "api_key": "k" * 16}
    engine.headers = {"X-Fleet-Replica": "a"}
    result = host.ok("endpoint_verify_info", **asked, replicas=["a", "b"])
    assert failures(result) == [] and result["lines"][0].endswith(", by a")
    assert engine.asked[-1][2] == f"Bearer {'k' * 16}"
    engine.headers = {}
    assert failures(host.ok("endpoint_verify_info", **asked)) == [], "an engine is the endpoint"
    assert failures(host.ok("endpoint_verify_info", **asked, replicas=["a"])) != []
    [fault] = host.ok("endpoint_verify_info", **{**asked, "url": "http://127.0.0.1:1"})["lines"]
    assert fault.startswith("FAIL  p ") and "refused" in fault and "verify_from_here=false" in fault


def test_a_unit_of_the_other_shape(host: FakeHost, found: Found) -> None:
    host.unit("old.service")
    assert found() == ["old retired: loaded, active"]


def test_a_proxy_that_does_not_answer(plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, found: Found) -> None:
    monkeypatch.setattr(checks, "TIMEOUT_SECONDS", 1)
    plan["proxy"]["port"] = 1
    assert [fault.partition(":")[0] for fault in found()] == ["p health", "p completion"]
