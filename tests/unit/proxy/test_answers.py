"""Answers come back as the engine sent them: status, reason, headers, and every chunk by itself."""

import http.client
import threading

import pytest
from one_engine import Fleet
from stub_engine import Call


def test_http10_clients_get_an_answer_that_ends_with_the_connection(fleet: Fleet) -> None:
    def stream(call: Call) -> None:
        call.stream()
        call.chunk(b"data: 1\n\n")
        call.chunk(b"data: 2\n\n")
        call.end()

    fleet.engine.script = stream
    text = fleet.proxy.client().send(b"GET /stream HTTP/1.0\r\n\r\n").read_to_end()
    head, _, body = text.partition(b"\r\n\r\n")
    assert body == b"data: 1\n\ndata: 2\n\n"
    assert b"transfer-encoding" not in head.lower()


def test_head_keeps_the_length_and_both_connections(fleet: Fleet) -> None:
    fleet.engine.script = lambda call: call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nX-A: b\r\n\r\n")
    client = fleet.proxy.client()
    connections = fleet.engine.connections
    for _ in range(2):
        answer = client.send(b"HEAD /v1/models HTTP/1.1\r\n\r\n").read("HEAD")
        assert (answer.status, answer.header("Content-Length"), answer.body) == (200, "1234", b"")
    assert fleet.engine.connections - connections <= 1


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_answers_without_a_body_have_none(fleet: Fleet, status: str) -> None:
    fleet.engine.script = lambda call: call.send(f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode())
    client = fleet.proxy.client()
    for _ in range(2):
        answer = client.send(b"GET / HTTP/1.1\r\n\r\n").read("GET")
        assert (f"{answer.status} {answer.reason}", answer.body) == (status, b"")
        assert answer.header("Transfer-Encoding") is None


def test_status_reason_headers_and_bytes_come_back_as_sent(fleet: Fleet) -> None:
    body = bytes(range(256)) * 500
    fleet.engine.script = lambda call: call.send(
        b"HTTP/1.1 422 Not Today\r\nX-One: 1\r\nx-one: 2\r\nContent-Encoding: gzip\r\nConnection: X-Gone\r\n"
        b"X-Gone: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    answer = fleet.proxy.post("/v1/x")
    assert (answer.status, answer.reason, answer.body) == (422, "Not Today", body)
    assert answer.headers == [
        ("X-One", "1"),
        ("x-one", "2"),
        ("Content-Encoding", "gzip"),
        ("X-Fleet-Replica", "frank-medium-a"),
        ("X-Fleet-Decision", "spread"),
        ("Content-Length", str(len(body))),
    ]


def test_an_answer_without_length_ends_with_the_engines_connection(fleet: Fleet) -> None:
    def close_delimited(call: Call) -> None:
        call.send(b"HTTP/1.0 200 OK\r\n\r\nhalf ")
        call.send(b"and half")
        call.drop()

    fleet.engine.script = close_delimited
    answer = fleet.proxy.post("/v1/x")
    assert (answer.body, answer.header("Transfer-Encoding")) == (b"half and half", "chunked")


def test_interim_answers_of_the_engine_are_dropped(fleet: Fleet) -> None:
    fleet.engine.script = lambda call: call.send(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    )
    assert fleet.proxy.post("/v1/x").body == b"hi"


def test_what_follows_an_answer_is_nobodys(fleet: Fleet) -> None:
    def twice(call: Call) -> None:
        call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")

    fleet.engine.script = twice
    for _ in range(2):
        text = fleet.proxy.client().post("/v1/x", headers=["Connection: close"]).read_to_end()
        assert text.endswith(b"\r\n\r\none")


def test_streams_pass_chunk_by_chunk_as_they_come(fleet: Fleet) -> None:
    chunks = [b"data: {\xe2", b"\x82", b"\xac}\n", b"\n", b": keep-alive\n\n", b"data: [DONE]\n\n"]
    seen = [threading.Event() for _ in chunks]

    def stream(call: Call) -> None:
        call.stream()
        for chunk, event in zip(chunks, seen, strict=True):
            call.chunk(chunk)
            assert event.wait(10), "the chunk before did not reach the client by itself"
        call.end()

    fleet.engine.script = stream
    client = fleet.proxy.client().post("/v1/chat/completions")
    head = client.read_until(b"\r\n\r\n").partition(b"\r\n\r\n")
    assert b"X-Accel-Buffering: no" in head[0]
    text = head[2]
    for chunk, event in zip(chunks, seen, strict=True):
        wire = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        while len(text) < len(wire):
            text += client.read_until(b"\n")
        assert text == wire
        text = b""
        event.set()
    assert client.read_until(b"0\r\n\r\n") == b"0\r\n\r\n"


def test_chunks_that_come_together_stay_apart(fleet: Fleet) -> None:
    wire = b"".join(b"%x\r\n%b\r\n" % (size, b"y" * size) for size in (1, 20, 300, 4000)) + b"0\r\n\r\n"
    fleet.engine.script = lambda call: call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + wire)
    text = fleet.proxy.client().post("/v1/x").read_until(b"0\r\n\r\n")
    assert text.partition(b"\r\n\r\n")[2] == wire


def test_x_accel_buffering_of_the_engine_is_kept(fleet: Fleet) -> None:
    fleet.engine.script = lambda call: call.answer(
        b"data: x\n\n", headers=("content-type: text/event-stream", "X-Accel-Buffering: yes")
    )
    assert [value for key, value in fleet.proxy.post("/x").headers if key == "X-Accel-Buffering"] == ["yes"]


def test_an_upgrade_by_the_engine_is_a_502(fleet: Fleet) -> None:
    fleet.engine.script = lambda call: call.send(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    )
    assert fleet.proxy.post("/v1/x").status == 502


def test_cut_off_plain_answers_raise_at_the_client(fleet: Fleet) -> None:
    def half(call: Call) -> None:
        call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        call.drop()

    fleet.engine.script = half
    with pytest.raises(http.client.IncompleteRead):
        fleet.proxy.post("/v1/x")
