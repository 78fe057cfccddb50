"""The client's side: HTTP/1.1 connections from which whole requests are read, in order, and answers are written to."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import httptools

from .http1 import HOP_BY_HOP, Headers, Request, lines, named_in_connection, reason_phrase

# Headers of a request that are noted for the proxy's own use; all others are only passed on.
_NOTED = frozenset(
    b"authorization connection content-length expect host transfer-encoding upgrade x-api-key x-session-id".split()
)
# Headers of a request that are not passed on: those of the connection, and those the engine's side sets itself.
_WITHHELD_NOTED = (b"content-length", b"expect", b"host", b"transfer-encoding")
_WITHHELD = HOP_BY_HOP | {b"content-length", b"expect", b"host"}
# The engine takes headers of 64 kB; whoever sends far more than that is not a client.
MAX_HEAD_BYTES = 256 * 1024
# Requests a pipelining client may have waiting before its connection is no longer read.
_MAX_WAITING = 4
# How long a refused upload is read on and dropped, so that the client gets to see the refusal instead of a reset.
_LINGER_SECONDS = 2.0


class Exchange(Protocol):
    """What is answering a request that takes time."""

    def cancel(self) -> None:
        """The client is gone."""

    def pause(self) -> None:
        """The client reads slower than the answer comes."""

    def resume(self) -> None:
        """The client has caught up."""


class Refusal:
    """What takes a request's place in the order of answers when it could not be read."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message


