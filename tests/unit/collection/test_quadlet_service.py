"""quadlet_service: restarts exactly what differs, and says why."""

from __future__ import annotations

import pytest
from unit.collection.fakehost import FakeHost
from unit.collection.serving import IMAGE, SERVICE, Engine, arguments, ready, restarts


def test_what_runs_as_wanted_is_left_alone(running: FakeHost) -> None:
    result = running.ok("quadlet_service", **arguments())
    assert (result["changed"], result["reasons"]) == (False, [])
    assert (result["image_id"], result["started_at"]) == ("i1", 1)
    assert running.changes() == []


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"ActiveState": "inactive", "SubState": "dead"}, "it is inactive/dead"),
        ({"ActiveState": "failed", "SubState": "failed", "Result": "exit-code"}, "it is failed/failed (exit-code)"),
        (
            {"ActiveState": "failed", "SubState": "failed", "Result": "start-limit-hit"},
            "it is failed/failed (start-limit-hit)",
        ),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, "it is deactivating/stop-sigterm"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "it is waiting to be restarted after a failure"),
    ],
)
def test_what_does_not_run_is_started(running: FakeHost, properties: dict[str, str], reason: str) -> None:
    running.set(containers=[])
    running.unit(SERVICE, starts={"ImageID": "i1", "Labels": {"io.frank-fleet.spec": "s1"}}, **properties)

    result = running.ok("quadlet_service", **arguments(ready=None))

    assert result["changed"] and result["reasons"] == [reason]
    assert running.changes() == [
        f"systemctl --user reset-failed {SERVICE}",
        f"systemctl --user restart --no-block {SERVICE}",
    ]


def test_another_spec_is_a_reason(running: FakeHost) -> None:
    running.unit(SERVICE, starts={"ImageID": "i1", "Labels": {"io.frank-fleet.spec": "s2"}})
    result = running.ok("quadlet_service", **arguments(spec="s2"))
    assert result["reasons"] == ["it runs spec s1, the unit is s2"] and restarts(running) == 1


def test_a_container_without_the_label_is_restarted(running: FakeHost) -> None:
    running.set(containers=[])
    running.container(SERVICE, image="i1")
    result = running.ok("quadlet_service", **arguments())
    assert result["reasons"] == ["it runs spec without a label, the unit is s1"]


def test_another_image_behind_the_tag_is_a_reason(running: FakeHost) -> None:
    running.set(images={IMAGE: "i2"})
    running.unit(SERVICE, starts={"ImageID": "i2", "Labels": {"io.frank-fleet.spec": "s1"}})
    result = running.ok("quadlet_service", **arguments())
    assert result["reasons"] == [f"it runs image i1, {IMAGE} is i2"] and restarts(running) == 1


def test_an_active_unit_without_its_container_is_restarted(running: FakeHost) -> None:
    running.set(containers=[])
    assert running.ok("quadlet_service", **arguments())["reasons"] == [
        "it is active/running without a running container"
    ]


def test_a_container_that_only_exists_does_not_count_as_running(running: FakeHost) -> None:
    running.set(containers=[])
    running.container(SERVICE, spec="s1", image="i1", State="exited")
    assert running.ok("quadlet_service", **arguments())["changed"]


def test_the_container_of_another_unit_does_not_count(running: FakeHost) -> None:
    running.set(containers=[])
    running.container("b.service", spec="s1", image="i1")
    assert running.ok("quadlet_service", **arguments())["changed"]


def test_a_unit_that_still_loads_is_waited_for(running: FakeHost) -> None:
    looks = [{}, {}, {"ActiveState": "active", "SubState": "running"}]
    running.unit(SERVICE, ActiveState="activating", SubState="start", script=looks)
    result = running.ok("quadlet_service", **arguments())
    assert result["changed"] is False and running.changes() == []


