"""ROUTING=roundrobin: a counter, which reads of bodies only what stored response they follow up."""

import json
from collections.abc import Callable

from proxy_process import ProxyProcess, pins, turns
from stub_engine import StubEngine

Start = Callable[..., ProxyProcess]


def test_chats_take_turns_and_leave_nothing_on_record(start_proxy: Start) -> None:
    proxy = start_proxy(ROUTING="roundrobin")
    served = []
    for count in (1, 3, 5, 7):  # turns of one conversation, and a look at the models between them
        served.append(proxy.post(body=turns(count)).header("X-Fleet-Replica"))
        proxy.get("/v1/models")
    assert served == ["frank-medium-a", "frank-medium-b"] * 2
    assert pins(proxy) == {"frank-medium-a": 0, "frank-medium-b": 0}


def test_a_stored_response_is_followed_up_where_it_is(start_proxy: Start, engines: list[StubEngine]) -> None:
    proxy = start_proxy(ROUTING="roundrobin")
    for engine in engines:
        engine.script = lambda call: call.answer(json.dumps({"id": f"resp_{call.engine.name}"}).encode())
    for _ in engines:
        proxy.post("/v1/responses", b'{"input": "hi"}')
    for _ in range(2):
        for engine in engines:
            body = json.dumps({"input": "and?", "previous_response_id": f"resp_{engine.name}"}).encode()
            assert proxy.post("/v1/responses", body).header("X-Fleet-Replica") == engine.name
