"""A hung engine is told from a busy one by its progress."""

import contextlib
import threading
import time
from collections.abc import Callable

from proxy_process import ProxyProcess
from stub_engine import Call, StubEngine, wait_until

A, B = "frank-medium-a", "frank-medium-b"
Start = Callable[..., ProxyProcess]


class TestStall:
    def hang(self, engines: list[StubEngine]) -> threading.Event:
        """Make frank-medium-a take requests and say nothing until told."""
        go_on = threading.Event()

        def silent(call: Call) -> None:
            if call.engine.name == A:
                go_on.wait(30)
            call.answer()

        for engine in engines:
            engine.script = silent
        return go_on

    def occupy(self, proxy: ProxyProcess, engines: list[StubEngine]) -> threading.Thread:
        """Have requests sent until frank-medium-a has one."""

        def post_twice() -> None:
            with contextlib.suppress(OSError):  # a test may end before its answer comes
                for _ in range(2):
                    proxy.post()

        thread = threading.Thread(target=post_twice, daemon=True)
        thread.start()
        wait_until(lambda: len(engines[0].requests) == 1)
        return thread

    def test_a_hung_engine_is_stalled_gets_nothing_new_and_keeps_what_it_has(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        proxy = start_proxy(STALL_AFTER="1")
        go_on = self.hang(engines)
        thread = self.occupy(proxy, engines)
        wait_until(lambda: proxy.states()[A] == "stalled", 5)
        health = proxy.get("/health")
        assert (health.status, health.json()["status"]) == (200, "degraded")
        assert "no engine step for 1 s" in health.json()["replicas"][A]["reason"]
        assert {proxy.post().header("X-Fleet-Replica") for _ in range(4)} == {B}
        go_on.set()
        thread.join(10)
        wait_until(lambda: proxy.states()[A] == "up", 5)
        assert proxy.metric('routing_proxy_requests_total{code="200"') == 6

    def test_an_engine_that_steps_is_busy_not_stalled(self, start_proxy: Start, engines: list[StubEngine]) -> None:
        proxy = start_proxy(STALL_AFTER="1")

        class Steps(str):
            def encode(self, *_: str) -> bytes:
                return b'vllm:iteration_tokens_total_count{engine="0"} %d\n' % engines[0].scrapes

        engines[0].metrics = Steps()
        go_on = self.hang(engines)
        self.occupy(proxy, engines)
        time.sleep(3)  # three times STALL_AFTER
        assert proxy.states()[A] == "up"
        assert engines[0].scrapes > 3
        go_on.set()

    def test_a_stalled_replica_serves_when_no_other_can(self, start_proxy: Start, engines: list[StubEngine]) -> None:
        proxy = start_proxy(STALL_AFTER="1", HEALTH_INTERVAL="0.1")
        go_on = self.hang(engines)
        self.occupy(proxy, engines)
        wait_until(lambda: proxy.states()[A] == "stalled", 5)
        engines[1].stop()
        wait_until(lambda: proxy.states()[B] == "down", 5)
        assert proxy.get("/health").status == 200
        go_on.set()
        assert proxy.post().header("X-Fleet-Replica") == A

    def test_a_client_that_does_not_read_is_no_stall(self, start_proxy: Start, engines: list[StubEngine]) -> None:
        proxy = start_proxy(STALL_AFTER="0.5")
        for engine in engines:
            engine.script = lambda call: call.answer(b"x" * 50_000_000)
        client = proxy.client(receive_buffer=65_536).post("/v1/x")
        wait_until(lambda: sum(len(engine.requests) for engine in engines) == 1)
        time.sleep(2)  # four times STALL_AFTER
        assert set(proxy.states().values()) == {"up"}
        assert len(client.read().body) == 50_000_000
