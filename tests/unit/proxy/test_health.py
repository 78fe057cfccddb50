"""What an operator sees and does: health checks, drain and undrain."""

import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from proxy_process import ProxyProcess, pins
from stub_engine import Call, StubEngine, wait_until

A, B = "frank-medium-a", "frank-medium-b"
Start = Callable[..., ProxyProcess]


class TestHealth:
    def test_reports_each_replica(self, proxy: ProxyProcess) -> None:
        answer = proxy.get("/health")
        assert answer.status == 200
        assert answer.header("Content-Type") == "application/json"
        up = {"state": "up", "reason": ""}
        assert answer.json() == {"status": "ok", "replicas": {A: up, B: up}}

    def test_a_replica_that_is_missing_is_degraded_with_the_reason(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        engines[0].stop()
        proxy = start_proxy()
        answer = proxy.get("/health")
        assert (answer.status, answer.json()["status"]) == (200, "degraded")
        assert answer.json()["replicas"][A] == {"state": "down", "reason": "connection refused"}
        assert proxy.metric(f'routing_proxy_replica_up{{replica="{A}"}}') == 0

    def test_active_checks_notice_a_death_without_any_request(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        proxy = start_proxy(HEALTH_INTERVAL="0.1")
        engines[1].stop()
        wait_until(lambda: proxy.states() == {A: "up", B: "down"}, 5)
        proxy.wait_for_line(f"proxy: {B} is down (connection refused)")

    def test_one_or_two_bad_answers_do_not_flap_and_three_do(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        proxy = start_proxy(HEALTH_INTERVAL="0.2")
        asked = threading.Semaphore(0)
        bad = [500, 500]

        class Health(int):
            def __format__(self, spec: str) -> str:
                asked.release()
                return str(bad.pop() if bad else 200)

        engines[0].health = Health()
        for _ in range(4):
            assert asked.acquire(timeout=10)
        assert f"proxy: {A} is down (/health answered 500)" not in proxy.lines
        bad += [500] * 1000
        proxy.wait_for_line(f"proxy: {A} is down (/health answered 500)")

    def test_client_errors_change_nothing(self, proxy: ProxyProcess, engines: list[StubEngine]) -> None:
        for engine in engines:
            engine.script = lambda call: call.answer(b"{}", "400 Bad Request")
        assert [proxy.post().status for _ in range(10)] == [400] * 10
        assert proxy.states() == {A: "up", B: "up"}


class TestDrain:
    def test_a_drained_replica_gets_nothing_new_and_finishes_what_it_has(
        self, proxy: ProxyProcess, engines: list[StubEngine]
    ) -> None:
        go_on = threading.Event()

        def stream(call: Call) -> None:
            call.stream()
            go_on.wait(10)
            call.chunk(b"data: end\n\n")
            call.end()

        for engine in engines:
            engine.script = stream
        clients = [proxy.client().post("/v1/chat/completions") for _ in range(2)]
        wait_until(lambda: [len(engine.requests) for engine in engines] == [1, 1])
        answer = proxy.admin("POST", f"/drain/{A}")
        assert (answer.status, answer.json()["state"], answer.json()["in_flight"]) == (200, "draining", 1)
        assert proxy.get("/health").json()["status"] == "degraded"
        go_on.set()
        assert [client.read().body for client in clients] == [b"data: end\n\n"] * 2
        assert {proxy.post().header("X-Fleet-Replica") for _ in range(4)} == {B}
        assert proxy.admin("POST", f"/undrain/{A}").json()["state"] == "up"
        assert {proxy.post().header("X-Fleet-Replica") for _ in range(4)} == {A, B}

    def test_the_last_serving_replica_is_drained_by_force_only(self, proxy: ProxyProcess) -> None:
        assert proxy.admin("POST", f"/drain/{A}").status == 200
        refused = proxy.admin("POST", f"/drain/{B}")
        assert refused.status == 409
        assert "?force=1" in refused.json()["error"]
        assert proxy.states()[B] == "up"
        assert proxy.admin("POST", f"/drain/{B}?force=1").status == 200
        assert proxy.get("/health").status == 503
        assert proxy.post().status == 503

    def test_a_drained_replica_that_is_restarted_stays_drained(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        proxy = start_proxy(HEALTH_INTERVAL="0.1")
        proxy.admin("POST", f"/drain/{A}")
        engines[0].stop()
        wait_until(lambda: proxy.states()[A] == "down")
        engines[0].start()
        wait_until(lambda: proxy.states()[A] == "draining", 2)

    def test_replicas_lists_what_operators_want_to_know(self, proxy: ProxyProcess, engines: list[StubEngine]) -> None:
        replica = proxy.post().header("X-Fleet-Replica")
        listed = proxy.admin("GET", "/replicas").json()
        assert [set(entry) for entry in listed] == [
            {"name", "url", "state", "reason", "since", "in_flight", "pins"}
        ] * 2
        assert [entry["name"] for entry in listed] == [A, B]
        assert listed[0]["url"] == f"http://127.0.0.1:{engines[0].port}"
        assert pins(proxy) == {A: int(replica == A), B: int(replica == B)}
        assert abs(listed[0]["since"] - time.time()) < 60

    @pytest.mark.parametrize(
        ("method", "target", "status"),
        [
            ("POST", "/drain/nobody", 404),
            ("GET", f"/drain/{A}", 405),
            ("POST", "/replicas", 405),
            ("GET", "/", 404),
            ("POST", "/drain/", 404),
        ],
    )
    def test_mistakes_are_answered(self, proxy: ProxyProcess, method: str, target: str, status: int) -> None:
        answer = proxy.admin(method, target)
        assert answer.status == status
        assert answer.json()["error"]

    def test_the_admin_port_is_on_loopback_only_and_not_on_the_endpoint(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        proxy = start_proxy(HOST="0.0.0.0")
        listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
        assert f"127.0.0.1:{proxy.admin_port} " in listening
        assert f"0.0.0.0:{proxy.admin_port} " not in listening
        assert f"0.0.0.0:{proxy.port} " in listening
        proxy.get("/replicas")
        assert sum(len(engine.requests) for engine in engines) == 1
