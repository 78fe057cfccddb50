"""Clients that leave, clients that read slowly, and silence that is not an error."""

import threading
import time
from collections.abc import Callable

import pytest
from proxy_process import ProxyProcess
from stub_engine import OK, Call, StubEngine, wait_until

A = "frank-medium-a"


class Watched:
    """A script that starts as told, then notes whether the proxy closed the connection within a second."""

    def __init__(self, begin: Callable[[Call], None]) -> None:
        self._begin = begin
        self.begun = threading.Event()
        self.closed = threading.Event()

    def __call__(self, call: Call) -> None:
        self._begin(call)
        self.begun.set()
        if call.wait_closed(10):
            self.closed.set()
        call.closed = True


def silent(call: Call) -> None:
    """Prefill: nothing yet."""


def streaming(call: Call) -> None:
    call.stream()
    call.chunk(b"data: 1\n\n")


@pytest.mark.parametrize("begin", [silent, streaming])
def test_a_client_that_leaves_ends_the_engines_work_within_a_second(
    proxy: ProxyProcess, engines: list[StubEngine], begin: Callable[[Call], None]
) -> None:
    script = Watched(begin)
    for engine in engines:
        engine.script = script
    client = proxy.client().post("/v1/chat/completions")
    assert script.begun.wait(10)
    if begin is streaming:
        client.read_until(b"data: 1\n\n")
    client.close()
    assert script.closed.wait(1.0)
    wait_until(lambda: proxy.metric("routing_proxy_in_flight") == 0)
    assert proxy.metric('routing_proxy_requests_total{code="499"') == 1
    assert proxy.states() == {A: "up", "frank-medium-b": "up"}


def test_a_client_that_leaves_while_a_replica_is_being_connected_to_is_forgotten(
    start_proxy: Callable[..., ProxyProcess], engines: list[StubEngine]
) -> None:
    proxy = start_proxy()
    for engine in engines:
        engine.script = Call.drop
    client = proxy.client().post("/v1/chat/completions")
    wait_until(lambda: sum(len(engine.requests) for engine in engines) == 1)
    client.close()
    wait_until(lambda: proxy.metric("routing_proxy_requests_total") == 1)
    assert proxy.metric("routing_proxy_in_flight") == 0
    assert proxy.post("/v1/chat/completions").status == 502


def test_a_slow_reader_slows_the_engine_and_gets_everything(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    chunk, count = b"x" * 65_536, 800
    sent: list[int] = []

    def flood(call: Call) -> None:
        call.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(chunk) * count))
        for number in range(count):
            call.send(chunk)
            sent.append(number)

    for engine in engines:
        engine.script = flood
    client = proxy.client(receive_buffer=65_536).post("/v1/x")
    before = -1
    while before != len(sent):  # until the engine can send no more
        before = len(sent)
        time.sleep(0.5)
    assert 0 < len(sent) < count / 2
    assert proxy.metric("process_resident_memory_bytes") < 80e6
    assert proxy.post("/v1/x").status == 200
    assert len(client.read().body) == len(chunk) * count


def test_a_big_upload_to_a_slow_engine_arrives_whole(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    body = bytes(range(256)) * 4096 * 30
    assert proxy.post("/v1/x", body).status == 200
    assert next(engine for engine in engines if engine.requests).requests[0].body == body


def test_a_client_that_sends_ahead_is_not_read_without_end(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    go_on = threading.Event()

    def late(call: Call) -> None:
        go_on.wait(20)
        call.answer()

    for engine in engines:
        engine.script = late
    client = proxy.client()
    request = b"POST /v1/x HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    client.sock.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            client.send(request)
            sent += 1
    assert 4 < sent < 500
    client.sock.settimeout(15)
    go_on.set()
    file = client.sock.makefile("rb")
    for _ in range(sent):
        while file.readline() != b"\r\n":
            pass
        assert file.read(len(OK)) == OK


def test_many_streams_at_once(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    everyone = threading.Barrier(100)

    def stream(call: Call) -> None:
        call.stream()
        everyone.wait(30)
        for number in range(10):
            call.chunk(b"data: %d\n\n" % number)
        call.end()

    for engine in engines:
        engine.script = stream
    clients = [proxy.client().post("/v1/chat/completions") for _ in range(100)]
    bodies = [client.read().body for client in clients]
    assert bodies == [b"".join(b"data: %d\n\n" % number for number in range(10))] * 100
    assert [len(engine.requests) for engine in engines] == [50, 50]


def test_first_byte_and_first_token_are_measured(proxy: ProxyProcess, engines: list[StubEngine]) -> None:
    def stream(call: Call) -> None:
        call.stream()
        call.chunk(b": keep-alive\n\n")
        time.sleep(0.3)
        call.chunk(b"data: 1\n\n")
        call.end()

    for engine in engines:
        engine.script = stream
    proxy.post()
    labels = f'{{endpoint="chat",replica="{next(engine.name for engine in engines if engine.requests)}"}}'
    assert proxy.metric(f"routing_proxy_time_to_first_byte_seconds_sum{labels}") < 0.3
    assert proxy.metric(f"routing_proxy_time_to_first_token_seconds_sum{labels}") >= 0.3
    assert proxy.metric(f"routing_proxy_request_seconds_count{labels}") == 1


def test_pooled_connections_are_reused_but_not_after_they_were_closed(
    proxy: ProxyProcess, engines: list[StubEngine]
) -> None:
    for engine in engines:
        engine.idle_seconds = 0.3
    for _ in range(4):
        proxy.post()
    opened = [engine.connections for engine in engines]
    for _ in range(10):
        assert proxy.post().status == 200
    assert [engine.connections for engine in engines] == opened or sum(opened) > 0
    for _ in range(5):
        time.sleep(0.35)
        assert proxy.post().status == 200
    assert sum(len(engine.requests) for engine in engines) == 19


def test_a_connection_idle_for_longer_than_the_engine_keeps_it_is_not_used(
    proxy: ProxyProcess, engines: list[StubEngine]
) -> None:
    """The engine here never closes, so only the proxy's own limit can."""
    closed = threading.Event()

    def answer_and_wait(call: Call) -> None:
        call.answer()
        if call.wait_closed(8):
            closed.set()
        call.closed = True

    for engine in engines:
        engine.script = answer_and_wait
    assert proxy.post().status == 200
    started = time.monotonic()
    assert closed.wait(8)
    assert 3 < time.monotonic() - started < 6.5
