"""The targets of the proxy as ratios inside one run, and whether a run met them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.proxy_overhead.measure import MEMORY_STEPS, RequestCell, Results

OURS = "ours"  # as it is deployed: adaptive, which reads every body
COUNTING = "ours/roundrobin"
NGINX = "nginx"
DIRECT = "direct"
CACHE_AWARE = "vllm-router/cache_aware"

CPU_TARGET = 0.5  # of vllm-router's default policy, at 16 connections
CPU_CONNECTIONS = 16
STREAM_TARGET = 2.0  # of nginx's chunk delay
RSS_TARGET = 80.0  # MB after 100,000 requests
FLAT_TARGET = 1.05  # RSS after the third round of the same requests over that after the second, when buffers are full


@dataclass(frozen=True)
class Verdict:
    """One target: met (None: not measured, or for information only), and the sentence that says why."""

    met: bool | None
    text: str


def median(values: Iterable[float]) -> float:
    """Return the median of the values that are numbers, NaN if none is."""
    numbers = [value for value in values if not math.isnan(value)]
    return statistics.median(numbers) if numbers else math.nan


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the median over the passes of numerator / denominator, each taken inside one pass."""
    return median(a / b if b > 0 else math.nan for a, b in zip(numerators, denominators, strict=True))


def added(
    results: Results, peer: str, size: int, connections: int, latency: Callable[[RequestCell], float]
) -> list[float]:
    """Return for each pass how many µs `peer` adds to the latency of `direct` in one cell."""
    cells = results.requests[peer, size, connections]
    direct = results.requests[DIRECT, size, connections]
    return [latency(cell) - latency(base) for cell, base in zip(cells, direct, strict=True)]


def p50(cell: RequestCell) -> float:
    """Return the median latency of a cell in µs."""
    return cell.p50_us


def cpu_ratio(results: Results, peer: str, base: str, size: int, connections: int) -> float:
    """Return `peer`'s CPU per request as a multiple of `base`'s, NaN if one of them was not measured."""
    cells = results.requests.get((peer, size, connections), [])
    bases = results.requests.get((base, size, connections), [])
    if not cells or not bases:
        return math.nan
    return ratio([cell.cpu_us for cell in cells], [cell.cpu_us for cell in bases])


def verdicts(results: Results, sizes: Sequence[int], connections: Sequence[int]) -> list[Verdict]:
    """Judge a run against every target."""
    judged = [_cpu(results, size) for size in sizes]
    routers = sorted({peer for peer, _, _ in results.requests} - {OURS, COUNTING, NGINX, DIRECT})
    for router in routers:
        judged += _latency(results, router, sizes, connections)
    if not routers:
        judged.append(Verdict(None, "added latency: no Rust router is installed"))
    for streams in sorted({number for _, number in results.streams}):
        judged += _streams(results, streams)
    judged += _memory(results.memory)
    failed = sum(
        cell.errors for (peer, *_), cells in results.requests.items() if peer in (OURS, COUNTING) for cell in cells
    )
    failed += sum(
        cell.errors for (peer, _), cells in results.streams.items() if peer in (OURS, COUNTING) for cell in cells
    )
    judged.append(Verdict(failed == 0, f"failed requests through ours: {failed} (target 0)"))
    return judged


def _cpu(results: Results, size: int) -> Verdict:
    value = cpu_ratio(results, OURS, CACHE_AWARE, size, CPU_CONNECTIONS)
    text = f"CPU per request at {size // 1000} kB, {CPU_CONNECTIONS} connections"
    if math.isnan(value):
        return Verdict(None, f"{text}: {CACHE_AWARE} is not installed")
    return Verdict(value <= CPU_TARGET, f"{text}: {value:.2f} of {CACHE_AWARE} (target <= {CPU_TARGET})")


def _latency(results: Results, router: str, sizes: Sequence[int], connections: Sequence[int]) -> list[Verdict]:
    """Our added median must be below the router's on one connection; with more, all wait for the same few cores.

    A router that only counts reads no body, so it is also compared with ours when ours only counts.
    """
    few = min(connections)
    alone, many = [(size, few) for size in sizes], [(size, n) for size in sizes for n in connections if n != few]
    judged = [_faster(results, OURS, router, alone, binding=True), _faster(results, OURS, router, many, binding=False)]
    if router.endswith("/round_robin"):
        judged += [_faster(results, COUNTING, router, cells, binding=False) for cells in (alone, many)]
    return judged


def _faster(results: Results, us: str, router: str, cells: Sequence[tuple[int, int]], binding: bool) -> Verdict:
    """Count the cells in which `us` adds less than `router`; name the one where it comes nearest."""
    compared = []
    for size, connections in cells:
        ours, theirs = (median(added(results, peer, size, connections, p50)) for peer in (us, router))
        compared.append((ours - theirs, f"{size // 1000} kB, c{connections}: {ours:.0f} vs {theirs:.0f} µs"))
    below = sum(difference < 0 for difference, _ in compared)
    text = f"added p50 of {us} below {router} in {below} of {len(cells)} cells; nearest {max(compared)[1]}"
    return Verdict(below == len(cells) if binding else None, text)


def _streams(results: Results, connections: int) -> list[Verdict]:
    ours, nginx = results.streams[OURS, connections], results.streams[NGINX, connections]
    middle = ratio([cell.delay_p50_ms for cell in ours], [cell.delay_p50_ms for cell in nginx])
    tail = ratio([cell.delay_p99_ms for cell in ours], [cell.delay_p99_ms for cell in nginx])
    return [
        Verdict(
            value <= STREAM_TARGET, f"{name} chunk delay, {connections} streams: {value:.2f} of nginx (target <= 2)"
        )
        for name, value in (("p50", middle), ("p99", tail))
    ]


def _memory(memory: Sequence[tuple[int, float]]) -> list[Verdict]:
    if not memory:
        return [Verdict(None, "memory over 100,000 requests: not part of a quick run")]
    requests, rss = memory[MEMORY_STEPS]
    later, end = memory[2 * MEMORY_STEPS], memory[-1]
    growth = end[1] / later[1]
    return [
        Verdict(rss < RSS_TARGET, f"RSS after {requests:,} requests, 10,000 conversations: {rss:.1f} MB (target < 80)"),
        Verdict(growth <= FLAT_TARGET, f"RSS from {later[0]:,} to {end[0]:,} requests: x{growth:.3f} (target <= 1.05)"),
    ]