def test_a_unit_whose_container_is_still_to_come_is_waited_for(running: FakeHost) -> None:
    container = {"ImageID": "i1", "Labels": {"io.frank-fleet.spec": "s1"}}
    looks = [{}, {}, {"ActiveState": "active", "SubState": "running", "container": container}]
    running.set(containers=[])
    running.unit(SERVICE, ActiveState="activating", SubState="start-pre", script=looks)
    result = running.ok("quadlet_service", **arguments())
    assert result["changed"] is False and running.changes() == []


def test_a_unit_that_ends_up_without_a_container_is_a_failure(running: FakeHost) -> None:
    running.set(containers=[])
    running.unit(SERVICE, ActiveState="activating", script=[{}, {"ActiveState": "active", "SubState": "exited"}])
    assert "none of its containers runs" in running.error("quadlet_service", **arguments())


def test_a_restart_is_over_only_when_the_new_invocation_runs(running: FakeHost, engine: Engine) -> None:
    """The old engine answers until systemd has stopped it: its answers must not count."""
    running.set(images={IMAGE: "i2"})
    stopping = {"ActiveState": "deactivating", "SubState": "stop-sigterm", "InvocationID": "old"}
    wanted = {"ImageID": "i2", "Labels": {"io.frank-fleet.spec": "s1"}}
    new = {"ActiveState": "active", "SubState": "running", "InvocationID": "new", "container": wanted}
    running.unit(SERVICE, InvocationID="old", on_start={**stopping, "script": [stopping, stopping, new]})
    asked_while: list[str] = []
    engine.spy = lambda: asked_while.append(running.state["units"][SERVICE]["InvocationID"])

    running.ok("quadlet_service", **arguments(ready=ready(engine.url)))

    assert asked_while == ["new"]


def test_an_old_container_that_does_not_end_is_said(running: FakeHost) -> None:
    running.unit(SERVICE, on_start={"InvocationID": "i", "ActiveState": "deactivating"})
    message = running.error("quadlet_service", **arguments(spec="s2", stop_timeout=0))
    assert "did not stop within 0 s" in message


def test_a_restart_that_brings_the_old_unit_back_is_a_failure(running: FakeHost) -> None:
    message = running.error("quadlet_service", **arguments(spec="s2"))
    assert "not as wanted: it runs spec s1, the unit is s2" in message


def test_a_missing_image_fails_before_anything_is_stopped(running: FakeHost) -> None:
    running.set(images={})
    message = running.error("quadlet_service", **arguments())
    assert IMAGE in message and "image_tag" in message and running.changes() == []


def test_a_unit_that_is_not_installed_is_named(running: FakeHost) -> None:
    running.set(units={})
    assert "quadlet_units" in running.error("quadlet_service", **arguments())


def test_systemds_refusal_is_passed_on(running: FakeHost) -> None:
    running.set(fail={"systemctl --user restart": "Unit a.service is masked."})
    assert "a.service is masked" in running.error("quadlet_service", **arguments(spec="s2"))


def test_check_mode_predicts_with_reasons_and_touches_nothing(running: FakeHost) -> None:
    running.set(images={IMAGE: "i2"})
    result = running.ok("quadlet_service", check=True, **arguments(spec="s2", ready=ready("http://127.0.0.1:1")))
    assert result["changed"]
    assert result["reasons"] == ["it runs spec s1, the unit is s2", f"it runs image i1, {IMAGE} is i2"]
    assert running.changes() == []


def test_check_mode_works_on_an_empty_host(host: FakeHost) -> None:
    host.bus.unlink()
    host.remove_command("podman")
    host.remove_command("systemctl")
    result = host.ok("quadlet_service", check=True, **arguments())
    assert result["reasons"] == ["it is not installed yet"]


def test_without_a_bus_or_podman_the_message_names_the_fix(running: FakeHost) -> None:
    running.remove_command("podman")
    assert "podman is not installed" in running.error("quadlet_service", **arguments())
    running.bus.unlink()
    assert "XDG_RUNTIME_DIR" in running.error("quadlet_service", **arguments())
