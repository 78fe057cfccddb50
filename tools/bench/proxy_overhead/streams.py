"""Client of the mock's paced streams: time to first chunk and one-way delay of every chunk."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import cast

import httptools
import uvloop
from bench.proxy_overhead.mock_engine import CHUNK_INTERVAL, STREAM_CHUNKS, STREAM_MARK

SEND_TIME = re.compile(rb'"content":\s*"(\d+)"')
STREAM_TIMEOUT = 30.0  # seconds for one stream, which lasts one when nothing holds it up


@dataclass
class Streams:
    """What all streams of one cell saw, in ms: `first` per stream, `delay` per chunk; and streams that went wrong."""

    first: list[float] = field(default_factory=list)
    delay: list[float] = field(default_factory=list)
    errors: int = 0


class StreamClient(asyncio.Protocol):
    """One keep-alive connection that asks for one stream after the other."""

    def __init__(self, request: bytes, seen: Streams) -> None:
        self.request = request
        self.seen = seen
        self.done: asyncio.Future[bool] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(False)

    async def stream(self) -> None:
        """Ask for one stream and return at its end; anything but a complete answer counts as an error."""
        self.done = asyncio.get_running_loop().create_future()
        self.parser = httptools.HttpResponseParser(self)
        self.text = b""
        self.chunks = 0
        self.sent = time.monotonic_ns()
        self.transport.write(self.request)
        try:
            complete = await asyncio.wait_for(self.done, STREAM_TIMEOUT)
        except TimeoutError:
            complete = False
        if not complete:
            self.seen.errors += 1

    def data_received(self, data: bytes) -> None:
        self.now = time.monotonic_ns()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._finish(False)

    def on_body(self, body: bytes) -> None:
        if self.chunks == 0:
            self.seen.first.append((self.now - self.sent) / 1e6)
        self.text += body
        end = 0
        for match in SEND_TIME.finditer(self.text):
            self.chunks += 1
            self.seen.delay.append((self.now - int(match[1])) / 1e6)
            end = match.end()
        self.text = self.text[end:]

    def on_message_complete(self) -> None:
        self._finish(self.parser.get_status_code() == 200 and self.chunks == STREAM_CHUNKS)

    def _finish(self, complete: bool) -> None:
        if self.done and not self.done.done():
            self.done.set_result(complete)


def _request(port: int, number: int) -> bytes:
    message = {"role": "user", "content": f"{STREAM_MARK.decode()} of client {number}"}
    body = json.dumps({"model": "frank-medium", "stream": True, "messages": [message]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def _run(port: int, connections: int, rounds: int) -> Streams:
    seen = Streams()
    loop = asyncio.get_running_loop()

    async def client(number: int) -> None:
        try:
            _, protocol = await loop.create_connection(
                lambda: StreamClient(_request(port, number), seen), "127.0.0.1", port
            )
        except OSError:
            seen.errors += rounds
            return
        # Chunks of different streams are spread over the interval: no delay is a queue behind the client itself.
        await asyncio.sleep(number * CHUNK_INTERVAL / connections)
        for _ in range(rounds):
            await protocol.stream()
        protocol.transport.close()

    await asyncio.gather(*(client(number) for number in range(connections)))
    return seen


def run_streams(port: int, connections: int, rounds: int) -> Streams:
    """Run `rounds` streams on each of `connections` connections at once."""
    return uvloop.run(_run(port, connections, rounds))
