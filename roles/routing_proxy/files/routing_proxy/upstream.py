"""The engine's side: one connection to a replica, and the answers read from it."""

import asyncio
import select
from typing import Protocol, cast

import httptools

from . import sockets
from .http1 import HOP_BY_HOP, Headers, named_in_connection

# Headers of an answer that mean something to the proxy.
_NOTED = frozenset((b"content-type", b"content-encoding", b"x-accel-buffering"))


class Answer:
    """The head of an engine's answer.

    `headers` are those to pass on, `noted` those that mean something to the proxy, by lower-case name; `length` is the
    declared one of the body.
    """

    __slots__ = ("headers", "length", "noted", "reason", "status")

    def __init__(
        self, status: int, reason: bytes, headers: Headers, noted: dict[bytes, bytes], length: int | None
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.noted = noted
        self.length = length


class Reader(Protocol):
    """Who an engine's answer is read for."""

    def on_read(self, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        """Take what one read brought: pieces of the body, as the engine chunked it."""

    def on_lost(self, reason: str) -> None:
        """The connection ended before the answer did."""


class Owner(Protocol):
    """Who keeps a connection between requests."""

    def put_back(self, connection: "EngineConnection") -> None:
        """The connection is free for another request."""

    def discard(self, connection: "EngineConnection") -> None:
        """The connection has ended."""


class EngineConnection(asyncio.Protocol):
    """One connection to an engine, for one request at a time."""

    transport: asyncio.Transport

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._reader: Reader | None = None
        self._parser = httptools.HttpResponseParser(self)
        self.idle_since = 0.0
        self._poll = select.poll()
        self.closed = False
        self._paused = False
        self._keep = True
        self._reset(head_only=False)

    def _reset(self, head_only: bool) -> None:
        self._head_only = head_only
        self._answer: Answer | None = None
        self._reason = b""
        self._headers: Headers = []
        self._noted: dict[bytes, bytes] = {}
        self._length: int | None = None
        self._connection = b""
        self._chunked = False
        self._interim = False
        self._reusable = False
        self._complete = False
        self._pieces: list[bytes] = []

    def send(self, head: bytes, body: bytes, reader: Reader, head_only: bool = False, keep: bool = True) -> None:
        """Send a request.

        `head_only` says that its answer has no body whatever its headers say; without `keep` the connection is closed
        after the answer instead of being kept for another request.
        """
        self._reset(head_only)
        self._keep = keep
        self._reader = reader
        self.transport.writelines((head, body) if body else (head,))

    def is_quiet(self) -> bool:
        """Tell that nothing has come over an idle connection: neither its end nor anything else."""
        return not self._poll.poll(0)

    def pause(self) -> None:
        """Stop reading until `resume`."""
        self._paused = True
        self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        self.transport.resume_reading()

    def abort(self) -> None:
        """Close at once; the reader hears no more."""
        self._reader = None
        if not self.closed:
            self.closed = True
            self.transport.abort()

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self.transport = cast(asyncio.Transport, transport)
        sockets.tune(self.transport)
        self._poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Read the answer out of what came."""
        reader = self._reader
        if reader is None:
            self.abort()
            return
        problem = ""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            problem = "switched protocols"
        except httptools.HttpParserError as error:
            problem = f"sent an invalid answer: {error}"
        answer, complete = self._answer, self._complete
        pieces, self._pieces = self._pieces, []
        if complete:
            self._release(problem)
        if answer is not None and (pieces or complete or not problem):
            reader.on_read(answer, pieces, complete)
        if problem and not complete and self._reader is reader:
            self.abort()
            reader.on_lost(problem)

    def eof_received(self) -> None:
        """Close."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the reader how the answer ended."""
        self.closed = True
        self._owner.discard(self)
        reader, self._reader = self._reader, None
        if reader is None:
            return
        if self._answer is not None and self._until_eof and exc is None:
            reader.on_read(self._answer, [], True)
        else:
            reader.on_lost("closed the connection" if exc is None else sockets.problem(exc))

    @property
    def _until_eof(self) -> bool:
        return not self._chunked and self._length is None

    def _release(self, problem: str) -> None:
        self._reader = None
        if self._head_only:
            # llhttp can't be told that a body will not follow, so it is still waiting for one.
            self._parser = httptools.HttpResponseParser(self)
        reusable = self._reusable and self._keep and not problem and not self.closed
        if reusable and self.transport.get_write_buffer_size() == 0:
            if self._paused:
                self.resume()
            self._owner.put_back(self)
        else:
            self.abort()

    # The response parser's callbacks.

    def on_message_begin(self) -> None:
        """Refuse a second answer behind the first: whoever it is for, it is not for the next request."""
        if self._complete:
            raise ValueError("more than one answer")

    def on_status(self, reason: bytes) -> None:
        """Take the reason phrase, or a part of it."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are dropped."""
        if self._answer is not None:
            return
        lower = name.lower()
        if lower == b"content-length":
            self._length = int(value)
        elif lower == b"connection":
            self._connection += b"," + value
        elif lower == b"transfer-encoding":
            self._chunked = True
        elif lower not in HOP_BY_HOP:
            self._headers.append((name, value))
            if lower in _NOTED:
                self._noted[lower] = value

    def on_headers_complete(self) -> None:
        """Look at an answer whose head is complete."""
        status = self._parser.get_status_code()
        self._interim = status < 200
        if self._interim:
            return
        headers = self._headers
        if self._connection:
            named = named_in_connection(self._connection)
            headers = [header for header in headers if header[0].lower() not in named]
        self._answer = Answer(status, self._reason, headers, self._noted, self._length)
        self._reusable = self._parser.should_keep_alive()
        self._complete = self._head_only

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Note the end of the answer, or go on to the real one after an interim one."""
        if self._interim:
            self._reset(self._head_only)
        else:
            self._complete = True
