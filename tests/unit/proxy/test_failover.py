"""Failover: what is sent again, what is not, and what the client sees."""

import http.client
import json
import threading
import time
from collections.abc import Callable

import pytest
from proxy_process import FIRST_TURN, ProxyProcess
from stub_engine import Call, StubEngine, wait_until

A, B = "frank-medium-a", "frank-medium-b"
EVENT = b'data: {"choices":[]}\n\n'


def test_connect_failure_goes_to_the_next_replica_and_demotes(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    engines[0].stop()
    answers = [proxy.post() for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 6
    assert {answer.header("X-Fleet-Replica") for answer in answers} == {B}
    assert [answer.header("X-Fleet-Decision") for answer in answers].count("failover") == 1
    line = f"proxy: failover — {A} unreachable (connection refused), retrying on {B}"
    assert [entry for entry in proxy.lines if "failover" in entry] == [line]
    assert proxy.states() == {A: "down", B: "up"}
    assert proxy.metric(f'routing_proxy_failovers_total{{reason="connect",replica="{A}"}}') == 1


def test_replica_that_returns_serves_again_within_two_seconds(
    start_proxy: Callable[..., ProxyProcess], engines: list[StubEngine]
) -> None:
    proxy = start_proxy(HEALTH_INTERVAL="30")
    engines[0].stop()
    for _ in range(2):
        proxy.post()
    wait_until(lambda: proxy.states()[A] == "down")
    time.sleep(1.2)  # so that the first check after its death finds it still away
    engines[0].start()
    wait_until(lambda: proxy.states()[A] == "up", 2.0)
    assert {proxy.post().header("X-Fleet-Replica") for _ in range(2)} == {A, B}


def test_all_replicas_down_is_503_at_once_and_recovers(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    for engine in engines:
        engine.stop()
    for _ in range(2):
        answer = proxy.post()
        assert answer.status == 503
        assert answer.header("Retry-After") == "5"
        assert answer.json()["error"]["code"] == 503
    assert proxy.get("/health").status == 503
    assert proxy.get("/health").json()["status"] == "down"
    engines[1].start()
    wait_until(lambda: proxy.states()[B] == "up", 2.0)
    assert proxy.post().status == 200


@pytest.mark.parametrize("how", [Call.drop, Call.reset])
def test_a_replica_that_lives_on_gets_no_second_copy(
    proxy: ProxyProcess, engines: list[StubEngine], how: Callable[[Call], None]
) -> None:
    for engine in engines:
        engine.script = how
    answer = proxy.post()
    assert answer.status == 502
    assert answer.json()["error"]["code"] == 502
    assert sum(len(engine.requests) for engine in engines) == 1
    assert proxy.states() == {A: "up", B: "up"}


def test_a_request_lost_with_a_dead_replica_is_sent_again(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    survivor: list[StubEngine] = []

    def die(call: Call) -> None:
        other = engines[1] if call.engine is engines[0] else engines[0]
        other.script = lambda call: call.answer()
        survivor.append(other)
        call.engine.stop()

    for engine in engines:
        engine.script = die
    answer = proxy.post()
    assert answer.status == 200
    assert answer.header("X-Fleet-Decision") == "failover"
    assert answer.header("X-Fleet-Replica") == survivor[0].name
    assert survivor[0].requests[0].body == FIRST_TURN
    assert "then connection refused), retrying on" in proxy.wait_for_line("failover")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("503 Service Unavailable", b'{"error":"try again later or on a different instance"}'),
        ("500 Internal Server Error", b'{"error":{"message":"cannot schedule new futures after shutdown"}}'),
    ],
)
def test_an_engine_that_refuses_is_asked_once_and_the_next_one_answers(
    proxy: ProxyProcess, engines: list[StubEngine], status: str, body: bytes
) -> None:
    engines[0].script = lambda call: call.answer(body, status)
    answers = [proxy.post() for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert {answer.header("X-Fleet-Replica") for answer in answers} == {B}
    assert proxy.states() == {A: "up", B: "up"}


def test_the_engines_own_refusal_reaches_the_client_when_all_refuse(
    proxy: ProxyProcess, engines: list[StubEngine]
) -> None:
    for engine in engines:
        engine.script = lambda call: call.answer(b'{"error":"full"}', "503 Full", ("Retry-After: 7",))
    answer = proxy.post()
    assert (answer.status, answer.reason, answer.body) == (503, "Full", b'{"error":"full"}')
    assert answer.header("Retry-After") == "7"
    assert [len(engine.requests) for engine in engines] == [1, 1]


@pytest.mark.parametrize("status", ["500 Internal Server Error", "502 Bad Gateway", "400 Bad Request", "429 Slow"])
def test_other_errors_of_an_engine_are_its_answer(proxy: ProxyProcess, engines: list[StubEngine], status: str) -> None:
    for engine in engines:
        engine.script = lambda call: call.answer(b"<html>oops</html>", status)
    answer = proxy.post()
    assert (str(answer.status), answer.body) == (status[:3], b"<html>oops</html>")
    assert sum(len(engine.requests) for engine in engines) == 1
    assert proxy.states() == {A: "up", B: "up"}


@pytest.mark.parametrize(
    ("target", "event"),
    [
        ("/v1/chat/completions", b'data: {"error":{"message":'),
        ("/v1/completions", b'data: {"error":{"message":'),
        ("/v1/messages", b'event: error\ndata: {"type":"error","error":{"type":"api_error"'),
        ("/v1/responses", b'event: error\ndata: {"type":"error","code":"server_error"'),
    ],
)
def test_a_stream_whose_engine_dies_ends_with_an_error_event_and_no_end(
    proxy: ProxyProcess, engines: list[StubEngine], target: str, event: bytes
) -> None:
    def die(call: Call) -> None:
        call.stream()
        call.chunk(EVENT)
        call.reset()

    for engine in engines:
        engine.script = die
    text = proxy.client().post(target).read_to_end()
    assert EVENT in text
    assert event in text
    assert b"[DONE]" not in text
    assert not text.endswith(b"0\r\n\r\n")
    assert sum(len(engine.requests) for engine in engines) == 1
    assert proxy.metric("routing_proxy_answers_cut_total") == 1


def test_an_event_cut_in_its_middle_is_ended_before_the_error(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    def die(call: Call) -> None:
        call.stream()
        call.chunk(b'data: {"choi')
        call.drop()

    for engine in engines:
        engine.script = die
    text = proxy.client().post("/v1/chat/completions").read_to_end()
    pieces = [line for line in text.split(b"\r\n") if line.startswith((b"data", b"\n\n"))]
    assert pieces[0] == b'data: {"choi'
    assert pieces[1].startswith(b'\n\ndata: {"error"')


def test_a_plain_answer_that_breaks_off_is_cut(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    def die(call: Call) -> None:
        call.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        call.drop()

    for engine in engines:
        engine.script = die
    with pytest.raises(http.client.IncompleteRead):
        proxy.post()


def test_a_broken_off_answer_is_a_reset_for_a_client_that_reads_to_the_end(
    proxy: ProxyProcess, engines: list[StubEngine]
) -> None:
    seen = threading.Event()

    def die(call: Call) -> None:
        call.stream()
        call.chunk(EVENT)
        seen.wait(10)
        call.drop()

    for engine in engines:
        engine.script = die
    client = proxy.client().send(b"GET /stream HTTP/1.0\r\n\r\n")
    assert client.read_until(EVENT)
    seen.set()
    assert client.read_to_end().endswith(b"<reset>")


def test_an_invalid_answer_is_a_502(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    def nonsense(call: Call) -> None:
        call.send(b"SMTP ready\r\n\r\n")
        call.wait_closed()

    for engine in engines:
        engine.script = nonsense
    assert proxy.post().status == 502
    assert sum(len(engine.requests) for engine in engines) == 1


def test_errors_have_the_form_of_the_clients_api(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    for engine in engines:
        engine.script = Call.drop
    answer = proxy.post("/v1/messages")
    assert answer.status == 502
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "api_error"


def test_a_pinned_conversation_moves_when_its_replica_dies_and_stays_there(
    proxy: ProxyProcess, engines: list[StubEngine]
) -> None:
    turns = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "2"},
    ]
    home = proxy.post(body=json.dumps({"messages": turns[:1]}).encode()).header("X-Fleet-Replica")
    body = json.dumps({"messages": turns}).encode()
    pinned = proxy.post(body=body)
    assert (pinned.header("X-Fleet-Replica"), pinned.header("X-Fleet-Decision")) == (home, "pinned")
    next(engine for engine in engines if engine.name == home).stop()
    moved = proxy.post(body=body)
    assert (moved.status, moved.header("X-Fleet-Decision")) == (200, "failover")
    assert moved.header("X-Fleet-Replica") != home


def test_a_conversation_of_megabytes_is_pinned_like_any_other(proxy: ProxyProcess) -> None:
    turns = [{"role": role, "content": role * 500_000} for role in ("user", "assistant", "user")]
    homes = {proxy.post(body=json.dumps({"messages": turns[:1]}).encode()).header("X-Fleet-Replica")}
    for _ in range(3):
        answer = proxy.post(body=json.dumps({"messages": turns}).encode())
        assert answer.header("X-Fleet-Decision") == "pinned"
        homes.add(answer.header("X-Fleet-Replica"))
    assert len(homes) == 1


def test_nothing_healthy_but_something_that_answers_is_tried(
    start_proxy: Callable[..., ProxyProcess], engines: list[StubEngine]
) -> None:
    engines[0].stop()
    engines[1].health = 500
    proxy = start_proxy(HEALTH_INTERVAL="0.1")
    wait_until(lambda: proxy.states() == {A: "down", B: "down"})
    assert proxy.get("/health").status == 503
    assert proxy.post().status == 200
