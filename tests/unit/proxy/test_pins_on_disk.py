"""Pins outlive the proxy, but not the replica whose cache they stand for."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from proxy_process import ProxyProcess, pins, turns
from stub_engine import StubEngine, wait_until

A, B = "frank-medium-a", "frank-medium-b"
Start = Callable[..., ProxyProcess]


class TestPins:
    def test_pins_are_on_disk_within_five_seconds_and_survive_a_kill(
        self, start_proxy: Start, engines: list[StubEngine], tmp_path: Path
    ) -> None:
        proxy = start_proxy(STATE_DIR=str(tmp_path / "state"))
        homes = {text: proxy.post(body=turns(1, text)).header("X-Fleet-Replica") for text in "abcdef"}
        time.sleep(5)  # what the contract allows
        proxy.kill()
        again = start_proxy(STATE_DIR=str(tmp_path / "state"))
        for text, home in homes.items():
            answer = again.post(body=turns(3, text))
            assert (answer.header("X-Fleet-Replica"), answer.header("X-Fleet-Decision")) == (home, "pinned")

    def test_sigterm_saves_at_once(self, start_proxy: Start, tmp_path: Path) -> None:
        proxy = start_proxy(STATE_DIR=str(tmp_path))
        homes = {text: proxy.post(body=turns(1, text)).header("X-Fleet-Replica") for text in "abcdef"}
        assert proxy.terminate() == 0
        again = start_proxy(STATE_DIR=str(tmp_path))
        assert {text: again.post(body=turns(3, text)).header("X-Fleet-Replica") for text in homes} == homes

    def test_a_replica_that_was_restarted_meanwhile_has_no_pins(
        self, start_proxy: Start, engines: list[StubEngine], tmp_path: Path
    ) -> None:
        proxy = start_proxy(STATE_DIR=str(tmp_path))
        for text in "abcdef":
            proxy.post(body=turns(1, text))
        assert proxy.terminate() == 0
        engines[0].metrics = f"process_start_time_seconds {time.time() + 1}\n"
        pins = {
            entry["name"]: entry["pins"]
            for entry in start_proxy(STATE_DIR=str(tmp_path)).admin("GET", "/replicas").json()
        }
        assert pins == {A: 0, B: 3}

    @pytest.mark.parametrize("new_process", [True, False])
    def test_a_replica_that_comes_back_keeps_its_pins_only_if_it_is_the_same_process(
        self, start_proxy: Start, engines: list[StubEngine], new_process: bool
    ) -> None:
        proxy = start_proxy(HEALTH_INTERVAL="0.1")
        for text in "abcdef":
            proxy.post(body=turns(1, text))
        engines[0].health = 500
        wait_until(lambda: proxy.states()[A] == "down")
        if new_process:
            engines[0].metrics = "process_start_time_seconds 2000\n"
        engines[0].health = 200
        wait_until(lambda: proxy.states()[A] == "up")
        assert pins(proxy) == {A: 0 if new_process else 3, B: 3}

    def test_a_restart_too_quick_to_be_seen_down_is_noticed(
        self, proxy: ProxyProcess, engines: list[StubEngine]
    ) -> None:
        for text in "abcdef":
            proxy.post(body=turns(1, text))
        engines[0].stop()
        engines[0].metrics = "process_start_time_seconds 2000\n"
        engines[0].start()
        proxy.wait_for_line(f"proxy: {A} restarted")
        assert pins(proxy) == {A: 0, B: 3}

    def test_a_replica_that_tells_no_start_time_is_new_after_its_port_refused(
        self, start_proxy: Start, engines: list[StubEngine]
    ) -> None:
        engines[0].metrics = ""
        proxy = start_proxy(HEALTH_INTERVAL="0.1")
        for text in "abcdef":
            proxy.post(body=turns(1, text))
        engines[0].stop()
        time.sleep(0.25)  # so that a check or two see the port closed
        assert pins(proxy) == {A: 3, B: 3}
        engines[0].start()
        wait_until(lambda: pins(proxy) == {A: 0, B: 3})

    def test_a_stored_response_is_asked_for_where_it_was_made(
        self, proxy: ProxyProcess, engines: list[StubEngine]
    ) -> None:
        for engine in engines:
            engine.script = lambda call: call.answer(
                b'{"id":"resp_%s","object":"response"}' % call.engine.name[-1:].encode()
            )
        for _ in range(2):
            proxy.post("/v1/responses", b'{"input":"x"}')
        for letter, name in (("a", A), ("b", B), ("a", A)):
            assert proxy.get(f"/v1/responses/resp_{letter}").header("X-Fleet-Replica") == name
            body = json.dumps({"input": "y", "previous_response_id": f"resp_{letter}"}).encode()
            assert proxy.post("/v1/responses", body).header("X-Fleet-Replica") == name