class ClientConnection(asyncio.Protocol):
    """One client's connection. Requests are served one at a time, pipelined ones in their order."""

    transport: asyncio.Transport

    def __init__(
        self,
        serve: Callable[["ClientConnection", Request], None],
        refuse: Callable[["ClientConnection", Refusal], None],
        connections: set["ClientConnection"],
        max_body_bytes: int,
    ) -> None:
        self._serve = serve
        self._refuse = refuse
        self._connections = connections
        self._max_body_bytes = max_body_bytes
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request | Refusal] = deque()
        self.current: Request | Refusal | None = None
        self.exchange: Exchange | None = None
        # The request being read.
        self._incoming: Request | None = None
        self._url = b""
        self._headers: Headers = []
        self._noted: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._reading_head = True
        self._upgrading = False
        self._continue_due = False
        self._deaf = False
        # The answer being written.
        self._out: list[bytes] = []
        self._chunked = False
        self._bodiless = False
        self._close_after = False
        self._choked = False
        self.closing = False

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self.transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        tune_socket(self.transport)

    def data_received(self, data: bytes) -> None:
        """Read requests out of what came."""
        if self._deaf:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._read_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._give_up_reading(400, f"the request is not valid HTTP/1.1: {error}")
        if self._reading_head:
            self._size += len(data)
            if self._size > MAX_HEAD_BYTES:
                self._give_up_reading(431, f"the request's head exceeds {MAX_HEAD_BYTES} bytes")
        if self.current is None:
            self._next()
        elif len(self._waiting) >= _MAX_WAITING:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """Close: a client that shuts its side is taken to be gone, as by nginx and by the engine itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what was being done for the client."""
        self.closing = True
        self._connections.discard(self)
        self._waiting.clear()
        if self.exchange is not None:
            exchange, self.exchange = self.exchange, None
            exchange.cancel()

    def pause_writing(self) -> None:
        """Slow the engine down."""
        self._choked = True
        if self.exchange is not None:
            self.exchange.pause()

    def resume_writing(self) -> None:
        """Let the engine go on."""
        self._choked = False
        if self.exchange is not None:
            self.exchange.resume()
        else:
            self._next()

    # The request parser's callbacks.

    def on_url(self, url: bytes) -> None:
        """Take the target, or a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are dropped."""
        if not self._reading_head:
            return
        lower = name.lower()
        if lower in _NOTED:
            before = self._noted.get(lower)
            self._noted[lower] = value if before is None else before + b", " + value
        if lower not in _WITHHELD:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Look at a request whose head is complete."""
        self._reading_head = False
        self._size = 0
        noted = self._noted
        version = self._parser.get_http_version()
        request = Request(self._parser.get_method(), origin_form(self._url), version == "1.0")
        request.keep_alive = self._parser.should_keep_alive() and not request.http10
        request.noted = noted
        request.headers = self._headers
        if b"connection" in noted:
            named = named_in_connection(noted[b"connection"])
            request.headers = [header for header in self._headers if header[0].lower() not in named]
        self._incoming = request
        self._upgrading = self._parser.should_upgrade()
        if version not in ("1.0", "1.1") or request.method == b"CONNECT":
            self._give_up_reading(400, "only HTTP/1.0 and HTTP/1.1 requests, and no tunnels, are served here")
        elif noted.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            self._give_up_reading(400, "the only transfer coding that is understood is chunked")
        elif int(noted.get(b"content-length", 0)) > self._max_body_bytes:
            self._refuse_size()
        elif noted.get(b"expect", b"").lower() == b"100-continue" and not request.http10:
            self._continue_due = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._deaf:
            return
        self._body.append(body)
        self._size += len(body)
        if self._size > self._max_body_bytes:
            self._refuse_size()

    def on_message_complete(self) -> None:
        """Queue a request that is whole."""
        request = self._incoming
        if request is None or self._deaf or self._upgrading:
            return
        request.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._start_over()
        self._waiting.append(request)

    def _start_over(self) -> None:
        self._incoming = None
        self._url = b""
        self._headers = []
        self._noted = {}
        self._body = []
        self._size = 0
        self._reading_head = True
        self._upgrading = False
        self._continue_due = False

    def _read_without_upgrade(self, rest: bytes) -> None:
        """Read a request on as if it had not asked for an upgrade: that declines it (RFC 9110, 7.8).

        Java's HTTP client asks for h2c with every request, bodies included. llhttp stops behind the head of such a
        request, so a fresh parser is given the same head without the Upgrade header.
        """
        request, noted = self._incoming, self._noted
        if request is None or self._deaf:
            return
        kept: Headers = [(name, noted[name]) for name in _WITHHELD_NOTED if name in noted]
        if not request.keep_alive:
            kept.append((b"connection", b"close"))
        head = b"%b %b HTTP/1.%d\r\n" % (request.method, self._url, 0 if request.http10 else 1)
        head += lines(request.headers) + lines(kept) + b"\r\n"
        self._start_over()
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(head + rest)

    def _refuse_size(self) -> None:
        self._give_up_reading(413, f"the request's body exceeds MAX_BODY_BYTES ({self._max_body_bytes} bytes)")

    def _give_up_reading(self, status: int, message: str) -> None:
        if not self._deaf:
            self._deaf = True
            self._body.clear()
            self._waiting.append(Refusal(status, message))

    # One request after the other.

    def _next(self) -> None:
        while self._waiting and self.current is None and not self._choked and not self.closing:
            self.current = self._waiting.popleft()
            if isinstance(self.current, Request):
                self.current.started = self._loop.time()
                self._serve(self, self.current)
            else:
                self._refuse(self, self.current)
        if self.closing:
            return
        if self._continue_due and self.current is None and not self._deaf:
            self._continue_due = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(self._waiting) < _MAX_WAITING and not self.transport.is_reading():
            self.transport.resume_reading()

    def close_when_done(self) -> None:
        """Close the connection after the answer in progress, at once if there is none."""
        self._close_after = True
        if self.current is None and not self._waiting:
            self._close()

    # Answers.

    def start(self, status: int, reason: bytes, headers: Sequence[tuple[bytes, bytes]], length: int | None) -> None:
        """Begin the answer to the current request; `length` is of its body, None if only its end will tell."""
        request = self.current
        http10 = isinstance(request, Request) and request.http10
        self._close_after |= not (isinstance(request, Request) and request.keep_alive)
        self._bodiless = status in (204, 304) or (isinstance(request, Request) and request.method == b"HEAD")
        self._chunked = False
        framing = b""
        if length is not None:
            framing = b"Content-Length: %d\r\n" % length
        elif not self._bodiless:
            self._chunked = not http10
            self._close_after |= http10
            framing = b"" if http10 else b"Transfer-Encoding: chunked\r\n"
        closing = b"Connection: close\r\n" if self._close_after else b""
        self._out.append(b"HTTP/1.1 %d %b\r\n%b%b%b\r\n" % (status, reason, lines(headers), framing, closing))

    def write(self, pieces: Sequence[bytes]) -> None:
        """Add pieces of the body, each a chunk of its own where the answer is chunked."""
        if self._bodiless:
            return
        if not self._chunked:
            self._out += pieces
            return
        for piece in pieces:
            self._out += (b"%x\r\n" % len(piece), piece, b"\r\n")

    def flush(self) -> None:
        """Send what was added."""
        if self._out and not self.closing:
            self.transport.write(b"".join(self._out))
        self._out.clear()

    def finish(self) -> None:
        """End the answer and go on to the next request."""
        if self._chunked:
            self._out.append(b"0\r\n\r\n")
        self.flush()
        self.exchange = None
        self.current = None
        if self._deaf and not self._waiting:
            self._linger()
        elif self._close_after and not self._deaf:
            self._close()
        else:
            self._next()

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Answer the current request in one go."""
        self.start(status, reason_phrase(status), headers, len(body))
        self.write([body])
        self.finish()

    def cut(self, last_words: bytes) -> None:
        """Break the answer off so that no client takes it for a whole one; `last_words` still go out if they can."""
        self.exchange = None
        if self._chunked:
            if last_words:
                self.write([last_words])
            self.flush()
        elif not self.closing:
            # Where the end of the connection is the end of the body, only a reset tells a truncated answer.
            reset_on_close(self.transport)
        self._close()

    def _close(self) -> None:
        self.closing = True
        self.transport.close()

    def _linger(self) -> None:
        self.closing = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._loop.call_later(_LINGER_SECONDS, self.transport.close)


def origin_form(target: bytes) -> bytes:
    """Return a request target without the scheme and authority that clients of forward proxies put there."""
    if target.startswith(b"/") or target == b"*":
        return target
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target
    return (url.path or b"/") + (b"?" + url.query if url.query is not None else b"")


def tune_socket(transport: asyncio.Transport) -> None:
    """Send small writes at once, and notice within two minutes a peer whose machine is gone."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)


def reset_on_close(transport: asyncio.Transport) -> None:
    """Make closing the connection reset it."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
