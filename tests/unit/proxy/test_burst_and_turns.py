"""A burst that shares a system prompt is spread, and every later turn of its conversations comes home."""

import json
import random
import threading
from collections import Counter

import pytest
from proxy_process import ProxyProcess
from stub_engine import Call, StubEngine

SYSTEM = {"role": "system", "content": "You are careful. " * 1800}  # 30 kB, far more than AFFINITY_BYTES
CONVERSATIONS = 16


def body(conversation: int, turn: int, system: bool) -> bytes:
    history = [SYSTEM] if system else []
    for number in range(turn):
        history.append({"role": "user", "content": f"question {number} of {conversation}"})
        history.append({"role": "assistant", "content": f"answer {number}"})
    return json.dumps(
        {"messages": [*history, {"role": "user", "content": f"question {turn} of {conversation}"}]}
    ).encode()


@pytest.mark.parametrize("system", [True, False], ids=["shared system prompt of 30 kB", "shorter than AFFINITY_BYTES"])
@pytest.mark.parametrize("replicas", [2, 3])
def test_burst_and_turns(replicas: int, system: bool) -> None:
    engines = [StubEngine(f"frank-medium-{letter}").start() for letter in "abc"[:replicas]]
    proxy = ProxyProcess(engines)
    everyone = threading.Event()

    def prefill(call: Call) -> None:
        if sum(len(engine.requests) for engine in engines) == CONVERSATIONS:
            everyone.set()
        everyone.wait(20)
        call.answer()

    for engine in engines:
        engine.script = prefill
    try:
        proxy.start()
        clients = [
            proxy.client().post("/v1/chat/completions", body(number, 0, system)) for number in range(CONVERSATIONS)
        ]
        homes = [client.read().header("X-Fleet-Replica") for client in clients]
        load = Counter(homes)
        assert len(load) == replicas
        assert max(load.values()) - min(load.values()) <= 1
        order = [(turn, number) for turn in (1, 2, 3) for number in random.Random(turn).sample(range(16), 16)]
        for turn, number in order:
            answer = proxy.post(body=body(number, turn, system))
            assert (answer.header("X-Fleet-Replica"), answer.header("X-Fleet-Decision")) == (homes[number], "pinned")
    finally:
        proxy.kill()
        for engine in engines:
            engine.stop()
