"""Requests arrive as the client sent them, and those whose framing is ambiguous are refused."""

import pytest
from one_engine import Fleet
from routing_proxy.http1 import Request
from routing_proxy.requests import RequestReader


def test_method_target_headers_and_body_arrive_as_sent(fleet: Fleet) -> None:
    got = fleet.sent(
        b"PATCH /v1/Any%2fpath/x?a=1&b=%20?c HTTP/1.1\r\nHost: example.org\r\nX-Custom: One, two\r\n"
        b"x-custom: three\r\nAuthorization: Bearer k\r\nAccept-Encoding: br\r\nContent-Length: 7\r\n\r\n\x00\xff{\r\n}!"
    )
    assert (got.method, got.target, got.body) == ("PATCH", "/v1/Any%2fpath/x?a=1&b=%20?c", b"\x00\xff{\r\n}!")
    assert got.headers == [
        ("Host", f"127.0.0.1:{fleet.engine.port}"),
        ("Content-Length", "7"),
        ("X-Custom", "One, two"),
        ("x-custom", "three"),
        ("Authorization", "Bearer k"),
        ("Accept-Encoding", "br"),
    ]


def test_headers_of_the_connection_stay_behind(fleet: Fleet) -> None:
    got = fleet.sent(
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\n"
        b"TE: trailers\r\nProxy-Authorization: a\r\nProxy-Connection: b\r\nX-Kept: 1\r\n\r\n"
    )
    assert [name for name, _ in got.headers] == ["Host", "X-Kept"]


@pytest.mark.parametrize(
    "method", ["GET", "DELETE", "OPTIONS", "PUT", "POST", "PATCH", "HEAD", "PROPFIND", "REPORT", "QUERY"]
)
def test_any_method_is_forwarded(fleet: Fleet, method: str) -> None:
    got = fleet.sent(f"{method} /any HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (got.method, got.body, got.header("content-length")) == (method, b"", [])


def test_an_absolute_target_becomes_a_path(fleet: Fleet) -> None:
    assert fleet.sent(b"GET http://fleet:7770/v1/models?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").target == "/v1/models?x=1"


@pytest.mark.parametrize("sizes", [(), (1,), (5, 7), (100_000, 1, 65_536)])
def test_a_chunked_upload_arrives_with_a_length(fleet: Fleet, sizes: tuple[int, ...]) -> None:
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (size, b"x" * size) for size in sizes)
    got = fleet.sent(
        b"POST /v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        + chunks
        + b"0\r\nX-T: trailer\r\n\r\n"
    )
    assert got.body == b"x" * sum(sizes)
    assert got.header("content-length") == [str(sum(sizes))]
    assert got.header("transfer-encoding") == got.header("x-t") == got.header("trailer") == []


@pytest.mark.parametrize(
    "raw",
    [
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"NONSENSE / HTTP/1.1\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_ambiguous_or_invalid_requests_are_refused(fleet: Fleet, raw: bytes) -> None:
    assert fleet.status(raw) == 400
    assert fleet.engine.requests == []


def test_headers_of_64_kB_pass_and_endless_ones_do_not(fleet: Fleet) -> None:
    long = b"x" * 64_000
    assert fleet.sent(b"GET / HTTP/1.1\r\nX-Long: " + long + b"\r\n\r\n").header("x-long") == [long.decode()]
    assert fleet.status(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 300_000) == 431


def test_a_large_body_leaves_room_for_the_next_head() -> None:
    reader = RequestReader(max_body_bytes=2**20)
    reader.feed(b"POST / HTTP/1.1\r\nContent-Length: 250000\r\n\r\n" + b"x" * 250_000)
    assert not reader.in_request
    reader.feed(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 20_000)
    assert reader.in_request
    reader.feed(b"\r\n\r\n")
    assert [type(request) for request in reader.ready] == [Request, Request] and not reader.in_request


def test_a_body_beyond_the_limit_is_413_whether_announced_or_not(fleet: Fleet) -> None:
    assert fleet.status(b"POST / HTTP/1.1\r\nContent-Length: 10485761\r\n\r\n") == 413
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert fleet.status(head + (b"100000\r\n" + b"x" * 2**20 + b"\r\n") * 11) == 413
    assert fleet.engine.requests == []


def test_a_body_at_the_limit_passes(fleet: Fleet) -> None:
    body = bytes(range(256)) * (10 * 2**20 // 256)
    assert fleet.proxy.post("/v1/x", body).status == 200
    assert fleet.engine.wait_for(1)[0].body == body


def test_expect_100_is_answered_before_the_body_is_sent(fleet: Fleet) -> None:
    client = fleet.proxy.client().send(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert client.send(b"{}").read().status == 200
    got = fleet.engine.wait_for(1)[0]
    assert (got.body, got.header("expect")) == (b"{}", [])


def test_expect_100_with_too_large_a_body_is_refused_instead(fleet: Fleet) -> None:
    assert fleet.status(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n") == 413


@pytest.mark.parametrize("body", [b"", b'{"a":1}'])
def test_an_upgrade_is_declined_by_answering_as_if_it_was_not_asked_for(fleet: Fleet, body: bytes) -> None:
    client = fleet.proxy.client().send(
        b"POST /v1/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nX-A: 1\r\n"
        b"HTTP2-Settings: AAMAAABk\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    assert client.read().status == 200
    got = fleet.engine.wait_for(1)[0]
    assert got.body == body
    assert [name for name, _ in got.headers] == ["Host", "Content-Length", "X-A"]
    assert client.post("/second").read().status == 200


def test_pipelined_requests_are_answered_in_order(fleet: Fleet) -> None:
    fleet.engine.script = lambda call: call.answer(call.request.target.encode())
    raw = b"".join(b"POST /n%02d HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}" % number for number in range(20))
    client = fleet.proxy.client().send(raw + b"GET /health HTTP/1.1\r\n\r\n" + b"garbage\r\n\r\n")
    file = client.sock.makefile("rb")
    text = file.read()
    positions = [text.index(b"/n%02d" % number) for number in range(20)]
    assert positions == sorted(positions)
    assert positions[-1] < text.index(b'"status":"ok"') < text.index(b"HTTP/1.1 400")


def test_a_client_connection_is_kept(fleet: Fleet) -> None:
    client = fleet.proxy.client()
    for _ in range(3):
        assert client.post("/v1/x").read().status == 200
    assert client.send(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").read().header("Connection") == "close"
    assert client.read_to_end() == b""


def test_a_truncated_upload_is_not_forwarded(fleet: Fleet) -> None:
    client = fleet.proxy.client().send(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")
    client.close()
    assert fleet.proxy.post("/after").status == 200
    assert [request.target for request in fleet.engine.requests] == ["/after"]
