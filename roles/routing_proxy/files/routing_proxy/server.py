"""The client's side: connections that requests are read from, one after the other, and answers are written to."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol, cast

from . import sockets
from .http1 import Header, Request, lines, reason_phrase
from .requests import Refusal, RequestReader

# Requests a pipelining client may have waiting before its connection is no longer read.
_MAX_WAITING = 4
# How long a refused upload is read on and dropped, so that the client gets to see the refusal instead of a reset.
_LINGER_SECONDS = 2.0


class App(Protocol):
    """What answers requests, at once or in time: `ClientConnection.finish` or `cut` must follow."""

    def serve(self, client: "ClientConnection", request: Request) -> None:
        """Answer a request."""

    def refuse(self, client: "ClientConnection", refusal: Refusal) -> None:
        """Answer what could not be read as a request."""


class Exchange(Protocol):
    """An answer that takes time."""

    def cancel(self) -> None:
        """The client is gone."""

    def pause(self) -> None:
        """The client reads slower than the answer comes."""

    def resume(self) -> None:
        """The client has caught up."""


class ClientConnection(asyncio.Protocol):
    """One client's connection. Requests are served one at a time, pipelined ones in their order."""

    transport: asyncio.Transport

    def __init__(self, app: App, connections: set["ClientConnection"], max_body_bytes: int) -> None:
        self._app = app
        self._connections = connections
        self._requests = RequestReader(max_body_bytes)
        # The request being answered, and what answers it if that takes time.
        self._current: Request | Refusal | None = None
        self.exchange: Exchange | None = None
        # The answer being written.
        self._out: list[bytes] = []
        self._chunked = False
        self._bodiless = False
        self._until_close = False
        self._close_after = False
        # The client reads too slowly.
        self._choked = False
        self._closing = False

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self.transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        sockets.tune(self.transport)

    def data_received(self, data: bytes) -> None:
        """Read requests out of what came; serve the first of them unless one is being served."""
        self._requests.feed(data)
        if self._current is None:
            self._next()
        elif len(self._requests.ready) >= _MAX_WAITING:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """Close: a client that shuts its side is taken to be gone, as by nginx and by the engine itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what was being done for the client."""
        self._closing = True
        self._connections.discard(self)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
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
        elif self._current is None:
            self._next()

    # One request after the other.

    def _next(self) -> None:
        requests = self._requests
        while requests.ready and self._current is None and not self._choked and not self._closing:
            current = self._current = requests.ready.popleft()
            if isinstance(current, Request):
                current.started = time.monotonic()
                self._app.serve(self, current)
            else:
                self._app.refuse(self, current)
        if self._closing:
            return
        if requests.continue_due and self._current is None:
            requests.continue_due = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(requests.ready) < _MAX_WAITING and not self.transport.is_reading():
            self.transport.resume_reading()

    def close_after_next(self) -> None:
        """Make the answer to the present request, or to the one that may be on its way, the last of the connection."""
        self._close_after = True

    def close_when_done(self) -> None:
        """Close the connection after the request in progress, at once if there is none."""
        self._close_after = True
        if self._current is None and not self._requests.ready and not self._requests.in_request:
            self._close()

    # Answers.

    def start(self, status: int, reason: bytes, headers: Sequence[Header], length: int | None) -> None:
        """Begin the answer to the current request; `length` is its body's, None if only its end will tell."""
        request = self._current if isinstance(self._current, Request) else None
        self._close_after |= request is None or not request.keep_alive
        self._bodiless = status in (204, 304) or (request is not None and request.method == b"HEAD")
        unframed = length is None and not self._bodiless
        self._until_close = unframed and request is not None and request.http10
        self._chunked = unframed and not self._until_close
        framing = b""
        if length is not None:
            framing = b"Content-Length: %d\r\n" % length
        elif self._chunked:
            framing = b"Transfer-Encoding: chunked\r\n"
        closing = b"Connection: close\r\n" if self._close_after else b""
        self._out.append(b"HTTP/1.1 %d %b\r\n%b%b%b\r\n" % (status, reason, lines(headers), framing, closing))

    def write(self, pieces: Sequence[bytes]) -> None:
        """Add pieces of the body, each a chunk of its own where the answer is chunked."""
        if self._chunked:
            for piece in pieces:
                self._out += (b"%x\r\n" % len(piece), piece, b"\r\n")
        elif not self._bodiless:
            self._out += pieces

    def flush(self, last: bool = False) -> None:
        """Send what was added; `last` says that it ends the body. `finish` must follow then."""
        if last and self._chunked:
            self._out.append(b"0\r\n\r\n")
        if self._out and not self._closing:
            self.transport.write(b"".join(self._out))
        self._out.clear()

    def finish(self) -> None:
        """Go on to the next request: the answer to this one is sent."""
        self.exchange = None
        refused = isinstance(self._current, Refusal)
        self._current = None
        if refused:
            self._linger()
        elif self._close_after:
            self._close()
        elif self._requests.ready or self._requests.continue_due:
            self._next()

    def respond(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """Answer the current request in one go."""
        self.start(status, reason_phrase(status), headers, len(body))
        self.write([body])
        self.flush(last=True)
        self.finish()

    def cut(self, last_words: bytes) -> None:
        """Break the answer off so that no client takes it for a whole one; `last_words` go out if framing allows."""
        self.exchange = None
        if self._chunked and last_words:
            self.write([last_words])
        self.flush()
        if self._until_close and not self._closing:
            # Where the end of the connection is the end of the body, only a reset tells a truncated answer.
            sockets.reset_on_close(self.transport)
        self._close()

    def _close(self) -> None:
        self._closing = True
        self.transport.close()

    def _linger(self) -> None:
        self._closing = True
        self.transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self.transport.close)
