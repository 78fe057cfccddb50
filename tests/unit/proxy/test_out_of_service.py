"""A replica that is out before a request comes: what the log tells, and which requests still belong to it."""

import json
from collections.abc import Callable

from proxy_process import ProxyProcess
from stub_engine import StubEngine, wait_until

A, B = "frank-medium-a", "frank-medium-b"
LINE = f"proxy: failover — {A} unreachable (connection refused), retrying on {B}"


def failovers(proxy: ProxyProcess) -> list[str]:
    return [line for line in proxy.lines if "failover" in line]


def test_the_first_request_without_a_replica_that_a_check_took_out_leaves_the_line(
    start_proxy: Callable[..., ProxyProcess], engines: list[StubEngine]
) -> None:
    proxy = start_proxy(HEALTH_INTERVAL="0.1")
    engines[0].stop()
    wait_until(lambda: proxy.states()[A] == "down")
    assert failovers(proxy) == []
    assert [proxy.post().status for _ in range(6)] == [200] * 6
    assert failovers(proxy) == [LINE]


def test_a_replica_that_was_back_in_time_leaves_no_line(
    start_proxy: Callable[..., ProxyProcess], engines: list[StubEngine]
) -> None:
    proxy = start_proxy(HEALTH_INTERVAL="0.1")
    engines[0].stop()
    wait_until(lambda: proxy.states()[A] == "down")
    engines[0].start()
    wait_until(lambda: proxy.states()[A] == "up")
    proxy.post()
    assert failovers(proxy) == []


def test_a_stored_response_is_asked_of_its_drained_maker(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    for engine in engines:
        engine.script = lambda call: call.answer(json.dumps({"id": f"resp_{call.engine.name}"}).encode())
    made = proxy.request("POST", "/v1/responses", json.dumps({"input": "hi"}).encode())
    maker, response = made.header("X-Fleet-Replica"), made.json()["id"]
    proxy.admin("POST", f"/drain/{maker}")
    for _ in range(3):
        asked = proxy.get(f"/v1/responses/{response}")
        assert asked.header("X-Fleet-Replica") == maker
        assert asked.header("X-Fleet-Decision") == "pinned"
