"""The engine's side: connections to one replica, kept for reuse, and the answers read from them."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Protocol, cast

import httptools

from .config import Backend
from .http1 import HOP_BY_HOP, Headers, named_in_connection
from .server import tune_socket

# vLLM's server closes a connection that was idle for 5.0 s (measured; VLLM_HTTP_TIMEOUT_KEEP_ALIVE). A request that
# crosses with that is lost, so no connection is used again that was idle for longer than this.
IDLE_SECONDS = 4.0
_MAX_FETCH_BYTES = 8 * 2**20


class Answer:
    """The head of an engine's answer; `length` is the declared one of its body."""

    __slots__ = ("headers", "length", "reason", "status")

    def __init__(self, status: int, reason: bytes, headers: Headers, length: int | None) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.length = length

    def header(self, name: bytes) -> bytes:
        """Return the value of the first header of that lower-case name, or nothing."""
        return next((value for key, value in self.headers if key.lower() == name), b"")


class Reader(Protocol):
    """Who an engine's answer is read for."""

    def on_read(self, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        """Take what one read brought: pieces of the body, as the engine chunked it."""

    def on_lost(self, reason: str) -> None:
        """The connection ended before the answer did."""


class EngineConnection(asyncio.Protocol):
    """One connection to an engine, for one request at a time."""

    transport: asyncio.Transport

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._reader: Reader | None = None
        self._parser = httptools.HttpResponseParser(self)
        self.idle_since = 0.0
        self._closed = False
        self._paused = False
        self._reset(head_only=False)

    def _reset(self, head_only: bool) -> None:
        self._head_only = head_only
        self._answer: Answer | None = None
        self._reason = b""
        self._headers: Headers = []
        self._length: int | None = None
        self._connection = b""
        self._chunked = False
        self._interim = False
        self._reusable = False
        self._complete = False
        self._pieces: list[bytes] = []

    def send(self, head: bytes, body: bytes, reader: Reader, head_only: bool) -> None:
        """Send a request; `head_only` says that its answer has no body whatever its headers say."""
        self._reset(head_only)
        self._reader = reader
        self.transport.writelines((head, body) if body else (head,))

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
        self._closed = True
        self.transport.abort()

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self.transport = cast(asyncio.Transport, transport)
        tune_socket(self.transport)

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
        self._closed = True
        self._pool.discard(self)
        reader, self._reader = self._reader, None
        if reader is None:
            return
        if self._answer is not None and self._until_eof and exc is None:
            reader.on_read(self._answer, [], True)
        else:
            reader.on_lost("closed the connection" if exc is None else os_reason(exc))

    @property
    def _until_eof(self) -> bool:
        return not self._chunked and self._length is None

    def _release(self, problem: str) -> None:
        self._reader = None
        if self._head_only:
            # llhttp can't be told that a body will not follow, so it is still waiting for one.
            self._parser = httptools.HttpResponseParser(self)
        if self._reusable and not problem and not self._closed and self.transport.get_write_buffer_size() == 0:
            if self._paused:
                self.resume()
            self._pool.put_back(self)
        else:
            self.abort()

    # The response parser's callbacks.

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
        self._answer = Answer(status, self._reason, headers, self._length)
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


class Pool:
    """The connections to one replica."""

    def __init__(self, backend: Backend, connect_timeout: float) -> None:
        self._backend = backend
        self._connect_timeout = connect_timeout
        self._loop = asyncio.get_running_loop()
        self._idle: deque[EngineConnection] = deque()
        self.closed_by_engine = False

    def take(self) -> EngineConnection | None:
        """Return the connection that was used last, if it can't have been closed by the engine meanwhile."""
        self.drop_stale()
        return self._idle.pop() if self._idle else None

    def put_back(self, connection: EngineConnection) -> None:
        """Keep a connection for the next request."""
        connection.idle_since = self._loop.time()
        self._idle.append(connection)

    def discard(self, connection: EngineConnection) -> None:
        """Forget a connection that has ended."""
        with suppress(ValueError):
            self._idle.remove(connection)
            self.closed_by_engine = True

    def drop_stale(self) -> None:
        """Close connections idle for too long."""
        oldest = self._loop.time() - IDLE_SECONDS
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.popleft().abort()

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.popleft().abort()

    async def connect(self) -> EngineConnection:
        """Open a connection; OSError (TimeoutError among them) when that can't be done within CONNECT_TIMEOUT."""
        async with asyncio.timeout(self._connect_timeout):
            _, connection = await self._loop.create_connection(
                lambda: EngineConnection(self), self._backend.host, self._backend.port
            )
        return connection

    async def fetch(self, path: str, seconds: float) -> tuple[int, bytes]:
        """GET a path over a connection of its own; return status and body, OSError if they don't come in time."""
        async with asyncio.timeout(seconds):
            connection = await self.connect()
            collector = _Collector()
            try:
                head = f"GET {path} HTTP/1.1\r\nHost: {self._backend.authority}\r\nConnection: close\r\n\r\n"
                connection.send(head.encode(), b"", collector, head_only=False)
                return await collector.result
            finally:
                connection.abort()


class _Collector:
    """Reads a whole answer into memory."""

    def __init__(self) -> None:
        self.result: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._body = b""

    def on_read(self, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        """Collect."""
        self._body += b"".join(pieces)
        if self.result.done():
            return
        if complete:
            self.result.set_result((answer.status, self._body))
        elif len(self._body) > _MAX_FETCH_BYTES:
            self.on_lost(f"sent more than {_MAX_FETCH_BYTES} bytes")

    def on_lost(self, reason: str) -> None:
        """Fail."""
        if not self.result.done():
            self.result.set_exception(ConnectionError(reason))


def os_reason(error: Exception) -> str:
    """Return what went wrong with a connection in a few plain words."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
