"""The connections to one replica, kept for reuse."""

import asyncio
import errno
from collections import deque
from contextlib import suppress

from .config import Backend
from .upstream import Answer, EngineConnection

# vLLM's server closes a connection that was idle for 5.0 s (measured; VLLM_HTTP_TIMEOUT_KEEP_ALIVE). A request that
# crosses with that is lost, so no connection is used again that was idle for longer than this.
IDLE_SECONDS = 4.0
_MAX_FETCH_BYTES = 8 * 2**20
# A process that is dying may still accept connections for a moment after it dropped one.
_DEATH_PROBES = 6
_DEATH_PROBE_SECONDS = 0.05


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
        while self._idle:
            connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            # The engine has closed it, which the event loop has not come to yet.
            connection.abort()
        return None

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
        """Open a connection; OSError when that can't be done within CONNECT_TIMEOUT, or when it is closed at once."""
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await self._loop.create_connection(
                    lambda: EngineConnection(self), self._backend.host, self._backend.port
                )
        except TimeoutError:
            raise ConnectionAbortedError(errno.ETIMEDOUT, "connection timed out") from None
        if connection.closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, "connection closed at once")
        return connection

    async def refuses(self) -> ConnectionRefusedError | None:
        """Return how the port refuses connections, now or within a third of a second: then its process is dead."""
        for probe in range(_DEATH_PROBES):
            if probe:
                await asyncio.sleep(_DEATH_PROBE_SECONDS)
            try:
                (await self.connect()).abort()
            except ConnectionRefusedError as error:
                return error
            except OSError:
                return None
        return None

    async def fetch(self, path: str, seconds: float) -> tuple[int, bytes]:
        """GET a path over a connection of its own; return status and body, TimeoutError if they don't come in time."""
        connection = await self.connect()
        collector = _Collector()
        try:
            head = f"GET {path} HTTP/1.1\r\nHost: {self._backend.authority}\r\nConnection: close\r\n\r\n"
            connection.send(head.encode(), b"", collector, keep=False)
            async with asyncio.timeout(seconds):
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
