"""The plan of a run and its loops: all peers are measured in one cell before the next, so ratios are of one moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.proxy_overhead import bodies
from bench.proxy_overhead.peers import Peer
from bench.proxy_overhead.streams import Streams, run_streams
from bench.proxy_overhead.wrk import run_wrk

POOL_CONVERSATIONS = {1_000: 256, 20_000: 64, 400_000: 12}
MEMORY_CONVERSATIONS = 10_000
MEMORY_TURNS = 10
MEMORY_STEPS = 10
MEMORY_ROUNDS = 3
MEMORY_CONNECTIONS = 16


@dataclass(frozen=True)
class Plan:
    """What is measured: body sizes in bytes, connections, seconds a cell, passes over everything."""

    sizes: Sequence[int] = (1_000, 20_000, 400_000)
    connections: Sequence[int] = (1, 16, 64)
    stream_connections: Sequence[int] = (16, 64)
    stream_rounds: int = 2
    seconds: int = 2
    passes: int = 3

    def expected_seconds(self, peers: int) -> float:
        """Return how long `peers` rows take, about."""
        cells = len(self.sizes) * len(self.connections) * (self.seconds + 1.4)
        streams = len(self.stream_connections) * (self.stream_rounds * 1.1 + 0.2)
        return self.passes * peers * (cells + streams) + 30


@dataclass(frozen=True)
class RequestCell:
    """One peer under one size and number of connections: latency in µs, CPU µs per request of its process tree."""

    requests_per_second: float
    p50_us: float
    p99_us: float
    cpu_us: float
    errors: int


@dataclass(frozen=True)
class StreamCell:
    """One peer under paced streams: ms to the first chunk, ms of one-way delay per chunk, CPU µs per chunk."""

    first_p50_ms: float
    first_p99_ms: float
    delay_p50_ms: float
    delay_p99_ms: float
    cpu_us: float
    errors: int


@dataclass
class Results:
    """All cells, one entry a pass; keys are (peer, size, connections) and (peer, connections). RSS in MB."""

    requests: dict[tuple[str, int, int], list[RequestCell]] = field(default_factory=dict)
    streams: dict[tuple[str, int], list[StreamCell]] = field(default_factory=dict)
    rss_idle: dict[str, float] = field(default_factory=dict)
    rss_end: dict[str, float] = field(default_factory=dict)
    memory: list[tuple[int, float]] = field(default_factory=list)  # requests so far, RSS of ours


def progress(text: str) -> None:
    """Say on stderr what is being measured."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def write_pools(plan: Plan, scratch: Path) -> dict[int, Path]:
    """Write one pool of bodies for each size; return their paths."""
    pools = {size: scratch / f"bodies-{size}" for size in plan.sizes}
    for size, path in pools.items():
        bodies.write_pool(path, size, bodies.MESSAGES_BY_SIZE[size], range(POOL_CONVERSATIONS[size]))
    return pools


def measure(plan: Plan, wrk: str, peers: Sequence[Peer], pools: dict[int, Path]) -> Results:
    """Measure every peer in every cell, `plan.passes` times over."""
    results = Results()
    for peer in peers:
        results.rss_idle[peer.name] = peer.child.rss_mb()
    for number in range(plan.passes):
        for size in plan.sizes:
            for connections in plan.connections:
                progress(f"pass {number + 1}/{plan.passes}: {size // 1000} kB, {connections} connections")
                for peer in peers:
                    cell = _request_cell(wrk, peer, pools[size], connections, plan.seconds)
                    results.requests.setdefault((peer.name, size, connections), []).append(cell)
        for connections in plan.stream_connections:
            progress(f"pass {number + 1}/{plan.passes}: {connections} paced streams")
            for peer in peers:
                cell_of_streams = _stream_cell(peer, connections, plan.stream_rounds)
                results.streams.setdefault((peer.name, connections), []).append(cell_of_streams)
    for peer in peers:
        results.rss_end[peer.name] = peer.child.rss_mb()
    return results


def measure_memory(wrk: str, peer: Peer, scratch: Path) -> list[tuple[int, float]]:
    """Send `peer` the 100,000 requests of 10,000 conversations, MEMORY_ROUNDS times over.

    Returns (requests so far, RSS in MB) at the start and after each MEMORY_STEPS-th of a round.
    """
    per_step = MEMORY_CONVERSATIONS // MEMORY_STEPS
    progress(f"memory of {peer.name}: {MEMORY_ROUNDS} x {MEMORY_CONVERSATIONS:,} conversations, about 40 s")
    seen = [(0, peer.child.rss_mb())]
    pool = scratch / "bodies-memory"
    for step in [*range(MEMORY_STEPS)] * MEMORY_ROUNDS:
        bodies.write_pool(pool, 1_500, 2 * MEMORY_TURNS, range(step * per_step, (step + 1) * per_step), MEMORY_TURNS)
        load = run_wrk(wrk, peer.port, pool, MEMORY_CONNECTIONS, 60, limit=per_step * MEMORY_TURNS)
        seen.append((seen[-1][0] + load.requests, peer.child.rss_mb()))
    return seen


def _request_cell(wrk: str, peer: Peer, pool: Path, connections: int, seconds: int) -> RequestCell:
    run_wrk(wrk, peer.port, pool, connections, 1)  # opens upstream connections, fills caches, wakes the CPU
    before = peer.child.cpu_seconds()
    load = run_wrk(wrk, peer.port, pool, connections, seconds)
    cpu = peer.child.cpu_seconds() - before
    done = max(1, load.requests)
    return RequestCell(load.requests / load.seconds, load.p50_us, load.p99_us, cpu / done * 1e6, load.errors)


def _stream_cell(peer: Peer, connections: int, rounds: int) -> StreamCell:
    before = peer.child.cpu_seconds()
    seen = run_streams(peer.port, connections, rounds)
    cpu = peer.child.cpu_seconds() - before
    return stream_cell(seen, cpu)


def stream_cell(seen: Streams, cpu_seconds: float) -> StreamCell:
    """Reduce what the streams of one cell saw to percentiles; NaN where nothing arrived."""
    first, delay = sorted(seen.first), sorted(seen.delay)
    return StreamCell(
        percentile(first, 50),
        percentile(first, 99),
        percentile(delay, 50),
        percentile(delay, 99),
        cpu_seconds / max(1, len(delay)) * 1e6,
        seen.errors,
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of an ascending sequence, NaN of an empty one."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")
