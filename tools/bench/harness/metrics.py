"""Reads engines' own metrics: KV use and queues while a run goes on, acceptance of drafts before and after it."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

_LINE = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})? (\S+)", re.MULTILINE)
KV_USE, RUNNING, WAITING = "vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting"
DRAFTED, ACCEPTED = "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"


@dataclass(frozen=True)
class Sample:
    """One engine at one time: seconds since the run began, share of the KV pool in use, requests."""

    engine: str
    at: float
    kv_use: float
    running: float
    waiting: float


def parse(text: str) -> dict[str, float]:
    """Return the sum over all labels of every vLLM series in a metrics page (buckets included, under their names)."""
    sums: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        sums[name] = sums.get(name, 0.0) + float(value)
    return sums


async def scrape(session: aiohttp.ClientSession, engine: str) -> dict[str, float]:
    """Return an engine's series, or nothing if it does not answer."""
    try:
        async with session.get(f"{engine}/metrics", timeout=aiohttp.ClientTimeout(total=5)) as response:
            return parse(await response.text())
    except (aiohttp.ClientError, TimeoutError):
        return {}


async def watch(engines: Sequence[str], interval: float, samples: list[Sample]) -> None:
    """Add a sample of each engine to `samples` every `interval` seconds until cancelled; a dead engine has a gap."""
    began = time.monotonic()
    async with aiohttp.ClientSession() as session:
        while True:
            pages = await asyncio.gather(*(scrape(session, engine) for engine in engines))
            at = time.monotonic() - began
            for engine, page in zip(engines, pages, strict=True):
                if KV_USE in page:
                    samples.append(Sample(engine, at, page[KV_USE], page.get(RUNNING, 0.0), page.get(WAITING, 0.0)))
            await asyncio.sleep(interval)


async def totals(engines: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """Return the sum over the engines of each named series (0 where it is missing)."""
    async with aiohttp.ClientSession() as session:
        pages = [await scrape(session, engine) for engine in engines]
    return {name: sum(page.get(name, 0.0) for page in pages) for name in names}
