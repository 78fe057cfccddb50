"""The scenes every proxy is put through; each returns what goes into its columns."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count

import aiohttp
from bench.proxy_behaviour.engine import CUSTOM_HEADER, NAME_HEADER
from bench.proxy_behaviour.stage import Stage

CONVERSATIONS = 29  # odd, so that a counter cannot keep turns by accident
TURNS = 4
SHARED_SYSTEM = "You are a careful assistant. " * 117  # 3.4 kB
PINNED_TURNS = 15
RETURN_TIMEOUT = 20.0  # seconds
LEAVE_TIMEOUT = 3.0  # seconds

Message = dict[str, str]
_keys = count()


@dataclass(frozen=True)
class Answer:
    """One answer: status (0: none at all), the engine that gave it, milliseconds."""

    status: int
    engine: str
    milliseconds: float


async def ask(stage: Stage, messages: list[Message]) -> Answer:
    """Send one chat through the proxy."""
    begin = time.monotonic()
    try:
        body = {"model": "frank-medium", "messages": messages}
        async with stage.session.post(f"{stage.base}/v1/chat/completions", json=body) as response:
            await response.read()
            status, engine = response.status, response.headers.get(NAME_HEADER, "")
    except (aiohttp.ClientError, TimeoutError):
        status, engine = 0, ""
    return Answer(status, engine, (time.monotonic() - begin) * 1e3)


def user(text: str) -> Message:
    """Return a user's message."""
    return {"role": "user", "content": text}


def fresh_key() -> str:
    """Return a word that no request used yet."""
    return f"k{next(_keys)}x"


async def conversations(stage: Stage, system: str | None) -> tuple[str, str]:
    """Hold CONVERSATIONS one request at a time, turns in random order; return the split of first turns and the share
    of later turns that came back to the engine of the first."""
    histories = []
    for number in range(CONVERSATIONS):
        opening = system or f"Conversation {number} has a system prompt of its own."
        histories.append([{"role": "system", "content": opening}, user(f"{fresh_key()} first question {number}")])
    homes = [(await ask(stage, history)).engine for history in histories]
    kept = 0
    rng = random.Random(1)
    for turn in range(1, TURNS):
        for number in rng.sample(range(CONVERSATIONS), CONVERSATIONS):
            histories[number] += [{"role": "assistant", "content": "yes"}, user(f"and then? {turn}")]
            kept += (await ask(stage, histories[number])).engine == homes[number]
    split = "/".join(str(times) for _, times in Counter(homes).most_common()) + ("/0" if len(set(homes)) == 1 else "")
    return split, f"{kept / CONVERSATIONS / (TURNS - 1):.0%}"


async def fidelity(stage: Stage) -> tuple[str, str]:
    """Send a body with fields nobody knows and a custom header; return what became of its size, and of the header."""
    key = fresh_key()
    messages = f'[{{"role": "user", "content": "key-{key}"}}]'
    text = f'{{"model": "frank-medium",  "messages": {messages}, "x_unknown": {{"a": 1.50}}}}'
    headers = {"Content-Type": "application/json", CUSTOM_HEADER: "1"}
    async with stage.session.post(f"{stage.base}/v1/chat/completions", data=text.encode(), headers=headers) as response:
        await response.read()
    seen = [entry for entry in await stage.seen(key) if entry["copies"]]
    if not seen:
        return "not delivered", "-"
    size = seen[0]["size"]
    return ("as sent" if size == len(text) else f"{len(text)} -> {size} B"), "yes" if seen[0]["custom"] else "no"


async def copies(stage: Stage, mode: str) -> str:
    """Have the engine fail a request; return the client's status and how many copies ran in all."""
    key = fresh_key()
    answer = await ask(stage, [user(f"key-{key} mode-{mode}")])
    ran = sum(entry["copies"] for entry in await stage.seen(key))
    return f"{answer.status}, {ran}x"


async def stream_dies(stage: Stage) -> str:
    """Ask for a stream whose engine drops it half-way; return what tells the client that it is not whole."""
    body = {"model": "frank-medium", "stream": True, "messages": [user(f"key-{fresh_key()} mode-cut")]}
    received = b""
    end = "clean end"
    try:
        async with stage.session.post(f"{stage.base}/v1/chat/completions", json=body) as response:
            async for piece in response.content.iter_any():
                received += piece
    except (aiohttp.ClientError, TimeoutError):
        end = "cut"
    words = [*(["error event"] if b'"error"' in received else []), *(["[DONE]"] if b"[DONE]" in received else []), end]
    return ", ".join(words)


async def client_leaves(stage: Stage) -> str:
    """Leave before the first byte; return after how many milliseconds the engine knew."""
    key = fresh_key()
    request = asyncio.create_task(ask(stage, [user(f"key-{key} mode-slow")]))
    await _until(lambda: _copies(stage, key), LEAVE_TIMEOUT)
    left = time.monotonic_ns()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    if not await _until(lambda: _left(stage, key), LEAVE_TIMEOUT):
        return "never"
    return f"{(await _left(stage, key) - left) / 1e6:.0f} ms"


async def replica_dies(stage: Stage) -> tuple[str, str]:
    """Kill the engine of a conversation; return how its next turns fared, and when the engine, back, was used again."""
    history = [user(f"{fresh_key()} hello")]
    home = (await ask(stage, history)).engine
    stage.kill(home)
    answers = []
    for turn in range(PINNED_TURNS):
        history += [{"role": "assistant", "content": "yes"}, user(f"go on {turn}")]
        answers.append(await ask(stage, history))
    failed = sum(answer.status != 200 for answer in answers)
    worst = max(answer.milliseconds for answer in answers)
    await stage.start(home)
    back = time.monotonic()
    while time.monotonic() - back < RETURN_TIMEOUT:
        if (await ask(stage, [user(f"{fresh_key()} new")])).engine == home:
            return f"{failed} of {PINNED_TURNS}, {worst:.0f} ms", f"{time.monotonic() - back:.1f} s"
        await asyncio.sleep(0.05)
    return f"{failed} of {PINNED_TURNS}, {worst:.0f} ms", f"> {RETURN_TIMEOUT:.0f} s"


async def all_die(stage: Stage) -> tuple[str, str]:
    """Kill every engine; return the answer to a chat and the status of /health."""
    for name in stage.engines:
        stage.kill(name)
    answer = await ask(stage, [user("anybody?")])
    async with stage.session.get(f"{stage.base}/health") as response:
        health = response.status
    return f"{answer.status}, {answer.milliseconds:.0f} ms", str(health)


async def _copies(stage: Stage, key: str) -> int:
    return sum(entry["copies"] for entry in await stage.seen(key))


async def _left(stage: Stage, key: str) -> int:
    return sum(entry["left"] for entry in await stage.seen(key))


async def _until(read: Callable[[], Awaitable[int]], seconds: float) -> bool:
    """Ask until the answer is not 0; return whether that came within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await read():
            return True
        await asyncio.sleep(0.01)
    return False
