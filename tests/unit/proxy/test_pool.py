"""Which pooled connections may carry another request."""

import asyncio
import socket

import pytest
from routing_proxy.config import Backend
from routing_proxy.pool import IDLE_SECONDS, Pool
from routing_proxy.upstream import EngineConnection


async def _pooled(listener: socket.socket) -> tuple[Pool, EngineConnection, socket.socket]:
    """Return a pool with one idle connection, that connection, and the engine's end of it."""
    port = listener.getsockname()[1]
    pool = Pool(Backend("frank-medium-a", f"http://127.0.0.1:{port}", "127.0.0.1", port), 5.0)
    connection = await pool.connect()
    engine_end, _ = listener.accept()
    pool.put_back(connection)
    return pool, connection, engine_end


def test_a_connection_is_used_again() -> None:
    async def scenario(listener: socket.socket) -> None:
        pool, connection, engine_end = await _pooled(listener)
        with engine_end:
            assert pool.take() is connection
            assert pool.take() is None
            pool.put_back(connection)
            pool.close()
            assert pool.take() is None

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(scenario(listener))


@pytest.mark.parametrize("farewell", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_one_the_engine_closed_is_not_even_before_the_event_loop_knows(farewell: bytes) -> None:
    async def scenario(listener: socket.socket) -> None:
        pool, _, engine_end = await _pooled(listener)
        engine_end.sendall(farewell)
        engine_end.close()
        assert pool.take() is None  # nothing was awaited, so no callback has run

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(scenario(listener))


def test_a_connection_that_is_closed_at_once_was_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = EngineConnection.connection_made

    def made_and_lost(self: EngineConnection, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        self.connection_lost(None)

    monkeypatch.setattr(EngineConnection, "connection_made", made_and_lost)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ConnectionAbortedError, match="closed at once"),
    ):
        asyncio.run(_pooled(listener))


def test_one_that_was_idle_for_too_long_is_closed() -> None:
    async def scenario(listener: socket.socket) -> None:
        pool, connection, engine_end = await _pooled(listener)
        with engine_end:
            connection.idle_since -= IDLE_SECONDS + 0.1
            assert pool.take() is None
            engine_end.settimeout(5)
            assert await asyncio.to_thread(engine_end.recv, 1) == b""

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(scenario(listener))
    assert IDLE_SECONDS < 5.0  # what vLLM's server waits
