"""A replica that costs next to nothing: answers at once, or streams 100 chunks, one every 10 ms.

Run as `python -m bench.proxy_overhead.mock_engine PORT`. A small POST whose body contains STREAM_MARK gets the stream;
the text of each chunk is the CLOCK_MONOTONIC time in ns at which it was written, so that a client on the same machine
reads the one-way delay out of it. Framing is httptools', the loop uvloop's, so the proxy in front is the slow part.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import httptools
import uvloop

STREAM_MARK = b"paced-stream"
STREAM_CHUNKS = 100
CHUNK_INTERVAL = 0.010  # seconds
MARK_SEARCH_BYTES = 4096  # longer bodies are load, never streams, and are counted only

ANSWER = (
    b'{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1700000000,"model":"frank-medium",'
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"'
    + b"The quick brown fox jumps over the lazy dog. "
    * 8
    + b'","refusal":null,"tool_calls":[]},"logprobs":null,"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":220,"total_tokens":300,"completion_tokens":80}}'
)
MODELS = b'{"object":"list","data":[{"id":"frank-medium","object":"model","max_model_len":131072}]}'
METRICS = b'vllm:iteration_tokens_total_count{engine="0",model_name="frank-medium"} 1\n'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def _response(status: bytes, content_type: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, content_type, len(body))
    return head + body


CHAT_PATH = b"/v1/chat/completions"
GET_RESPONSES = {
    b"/health": _response(b"200 OK", b"application/json", b""),
    b"/metrics": _response(b"200 OK", b"text/plain; version=0.0.4", METRICS),
    b"/v1/models": _response(b"200 OK", b"application/json", MODELS),
}
NOT_FOUND = _response(b"404 Not Found", b"application/json", b'{"detail":"Not Found"}')
CHAT_RESPONSE = _response(b"200 OK", b"application/json", ANSWER)


def stream_chunk(now_ns: int) -> bytes:
    """Return one server-sent event, in chunked framing, that carries its send time."""
    event = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % now_ns
    return b"%x\r\n%b\r\n" % (len(event), event)


class MockEngine(asyncio.Protocol):
    """One keep-alive connection of the mock."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self.loop = asyncio.get_running_loop()
        self.timer: asyncio.TimerHandle | None = None
        self.parser = httptools.HttpRequestParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_message_begin(self) -> None:
        self.path = b""
        self.body = b""

    def on_url(self, url: bytes) -> None:
        self.path += url

    def on_body(self, body: bytes) -> None:
        if len(self.body) <= MARK_SEARCH_BYTES:
            self.body += body

    def on_message_complete(self) -> None:
        if self.parser.get_method() != b"POST":
            self.transport.write(GET_RESPONSES.get(self.path, NOT_FOUND))
            if not self.parser.should_keep_alive():
                self.transport.close()
        elif self.path != CHAT_PATH:  # vllm-router's cache_aware tries /render and /tokenize before each chat request
            self.transport.write(NOT_FOUND)
        elif len(self.body) <= MARK_SEARCH_BYTES and STREAM_MARK in self.body:
            self.transport.write(STREAM_HEAD)
            self._send_chunk(0, self.loop.time())
        else:
            self.transport.write(CHAT_RESPONSE)

    def _send_chunk(self, index: int, start: float) -> None:
        if index == STREAM_CHUNKS:
            self.transport.write(STREAM_END)
            return
        self.transport.write(stream_chunk(time.monotonic_ns()))
        self.timer = self.loop.call_at(start + (index + 1) * CHUNK_INTERVAL, self._send_chunk, index + 1, start)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(MockEngine, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
