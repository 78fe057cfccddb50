"""An engine that tells what reached it: `python -m bench.proxy_behaviour.engine NAME PORT`.

A chat request names itself by `key-<word>` in its text, and asks for a failure by `mode-500`, `mode-503`, `mode-drop`
(the connection is closed without an answer), `mode-cut` (it is closed in the middle of a stream) or `mode-slow` (no
answer for SLOW seconds). GET /seen/<word> tells its story.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from dataclasses import asdict, dataclass

from aiohttp import web

KEY = re.compile(rb"key-(\w+)")
MODE = re.compile(rb"mode-(\w+)")
CUSTOM_HEADER = "X-Custom"
NAME_HEADER = "X-Engine"
SLOW = 20.0  # seconds


@dataclass
class Seen:
    """What reached the engine of one request: copies, bytes of the last body, a header of the client's, its leaving."""

    copies: int = 0
    size: int = 0
    custom: bool = False
    left: int = 0  # CLOCK_MONOTONIC ns, 0 if the client did not leave


class Engine:
    """Answers chats and remembers them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: dict[str, Seen] = {}

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer, or fail as asked."""
        body = await request.read()
        key, mode = KEY.search(body), MODE.search(body)
        seen = self.requests.setdefault(key[1].decode() if key else "", Seen())
        seen.copies += 1
        seen.size = len(body)
        seen.custom = CUSTOM_HEADER in request.headers
        if mode and mode[1] in (b"500", b"503"):
            return web.json_response({"error": {"message": "asked for"}}, status=int(mode[1]))
        if mode and mode[1] in (b"drop", b"cut"):
            if mode[1] == b"cut":
                await _half_a_stream(request)
            assert request.transport
            request.transport.abort()
            raise ConnectionResetError("asked for")
        if mode and mode[1] == b"slow":
            try:
                await asyncio.sleep(SLOW)
            except asyncio.CancelledError:
                seen.left = time.monotonic_ns()
                raise
        message = {"role": "assistant", "content": "yes"}
        answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "frank-medium"}
        answer["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return web.json_response(answer, headers={NAME_HEADER: self.name})

    async def seen(self, request: web.Request) -> web.Response:
        """Tell about one request."""
        return web.json_response(asdict(self.requests.get(request.match_info["key"], Seen())))


async def _half_a_stream(request: web.Request) -> None:
    """Send the first events of a stream."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for number in range(5):
        await response.write(b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % number)
        await asyncio.sleep(0.02)


async def health(request: web.Request) -> web.Response:
    """Answer as vLLM does."""
    return web.Response()


async def models(request: web.Request) -> web.Response:
    """List the one model; routers ask for it when they start."""
    return web.json_response({"object": "list", "data": [{"id": "frank-medium", "object": "model"}]})


async def serve(name: str, port: int) -> None:
    """Serve until killed."""
    engine = Engine(name)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", engine.chat)
    app.router.add_get("/seen/{key}", engine.seen)
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, handler_cancellation=True, keepalive_timeout=5.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_port=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
