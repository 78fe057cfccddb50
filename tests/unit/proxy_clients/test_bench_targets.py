"""The verdicts of the overhead bench: ratios inside a pass, a miss is a miss, what was not measured is not met."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.proxy_overhead.measure import MEMORY_STEPS, RequestCell, Results, StreamCell, percentile
from bench.proxy_overhead.targets import CACHE_AWARE, DIRECT, NGINX, OURS, ratio, verdicts

SIZES, CONNECTIONS = (1_000,), (1, 16)
CELL = RequestCell(requests_per_second=1000.0, p50_us=100.0, p99_us=200.0, cpu_us=10.0, errors=0)
STREAM = StreamCell(1.0, 2.0, 0.1, 0.2, 5.0, 0)


def run() -> Results:
    """A run of one pass in which every target is met with room to spare."""
    results = Results()
    for peer, p50, cpu in ((DIRECT, 100, 5), (NGINX, 120, 10), (OURS, 150, 40), (CACHE_AWARE, 400, 100)):
        for connections in CONNECTIONS:
            results.requests[peer, SIZES[0], connections] = [replace(CELL, p50_us=p50, cpu_us=cpu)]
        results.streams[peer, 16] = [STREAM]
    results.memory = [(0, 34.0), *((step * 10_000, 50.0) for step in range(1, 3 * MEMORY_STEPS + 1))]
    return results


def missed(results: Results) -> list[str]:
    return [verdict.text for verdict in verdicts(results, SIZES, CONNECTIONS) if verdict.met is False]


def test_a_good_run_misses_nothing() -> None:
    assert missed(run()) == []


@pytest.mark.parametrize(
    ("peer", "change", "words"),
    [
        (OURS, {"cpu_us": 51.0}, "CPU per request"),
        (OURS, {"p50_us": 401.0}, "added p50"),
        (OURS, {"errors": 1}, "failed requests"),
    ],
)
def test_requests_that_miss(peer: str, change: dict[str, float], words: str) -> None:
    results = run()
    for connections in CONNECTIONS:
        results.requests[peer, SIZES[0], connections][0] = replace(
            results.requests[peer, SIZES[0], connections][0], **change
        )
    (text,) = missed(results)
    assert text.startswith(words)


@pytest.mark.parametrize(("change", "words"), [({"delay_p50_ms": 0.21}, "p50"), ({"delay_p99_ms": 0.41}, "p99")])
def test_streams_that_miss(change: dict[str, float], words: str) -> None:
    results = run()
    results.streams[OURS, 16] = [replace(STREAM, **change)]
    (text,) = missed(results)
    assert text.startswith(f"{words} chunk delay")


def test_memory_that_is_large_or_grows() -> None:
    large, growing = run(), run()
    large.memory = [(count, rss + 31) for count, rss in large.memory]
    growing.memory[-1] = (300_000, 53.0)
    assert [text.split(":")[0] for text in missed(large)] == ["RSS after 100,000 requests, 10,000 conversations"]
    assert [text.split(":")[0] for text in missed(growing)] == ["RSS from 200,000 to 300,000 requests"]


def test_without_the_routers_nothing_is_claimed() -> None:
    results = run()
    results.requests = {key: cells for key, cells in results.requests.items() if key[0] != CACHE_AWARE}
    texts = [verdict.text for verdict in verdicts(results, SIZES, CONNECTIONS) if verdict.met is None]
    assert texts == [
        "CPU per request at 1 kB, 16 connections: vllm-router/cache_aware is not installed",
        "added latency: no Rust router is installed",
    ]


def test_ratios_are_of_one_pass_then_the_median() -> None:
    assert ratio([10, 40, 30], [10, 10, 10]) == 3
    assert ratio([10, 100], [10, 100]) == 1  # a slow pass is slow for both


def test_percentiles() -> None:
    hundred = [float(number) for number in range(100)]
    assert (percentile(hundred, 50), percentile(hundred, 99)) == (50, 99)
