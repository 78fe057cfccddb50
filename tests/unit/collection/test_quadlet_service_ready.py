"""quadlet_service: waits until the service is ready, and explains what fails."""

from __future__ import annotations

from typing import Any

import pytest
from unit.collection.fakehost import FakeHost
from unit.collection.serving import SERVICE, Engine, arguments, failing, ready

KV_TOO_SMALL = (
    "ValueError: To serve at least one request with the model's max seq len (262144), 9.61 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (5.14 GiB)."
)


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


def test_the_engines_ledger_is_returned(running: FakeHost) -> None:
    running.set(journal="GPU KV cache size: 122,636 tokens\nMaximum concurrency for 114,688 tokens per request: 1.07x")
    assert running.ok("quadlet_service", **arguments())["capacity"] == {
        "kv_cache_tokens": 122636.0,
        "max_concurrency": 1.07,
    }


def test_a_known_error_is_told_before_systemd_tries_again(running: FakeHost) -> None:
    running.set(containers=[], journal="torch.OutOfMemoryError: HIP out of memory.")
    waiting = {"ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "0", "InvocationID": "n"}
    running.unit(SERVICE, ActiveState="inactive", SubState="dead", InvocationID="", on_start=waiting)
    assert "ended 1 time(s) since its start" in running.error("quadlet_service", **arguments())
