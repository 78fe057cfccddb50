"""Whatever comes in: no error of the proxy's own making, and no request read in two ways."""

import itertools
import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_engine import Fleet
from routing_proxy.http1 import Request
from routing_proxy.requests import Refusal, RequestReader

TARGETS = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/tokenize", "/x"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["user", "messages", "content", "resp_1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["messages", "role", "content", "prompt", "input", "system", "tools", "type", "id"])
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)
ODD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"messages": []}',
    b'{"messages": {"role": "user"}}',
    b'{"messages": [null, 1, "x", {"role": 5, "content": 7}]}',
    b'{"messages": [{"role": "user", "content": null, "tool_calls": []}]}',
    b'{"messages": [{"role": "user", "content": "a"}], "messages": 1}',
    b'{"messages": [{"role": "user", "content": NaN}]}',
    b'{"prompt_cache_key": {"a": 1}, "previous_response_id": [1]}',
    b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    b"[" * 100_000,
    b'{"messages":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"system": [[[[]]]], "messages": [{"role": "user", "content": [[[]]]}]}',
]


@pytest.mark.parametrize("body", ODD_BODIES, ids=range(len(ODD_BODIES)))
@pytest.mark.parametrize("target", TARGETS)
def test_odd_bodies_are_the_engines_business(fleet: Fleet, target: str, body: bytes) -> None:
    assert fleet.proxy.post(target, body).status == 200
    assert fleet.engine.wait_for(1)[0].body == body


@given(st.sampled_from(TARGETS), VALUES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_json_is_the_engines_business(fleet: Fleet, target: str, content: object) -> None:
    assert fleet.proxy.post(target, json.dumps(content).encode()).status == 200


def test_mutated_requests_are_answered_or_refused_with_400(fleet: Fleet) -> None:
    rng = random.Random(7)
    sample = (
        b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: fleet\r\nConnection: keep-alive, X-A\r\nX-A: 1\r\n"
        b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    for _ in range(300):
        raw = bytearray(sample)
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.choice(b"\r\n \t:;,/%\x00\xff0123456789aZ")
        client = fleet.proxy.client().send(bytes(raw))
        client.sock.settimeout(0.05)
        try:
            text = client.sock.recv(65536).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        except TimeoutError:
            text = b""  # the mutation made the request longer than what was sent
        client.close()
        assert not text.startswith(b"HTTP/1.1 5"), (bytes(raw), text)
    assert fleet.proxy.post().status == 200


STREAM = (
    b"POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX-Session-ID: s\r\n\r\nabc"
    b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;e=1\r\nde\r\n1\r\nf\r\n0\r\nT: 1\r\n\r\n"
    b"POST /d HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\ngh"
    b"GET http://y/e HTTP/1.0\r\n\r\n"
)


def read(pieces: list[bytes], limit: int = 1000) -> list[object]:
    reader = RequestReader(limit)
    for piece in pieces:
        reader.feed(piece)
    return [
        (item.method, item.target, item.body, item.headers, item.keep_alive)
        if isinstance(item, Request)
        else item.status
        for item in reader.ready
    ]


@given(st.sets(st.integers(1, len(STREAM) - 1), max_size=30))
def test_requests_are_the_same_however_they_are_split(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in itertools.pairwise(edges)]
    assert read(pieces) == [
        (b"POST", b"/a?b", b"abc", [(b"X-Session-ID", b"s")], True),
        (b"POST", b"/c", b"def", [], True),
        (b"POST", b"/d", b"gh", [], True),
        (b"GET", b"/e", b"", [], False),
    ]


def test_split_byte_by_byte() -> None:
    assert len(read([STREAM[index : index + 1] for index in range(len(STREAM))])) == 4


@given(st.lists(st.binary(max_size=60)))
def test_the_reader_never_raises_and_a_refusal_is_the_last(pieces: list[bytes]) -> None:
    reader = RequestReader(100)
    for piece in [b"POST / HTTP/1.1\r\n", *pieces]:
        reader.feed(piece)
    refusals = [isinstance(item, Refusal) for item in reader.ready]
    assert sum(refusals) <= 1
    assert not any(refusals[:-1])
    assert reader.finished == any(refusals)
