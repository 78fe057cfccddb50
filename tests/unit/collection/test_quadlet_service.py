"""quadlet_service: restarts exactly what differs, waits until it is ready, explains what fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import service
from unit.collection.fakehost import FakeHost

SERVICE, IMAGE = "a.service", "localhost/engine:1"
KV_TOO_SMALL = (
    "ValueError: To serve at least one request with the model's max seq len (262144), 9.61 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (5.14 GiB)."
)


class Engine:
    """An HTTP endpoint whose answers a test sets: path to (code, body), and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {
            "/health": (200, ""),
            "/v1/models": (200, {"data": [{"id": "frank-medium"}]}),
            "/v1/chat/completions": (200, {"choices": [{"message": {"content": None}}]}),
        }
        self.later: list[dict[str, tuple[int, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.spy: Callable[[], None] = lambda: None
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.spy()
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                engine.asked.append((self.path, json.loads(body or "{}"), self.headers.get("Authorization")))
                code, answer = engine.answers[self.path]
                if self.path == "/health" and engine.later:
                    engine.answers.update(engine.later.pop(0))
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    thread = threading.Thread(target=engine.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield engine
    engine.server.shutdown()
    thread.join()
    engine.server.server_close()


@pytest.fixture
def running(host: FakeHost) -> FakeHost:
    """A host on which a.service runs spec s1 of image i1, and both are what is wanted."""
    host.set(images={IMAGE: "i1"})
    host.unit(SERVICE, starts={"ImageID": "i1", "Labels": {"io.frank-fleet.spec": "s1"}})
    host.container(SERVICE, spec="s1", image="i1")
    return host


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pause = time.sleep
    monkeypatch.setattr(service.time, "sleep", lambda seconds: pause(min(seconds, 0.01)))
    monkeypatch.setattr(service, "TIMEOUT", 5)


def arguments(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "spec": "s1", "image": IMAGE, "stop_timeout": 5, **changes}


def ready(url: str, **changes: Any) -> dict[str, Any]:
    return {"url": url, "interval": 0.01, "timeout": 5, **changes}


def restarts(host: FakeHost) -> int:
    return host.changes().count(f"systemctl --user restart --no-block {SERVICE}")


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


def test_readiness_wants_health_model_and_a_completion(running: FakeHost, engine: Engine) -> None:
    wanted = ready(engine.url, model="frank-medium", completion=True, api_key="k3y")
    running.ok("quadlet_service", **arguments(ready=wanted))
    assert [path for path, _, _ in engine.asked] == ["/health", "/v1/models", "/v1/chat/completions"]
    assert {authorization for _, _, authorization in engine.asked} == {"Bearer k3y"}
    question = engine.asked[-1][1]
    assert question["model"] == "frank-medium" and 1 <= question["max_tokens"] <= 8


def test_without_a_model_only_health_counts(running: FakeHost, engine: Engine) -> None:
    running.ok("quadlet_service", **arguments(ready=ready(engine.url, model="")))
    assert [path for path, _, _ in engine.asked] == ["/health"]


def test_without_completion_none_is_asked_for(running: FakeHost, engine: Engine) -> None:
    running.ok("quadlet_service", **arguments(ready=ready(engine.url, model="frank-medium")))
    assert [path for path, _, _ in engine.asked] == ["/health", "/v1/models"]


def test_readiness_is_waited_for_even_if_nothing_was_restarted(running: FakeHost, engine: Engine) -> None:
    engine.answers["/health"] = (503, "loading")
    engine.later = [{}, {}, {"/health": (200, "")}]
    result = running.ok("quadlet_service", **arguments(ready=ready(engine.url, model="frank-medium")))
    assert not result["changed"] and [path for path, _, _ in engine.asked].count("/health") == 4


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("/health", (503, "loading"), "answered 503: loading"),
        ("/v1/models", (200, {"data": [{"id": "other"}]}), "serves other, not frank-medium"),
        ("/v1/models", (200, {"data": []}), "serves nothing, not frank-medium"),
        ("/v1/models", (200, "no json"), "no list 'data'"),
        ("/v1/chat/completions", (500, "engine dead"), "answered 500: engine dead"),
        ("/v1/chat/completions", (200, {"choices": []}), "without choices"),
    ],
)
def test_what_is_not_ready_in_time_is_said(
    running: FakeHost, engine: Engine, path: str, answer: tuple[int, Any], said: str
) -> None:
    engine.answers[path] = answer
    running.set(journal="last line")
    wanted = ready(engine.url, model="frank-medium", completion=True, timeout=0)
    message = running.error("quadlet_service", **arguments(ready=wanted))
    assert said in message and "not ready after 0 s" in message and "last line" in message


def test_a_port_that_nobody_listens_on_is_said(running: FakeHost) -> None:
    message = running.error("quadlet_service", **arguments(ready=ready("http://127.0.0.1:1", timeout=0)))
    assert "refused" in message


def failing(host: FakeHost, **properties: Any) -> None:
    host.set(containers=[])
    after = {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code", **properties}
    host.unit(
        SERVICE, ActiveState="inactive", SubState="dead", InvocationID="", on_start={**after, "InvocationID": "n"}
    )


def test_a_failed_start_tells_state_journal_and_meaning(running: FakeHost) -> None:
    failing(running)
    running.set(journal=f"loading\n{KV_TOO_SMALL}\nEngine core died")
    result = running.run("quadlet_service", **arguments())
    assert result["failed"] and result["msg"].startswith("a.service failed. ")
    assert "State: failed/failed, result exit-code" in result["msg"] and "Engine core died" in result["msg"]
    assert "MAXLEN=262144 needs 9.61 GiB and this card has 5.14 GiB" in result["meaning"]


def test_the_journal_is_read_from_the_start_on_only(running: FakeHost) -> None:
    failing(running)
    running.error("quadlet_service", **arguments())
    [*reads] = [call for call in running.calls if call.startswith("journalctl")]
    assert reads and all("--since @" in call and f"--unit {SERVICE}" in call for call in reads)


def test_the_journal_is_shown_without_podmans_own_notes(running: FakeHost) -> None:
    failing(running)
    noise = (
        f"2026-11-30 23:27:14.650419286 +0000 UTC m=+0.146221351 container create {'9f' * 32} (image=x, name=a)\n"
        f"conmon {'9f' * 10} <nwarn>: Failed to add inotify watch for /sys/fs/cgroup/memory.events\n{'9f' * 32}\n\n"
    )
    running.set(journal=f"{noise}first\n{noise}" + "2026-11-30 12:00 the engine's own line\n" * 30 + "last")
    message = running.error("quadlet_service", **arguments())
    shown = message.split("The end of its journal:\n")[1].split("\n")
    assert shown == ["2026-11-30 12:00 the engine's own line"] * 29 + ["last"]


def test_without_a_journal_the_containers_log_is_shown(running: FakeHost) -> None:
    failing(running)
    running.set(logs="from podman")
    assert "from podman" in running.error("quadlet_service", **arguments())


def test_an_engine_that_fails_twice_is_given_up(running: FakeHost) -> None:
    looping = {"ActiveState": "activating", "SubState": "auto-restart"}
    failing(running, script=[{"NRestarts": "0", **looping}, {"NRestarts": "0"}, {"NRestarts": "1"}, {"NRestarts": "1"},
                             {"NRestarts": "2"}, {"NRestarts": "2"}, {}], **looping)  # fmt: skip
    message = running.error("quadlet_service", **arguments(ready=ready("http://127.0.0.1:1")))
    assert "ended 2 time(s)" in message


def test_a_known_message_ends_the_wait_at_the_first_failure(running: FakeHost) -> None:
    looping = {"ActiveState": "activating", "SubState": "auto-restart"}
    failing(running, script=[{"NRestarts": "0", **looping}, {"NRestarts": "0"}, {"NRestarts": "1"}], **looping)
    running.set(journal="torch.OutOfMemoryError: HIP out of memory")
    message = running.error("quadlet_service", **arguments(ready=ready("http://127.0.0.1:1")))
    assert "ended 1 time(s)" in message and "ran out of memory" in message


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


def test_the_engines_ledger_is_returned(running: FakeHost) -> None:
    running.set(journal="GPU KV cache size: 122,636 tokens\nMaximum concurrency for 114,688 tokens per request: 1.07x")
    assert running.ok("quadlet_service", **arguments())["capacity"] == {
        "kv_cache_tokens": 122636.0,
        "max_concurrency": 1.07,
    }
