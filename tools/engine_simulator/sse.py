"""Server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web

from .errors import engine_dead
from .runner import EngineDead

DONE = b"data: [DONE]\n\n"


def data(body: Any, event: str | None = None) -> bytes:
    """One event; `event` is its name where the API has names."""
    line = b"data: " + msgspec.json.encode(body) + b"\n\n"
    return f"event: {event}\n".encode() + line if event else line


async def stream(
    request: web.Request, chunks: AsyncIterator[bytes], headers: dict[str, str], keep_alive: float
) -> web.StreamResponse:
    """Answer with a stream. Its headers go out at once, its first event when the first token is there.

    Args:
        request: the request.
        chunks: the events.
        headers: further headers.
        keep_alive: seconds between comment lines while there is nothing to send; 0 for none.
    """
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", **headers})
    await response.prepare(request)
    try:
        async for chunk in with_keep_alive(chunks, keep_alive) if keep_alive else chunks:
            await response.write(chunk)
    except EngineDead:
        await response.write(data(engine_dead().body()) + DONE)
    await response.write_eof()
    return response


async def with_keep_alive(chunks: AsyncIterator[bytes], interval: float) -> AsyncIterator[bytes]:
    """Put a comment line into every `interval` seconds of silence."""
    while True:
        upcoming = asyncio.ensure_future(anext(chunks, None))
        try:
            while not (await asyncio.wait({upcoming}, timeout=interval))[0]:
                yield b": keep-alive\n\n"
        finally:
            upcoming.cancel()
        chunk = upcoming.result()
        if chunk is None:
            return
        yield chunk
