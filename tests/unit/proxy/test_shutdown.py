"""The way down, and what is left in the log."""

import signal
import threading
from collections.abc import Callable

import pytest
from proxy_process import ProxyProcess, turns
from stub_engine import Call, StubEngine, wait_until

Start = Callable[..., ProxyProcess]


class TestEnd:
    def test_sigterm_finishes_streams_takes_nothing_new_and_exits_0(
        self, proxy: ProxyProcess, engines: list[StubEngine]
    ) -> None:
        go_on = threading.Event()

        def stream(call: Call) -> None:
            call.stream()
            call.chunk(b"data: 1\n\n")
            go_on.wait(10)
            call.end()

        for engine in engines:
            engine.script = stream
        idle = proxy.client()
        busy = proxy.client().post("/v1/chat/completions")
        busy.read_until(b"data: 1\n\n")
        proxy.process.send_signal(signal.SIGTERM)
        proxy.wait_for_line("proxy: stopping")
        assert idle.read_to_end() == b""
        with pytest.raises(ConnectionRefusedError):
            proxy.client()
        go_on.set()
        assert busy.read_to_end().endswith(b"0\r\n\r\n")
        assert proxy.process.wait(10) == 0
        assert proxy.lines[-1] == "proxy: stopped"

    def test_shutdown_timeout_bounds_it_and_streams_are_told(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        proxy = start_proxy(SHUTDOWN_TIMEOUT="0.2")

        def stream(call: Call) -> None:
            call.stream()
            call.chunk(b"data: 1\n\n")
            call.wait_closed(10)

        for engine in engines:
            engine.script = stream
        client = proxy.client().post("/v1/chat/completions")
        client.read_until(b"data: 1\n\n")
        assert proxy.terminate() == 0
        text = client.read_to_end()
        assert b'data: {"error"' in text
        assert not text.endswith(b"0\r\n\r\n")

    def test_a_request_on_its_way_over_an_idle_connection_is_answered(self, proxy: ProxyProcess) -> None:
        fresh, used = proxy.client(), proxy.client().post("/v1/chat/completions")
        used.read()
        proxy.process.send_signal(signal.SIGTERM)
        proxy.wait_for_line("proxy: stopping")
        for client in (fresh, used):
            client.post("/v1/chat/completions")
            answer = client.read_to_end()
            assert answer.startswith(b"HTTP/1.1 200 ") and b"Connection: close" in answer
        assert proxy.process.wait(10) == 0

    def test_an_idle_connection_that_has_had_an_answer_does_not_hold_the_stop(self, proxy: ProxyProcess) -> None:
        used = proxy.client().post("/v1/chat/completions")
        used.read()
        proxy.process.send_signal(signal.SIGTERM)
        assert used.read_to_end() == b""
        assert proxy.process.wait(10) == 0

    def test_a_request_that_is_being_sent_is_in_flight(self, proxy: ProxyProcess) -> None:
        client = proxy.client().send(b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\n{")
        assert proxy.get("/health").status == 200
        proxy.process.send_signal(signal.SIGTERM)
        proxy.wait_for_line("proxy: stopping")
        answer = client.send(b"}").read()
        assert (answer.status, answer.header("Connection")) == (200, "close")
        assert proxy.process.wait(10) == 0

    def test_an_answer_during_shutdown_says_that_the_connection_closes(
        self, proxy: ProxyProcess, engines: list[StubEngine]
    ) -> None:
        go_on = threading.Event()

        def late(call: Call) -> None:
            go_on.wait(10)
            call.answer()

        for engine in engines:
            engine.script = late
        client = proxy.client().post("/v1/chat/completions")
        wait_until(lambda: sum(len(engine.requests) for engine in engines) == 1)
        proxy.process.send_signal(signal.SIGTERM)
        proxy.wait_for_line("proxy: stopping")
        go_on.set()
        assert client.read().header("Connection") == "close"
        assert proxy.process.wait(10) == 0


class TestLog:
    def test_a_request_is_one_line_when_wanted_without_its_body_or_query(self, start_proxy: Start) -> None:
        proxy = start_proxy(LOG_REQUESTS="1")
        proxy.post("/v1/chat/completions?secret=1", body=turns(1, "private"))
        line = proxy.wait_for_line("request")
        assert line.startswith("proxy: request POST /v1/chat/completions 200 frank-medium-")
        assert "spread" in line
        assert not any("private" in entry or "secret" in entry for entry in proxy.lines)

    def test_requests_leave_no_line_by_default(self, proxy: ProxyProcess) -> None:
        before = list(proxy.lines)
        proxy.post()
        assert proxy.get("/health").status == 200
        assert proxy.lines == before
