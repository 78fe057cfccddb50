"""The clients: conversations of one to five turns, short and long, streamed and not; each request has one outcome."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
from bench.proxy_soak.engine import DIGEST_HEADER, ID_HEADER, digest

REQUEST_TIMEOUT = 30.0  # seconds; the longest answer takes about two
BACK_OFF = 0.25  # seconds a client waits after a failure

Kind = Literal["answered", "rejected", "502", "503", "broken off", "abandoned", "wrong"]


@dataclass(frozen=True)
class Outcome:
    """What a client saw of one request.

    answered: complete. rejected: the engine's 400. 502, 503: the proxy's error, as JSON. broken off: part of an answer,
    then an error event or a cut connection. abandoned: the client left. wrong: anything else, said in `detail`.
    Times are CLOCK_MONOTONIC ns; `replica` and `decision` are the proxy's headers.
    """

    request_id: str
    kind: Kind
    started: int
    ended: int
    replica: str = ""
    decision: str = ""
    detail: str = ""


class Clients:
    """Workers that talk until `stopping`; `outcomes` collects every request, `enough` is set after `wanted` of them."""

    def __init__(self, session: aiohttp.ClientSession, base: str, seed: int, wanted: int) -> None:
        self.session = session
        self.url = f"{base}/v1/chat/completions"
        self.seed = seed
        self.outcomes: list[Outcome] = []
        self.wanted = wanted
        self.enough = asyncio.Event()
        self.stopping = asyncio.Event()

    async def work(self, worker: int) -> None:
        """Hold one conversation after the other until `stopping` is set."""
        rng = random.Random(self.seed * 1000 + worker)
        number = 0
        while not self.stopping.is_set():
            number += 1
            await self._conversation(f"{worker}-{number}", rng)

    async def _conversation(self, name: str, rng: random.Random) -> None:
        filler = "lorem ipsum " * rng.choice((1, 20, 2000))
        messages = [{"role": "system", "content": "shared by all"}]
        for turn in range(rng.randint(1, 5)):
            messages.append({"role": "user", "content": f"{name} {turn} {filler}"})
            outcome = await self._request(f"{name}-{turn}", messages, rng)
            self.outcomes.append(outcome)
            if len(self.outcomes) >= self.wanted:
                self.enough.set()
            if outcome.kind not in ("answered", "rejected"):
                await asyncio.sleep(BACK_OFF)
            messages.append({"role": "assistant", "content": f"answer {turn}"})

    async def _request(self, request_id: str, messages: list[dict[str, str]], rng: random.Random) -> Outcome:
        long = rng.random() < 0.3
        plan = {
            "invalid": rng.random() < 0.03,
            "pieces": rng.randint(20, 60) if long else rng.randint(1, 8),
            "pause": rng.uniform(0.005, 0.02) if long else rng.uniform(0, 0.01),
        }
        stream = rng.random() < 0.5
        patience = rng.uniform(0.02, 0.3) if rng.random() < 0.04 else None
        if patience:  # long enough that only an engine that was told stops within a second
            plan["pieces"], plan["pause"] = 60, 0.05
        body = json.dumps({"model": "soak", "stream": stream, "messages": messages, "soak": plan}).encode()
        started = time.monotonic_ns()
        try:
            async with asyncio.timeout(patience or REQUEST_TIMEOUT):
                kind, replica, decision, detail = await self._exchange(request_id, body, plan)
        except TimeoutError:
            kind, replica, decision = ("abandoned" if patience else "wrong"), "", ""
            detail = "" if patience else f"no end of the answer within {REQUEST_TIMEOUT:.0f} s"
        return Outcome(request_id, kind, started, time.monotonic_ns(), replica, decision, detail)

    async def _exchange(self, request_id: str, body: bytes, plan: dict[str, Any]) -> tuple[Kind, str, str, str]:
        headers = {ID_HEADER: request_id, DIGEST_HEADER: digest(body), "Content-Type": "application/json"}
        received = b""
        try:
            async with self.session.post(self.url, data=body, headers=headers) as response:
                replica = response.headers.get("X-Fleet-Replica", "")
                decision = response.headers.get("X-Fleet-Decision", "")
                cut = False
                try:
                    async for piece in response.content.iter_any():
                        received += piece
                except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError):
                    cut = True
                streamed = response.headers.get("Content-Type", "").startswith("text/event-stream")
                kind, detail = judge(request_id, response.status, streamed, received, cut, plan)
                return kind, replica, decision, detail
        except aiohttp.ClientError as error:
            return "wrong", "", "", f"no answer from the proxy: {error!r}"


def judge(
    request_id: str, status: int, streamed: bool, received: bytes, cut: bool, plan: dict[str, Any]
) -> tuple[Kind, str]:
    """Return the kind of an answer, and what is wrong with it if it is `wrong`."""
    shown = f"{status} {'cut ' if cut else ''}{received[-200:]!r}"
    if status == 200 and streamed:
        return _judge_stream(request_id, received, cut, plan["pieces"], shown)
    if cut:
        return "broken off", ""
    try:
        answer = json.loads(received)
    except ValueError:
        return "wrong", f"not JSON: {shown}"
    if status == 200:
        complete = answer.get("id") == request_id and len(answer["text"]) == plan["pieces"] * 100
        return ("answered", "") if complete else ("wrong", f"another answer: {shown}")
    if status == 400 and plan["invalid"]:
        return "rejected", ""
    if status in (502, 503) and isinstance(answer.get("error"), dict):
        return ("502" if status == 502 else "503"), ""
    return "wrong", f"unexpected: {shown}"


def _judge_stream(request_id: str, received: bytes, cut: bool, pieces: int, shown: str) -> tuple[Kind, str]:
    """A stream is whole, or a prefix with an error event and a cut; never a prefix that looks like a whole."""
    expected = [f'data: {{"id": "{request_id}", "piece": {number}}}' for number in range(pieces)]
    events = received.decode(errors="replace").split("\n\n")[:-1]
    if not cut and events == [*expected, "data: [DONE]"]:
        return "answered", ""
    failure = events[-1] if events else ""
    if cut and '"error"' in failure and events[:-1] == expected[: len(events) - 1]:
        return "broken off", ""
    return "wrong", f"stream without its end or an error event: {shown}"
