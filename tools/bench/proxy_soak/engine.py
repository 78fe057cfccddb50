"""A replica that writes down what it did with every request, so that a kill -9 loses none of it.

Run as `python -m bench.proxy_soak.engine NAME PORT LOG`. LOG gets one line an event, `<monotonic ns> <event> <id>`:
`boot`, `start` (body read and found intact), `corrupt` (body differs from its digest), `refuse` (answered 503),
`byte` (the first byte of an answer has left), `end` (the last one has), `gone` (the client went away), `drop` (the
connection was closed on purpose).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from aiohttp import web

REFUSED_PERCENT = 4  # of (request, replica) pairs, as an engine whose queue is full does
DROPPED_PERCENT = 1  # connection closed by a replica that lives on, before or after the first piece of an answer
DIGEST_HEADER = "X-Soak-Digest"
ID_HEADER = "X-Request-Id"


class EventLog:
    """Append-only; each line is one write(2), which survives the death of the process."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, request_id: str = "-") -> None:
        """Record one event now."""
        os.write(self.descriptor, f"{time.monotonic_ns()} {event} {request_id}\n".encode())


def digest(body: bytes) -> str:
    """Return what DIGEST_HEADER carries for a body."""
    return hashlib.sha256(body).hexdigest()


class Engine:
    """Answers POST /v1/chat/completions; the body's `soak` object says how long it takes and in how many pieces."""

    def __init__(self, name: str, log: EventLog) -> None:
        self.name = name
        self.log = log

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Refuse, reject or answer one request, in `pieces` pieces with a pause of `pause` seconds before each."""
        request_id = request.headers[ID_HEADER]
        raw = await request.read()
        if digest(raw) != request.headers[DIGEST_HEADER]:
            self.log.write("corrupt", request_id)
            return web.json_response({"error": {"message": "body was changed", "code": 500}}, status=500)
        lot = zlib.crc32(f"{request_id} {self.name}".encode()) % 100
        if lot < REFUSED_PERCENT:
            self.log.write("refuse", request_id)
            message = "The engine is overloaded. Retry later or on a different instance."
            return web.json_response({"error": {"message": message, "code": 503}}, status=503)
        self.log.write("start", request_id)
        try:
            return await self._answer(request, request_id, json.loads(raw), lot >= 100 - DROPPED_PERCENT)
        except (asyncio.CancelledError, ConnectionError):
            self.log.write("gone", request_id)
            raise

    async def _answer(
        self, request: web.Request, request_id: str, body: dict[str, Any], drop: bool
    ) -> web.StreamResponse:
        plan = body["soak"]
        if plan["invalid"]:
            pieces = [json.dumps({"error": {"message": "max_tokens is too large", "code": 400}}).encode()]
            response = web.StreamResponse(status=400)
        elif body["stream"]:
            events = [f'data: {{"id": "{request_id}", "piece": {number}}}\n\n' for number in range(plan["pieces"])]
            pieces = [event.encode() for event in [*events, "data: [DONE]\n\n"]]
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        else:
            answer = json.dumps({"id": request_id, "text": "x" * plan["pieces"] * 100}).encode()
            middle = len(answer) // 2
            pieces = [answer[:middle], answer[middle:]]
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.content_length = len(answer)
            await asyncio.sleep(plan["pause"] * plan["pieces"])
        if drop and plan["pieces"] % 2:
            self._drop(request, request_id)
        await response.prepare(request)
        for number, piece in enumerate(pieces):
            await asyncio.sleep(plan["pause"])
            await response.write(piece)
            if number == 0:
                self.log.write("byte", request_id)
                if drop:
                    self._drop(request, request_id)
        await response.write_eof()
        self.log.write("end", request_id)
        return response

    def _drop(self, request: web.Request, request_id: str) -> None:
        self.log.write("drop", request_id)
        assert request.transport
        request.transport.abort()
        raise ConnectionResetError("dropped on purpose")


async def health(request: web.Request) -> web.Response:
    """Answer as vLLM does: 200 and nothing else."""
    return web.Response()


async def serve(name: str, port: int, log_path: Path) -> None:
    """Serve until killed."""
    log = EventLog(log_path)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", Engine(name, log).chat)
    app.router.add_get("/health", health)
    runner = web.AppRunner(app, handler_cancellation=True, keepalive_timeout=5.0)
    await runner.setup()
    log.write("boot")
    await web.TCPSite(runner, "127.0.0.1", port, reuse_port=True).start()  # its port stays reserved while it is dead
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
