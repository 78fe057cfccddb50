"""People who keep chatting: short completions at a steady rate and long streams, and what became of each."""

import asyncio
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

import aiohttp

MODEL = "frank-medium"


@dataclass
class Outcome:
    """What clients saw. Times in seconds; `gap` is the longest without any short answer."""

    sent: int = 0
    failed: list[str] = field(default_factory=list)
    streams: int = 0
    cut: list[str] = field(default_factory=list)
    slowest: float = 0.0
    gap: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.sent} requests sent, {len(self.failed)} failed, {self.streams} streams, {len(self.cut)} cut, "
            f"longest gap {self.gap:.1f} s, slowest answer {self.slowest:.1f} s"
        )


class Load:
    """A context: traffic flows while it is open, and everything begun is waited for at its end."""

    def __init__(self, endpoint: str, rate: float = 5.0, streams: int = 2, stream_tokens: int = 800) -> None:
        self.outcome = Outcome()
        self._endpoint, self._rate, self._streams, self._tokens = endpoint, rate, streams, stream_tokens
        self._over = threading.Event()
        self._last = 0.0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Outcome:
        self._thread.start()
        return self.outcome

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    async def _run(self) -> None:
        # Half of the clients open a connection for each request (a refused one is what an update of the proxy must not
        # bring), half keep theirs (whose end must not take a request along).
        async with self._session(force_close=True) as fresh, self._session() as kept:
            self._last = time.monotonic()
            # Staggered, so that at any moment one of them is in its middle.
            jobs = [asyncio.create_task(self._stream_on(fresh, 10.0 * n)) for n in range(self._streams)]
            while not self._over.is_set():
                jobs.append(asyncio.create_task(self._ask(kept if self.outcome.sent % 2 else fresh)))
                await asyncio.sleep(1 / self._rate)
            await asyncio.gather(*jobs)

    def _session(self, **connections: bool) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, **connections)
        return aiohttp.ClientSession(self._endpoint, connector=connector, timeout=aiohttp.ClientTimeout(total=120))

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        outcome, begin = self.outcome, time.monotonic()
        outcome.sent += 1
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"Say OK {outcome.sent}"}], "max_tokens": 2}
        try:
            async with session.post("/v1/chat/completions", json=body) as answer:
                text = await answer.text()
                if answer.status != 200 or '"choices"' not in text:
                    outcome.failed.append(f"{answer.status}: {text[:200]}")
        except (aiohttp.ClientError, TimeoutError) as error:
            outcome.failed.append(repr(error))
        now = time.monotonic()
        outcome.slowest, outcome.gap = max(outcome.slowest, now - begin), max(outcome.gap, now - self._last)
        self._last = now

    async def _stream_on(self, session: aiohttp.ClientSession, delay: float) -> None:
        await asyncio.sleep(delay)
        while not self._over.is_set():
            await self._stream(session)
            await asyncio.sleep(0.1)

    async def _stream(self, session: aiohttp.ClientSession) -> None:
        outcome = self.outcome
        outcome.streams += 1
        question = [{"role": "user", "content": f"Count, {outcome.streams}"}]
        body = {"model": MODEL, "messages": question, "max_tokens": self._tokens, "stream": True, "ignore_eos": True}
        text = b""
        try:
            async with session.post("/v1/chat/completions", json=body) as answer:
                async for piece in answer.content.iter_any():
                    text += piece
        except (aiohttp.ClientError, TimeoutError) as error:
            outcome.cut.append(f"{error!r} after {len(text)} bytes")
            return
        if b'"finish_reason":"length"' not in text.replace(b": ", b":") or not text.rstrip().endswith(b"data: [DONE]"):
            outcome.cut.append(f"ended early, after {len(text)} bytes: {text[-200:]!r}")
