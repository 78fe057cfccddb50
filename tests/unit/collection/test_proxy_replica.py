"""proxy_replica drains without cutting, never the last one, and puts back; proxy_quiet waits for a quiet moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.modules import proxy_replica
from unit.collection.fakehost import FakeHost
from unit.collection.proxying import Admin
from unit.collection.serving import serving


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    """The admin port of a proxy with two replicas up."""
    monkeypatch.setattr(proxy_replica, "PAUSE_SECONDS", 0.01)
    admin = Admin(a="up", b="up")
    with serving(admin.server):
        yield admin


def wanted(admin: Admin, state: str, **changes: Any) -> dict[str, Any]:
    return {"admin": admin.url, "name": "a", "state": state, "timeout": 5, **changes}


def test_a_drain_waits_until_nothing_runs(host: FakeHost, admin: Admin) -> None:
    admin.running = [2, 2, 2, 1, 0]
    result = host.ok("proxy_replica", **wanted(admin, "drained"))
    assert (result["changed"], result["known"], result["in_flight"]) == (True, True, 0)
    assert admin.asked == ["/drain/a"] and admin.running == [0] and result["warnings"] == []


def test_a_drain_is_bounded_and_says_what_would_be_cut(host: FakeHost, admin: Admin) -> None:
    admin.running = [3]
    result = host.ok("proxy_replica", **wanted(admin, "drained", timeout=0))
    assert result["in_flight"] == 3 and "still runs 3 request(s)" in result["warnings"][0]


@pytest.mark.parametrize("other", ["down", "draining", "stalled"])
def test_the_last_that_serves_is_not_drained(host: FakeHost, admin: Admin, other: str) -> None:
    admin.replicas["b"]["state"] = other
    error = host.error("proxy_replica", **wanted(admin, "drained"))
    assert "the last replica that serves" in error and "llm_allow_outage=true" in error
    assert admin.replicas["a"]["state"] == "up"


def test_all_that_serve_are_not_drained_one_after_the_other(host: FakeHost, admin: Admin) -> None:
    error = host.error("proxy_replica", **wanted(admin, "drained", going=["a", "b"]))
    assert "the last replica that serves" in error and admin.asked == []


def test_one_that_stays_is_enough(host: FakeHost, admin: Admin) -> None:
    assert host.ok("proxy_replica", **wanted(admin, "drained", going=["a", "c"]))["changed"]


def test_the_last_that_serves_is_drained_when_told_so(host: FakeHost, admin: Admin) -> None:
    admin.replicas["b"]["state"] = "down"
    assert host.ok("proxy_replica", **wanted(admin, "drained", allow_outage=True))["changed"]
    assert admin.asked == ["/drain/a?force=1"]


def test_a_replica_that_is_down_may_be_drained(host: FakeHost, admin: Admin) -> None:
    admin.replicas["a"]["state"] = "down"
    assert host.ok("proxy_replica", **wanted(admin, "drained"))["changed"]


def test_serving_again_waits_for_the_health_check(host: FakeHost, admin: Admin) -> None:
    admin.replicas["a"]["state"], admin.serves_as = "draining", "down"
    later = threading.Timer(0.1, lambda: admin.replicas["a"].update(state="up"))
    later.start()
    assert host.ok("proxy_replica", **wanted(admin, "serving"))["changed"]
    assert admin.replicas["a"]["state"] == "up"


def test_a_replica_that_the_proxy_cannot_reach_is_a_failure(host: FakeHost, admin: Admin) -> None:
    admin.replicas["a"].update(state="draining", reason="Connection refused")
    admin.serves_as = "down"
    error = host.error("proxy_replica", **wanted(admin, "serving", timeout=1))
    assert "it is down (Connection refused)" in error and "http://a" in error


def test_a_replica_that_moves_to_another_port_is_not_waited_for(host: FakeHost, admin: Admin) -> None:
    admin.replicas["a"].update(state="draining", url="http://127.0.0.1:7771")
    admin.serves_as = "down"
    result = host.ok("proxy_replica", **wanted(admin, "serving", port=7781))
    assert "learns the new one" in result["warnings"][0] and admin.asked == ["/undrain/a"]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(("state", "told"), [("up", True), ("down", False), ("stalled", False)])
def test_it_tells_whether_the_replica_serves(host: FakeHost, admin: Admin, state: str, told: bool, check: bool) -> None:
    admin.replicas["a"]["state"] = admin.serves_as = state
    assert host.ok("proxy_replica", check, **wanted(admin, "serving", timeout=0))["serving"] is told


def test_somebody_else_on_the_admin_port_is_said(host: FakeHost, admin: Admin) -> None:
    admin.look = lambda: [{"not": "a replica"}]  # type: ignore[method-assign]  # a service that is none of ours
    assert "does not answer as the proxy's admin port" in host.error("proxy_replica", **wanted(admin, "drained"))


@pytest.mark.parametrize(("state", "before"), [("drained", "draining"), ("serving", "up")])
def test_what_is_so_already_is_no_change(host: FakeHost, admin: Admin, state: str, before: str) -> None:
    admin.replicas["a"]["state"] = before
    assert not host.ok("proxy_replica", **wanted(admin, state))["changed"]


def test_a_drained_replica_that_is_down_is_put_back(host: FakeHost, admin: Admin) -> None:
    admin.replicas["a"].update(state="down", reason="Connection refused, draining")
    assert host.ok("proxy_replica", **wanted(admin, "serving"))["changed"]


@pytest.mark.parametrize("state", ["drained", "serving"])
def test_without_a_proxy_there_is_nothing_to_do(host: FakeHost, state: str) -> None:
    result = host.ok("proxy_replica", admin="http://127.0.0.1:1", name="a", state=state)
    assert (result["changed"], result["known"], result["serving"]) == (False, False, False)


def test_a_replica_that_the_proxy_does_not_know_yet_is_no_error(host: FakeHost, admin: Admin) -> None:
    assert host.ok("proxy_replica", **wanted(admin, "drained", name="c"))["serving"] is False
    assert admin.asked == []


def test_a_replica_that_the_proxy_forgets_meanwhile_is_no_error(host: FakeHost, admin: Admin) -> None:
    admin.running = [1]
    threading.Timer(0.1, lambda: admin.replicas.pop("a")).start()
    assert host.ok("proxy_replica", **wanted(admin, "drained"))["known"] is False


def test_check_mode_looks_and_touches_nothing(host: FakeHost, admin: Admin) -> None:
    assert host.ok("proxy_replica", check=True, **wanted(admin, "drained"))["changed"]
    admin.replicas["b"]["state"] = "down"
    result = host.ok("proxy_replica", check=True, **wanted(admin, "drained"))
    assert "the last replica that serves" in result["warnings"][0] and admin.asked == []


def test_a_quiet_moment_is_waited_for(host: FakeHost, admin: Admin) -> None:
    admin.running = [2, 1, 0]
    assert host.ok("proxy_quiet", admin=admin.url, timeout=5)["in_flight"] == 0 and admin.running == [0]


@pytest.mark.parametrize("check", [True, False])
def test_a_wait_for_a_quiet_moment_is_bounded(host: FakeHost, admin: Admin, check: bool) -> None:
    admin.running = [1]
    result = host.ok("proxy_quiet", check=check, admin=admin.url, timeout=9 if check else 0)
    assert (result["changed"], result["in_flight"]) == (False, 2), "one in each of two replicas"


def test_without_a_proxy_it_is_quiet(host: FakeHost) -> None:
    assert host.ok("proxy_quiet", admin="http://127.0.0.1:1")["in_flight"] == 0
