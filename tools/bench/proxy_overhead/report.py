"""Print a run as Markdown tables, ratios and verdicts; or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from bench.proxy_overhead.measure import Plan, RequestCell, Results
from bench.proxy_overhead.targets import CACHE_AWARE, DIRECT, NGINX, Verdict, added, cpu_ratio, median, p50, ratio


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are padded to their widest cell."""
    lines = [list(columns), *map(list, rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]

    def line_of(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(cells_of(cells))
        ]
        return "| " + " | ".join(padded) + " |"

    def cells_of(cells: Sequence[str]) -> list[tuple[str, int]]:
        return list(zip(cells, widths, strict=True))

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([f"### {title}", "", line_of(lines[0]), rule, *map(line_of, lines[1:]), ""])


def request_table(title: str, plan: Plan, peers: Sequence[str], text: Callable[[str, int, int], str]) -> str:
    """Return a table of one row a peer and one column a cell of size and connections, filled by `text`."""
    cells = [(size, connections) for size in plan.sizes for connections in plan.connections]
    columns = ["peer", *(f"{size // 1000}k c{connections}" for size, connections in cells)]
    return table(title, columns, [[peer, *(text(peer, *cell) for cell in cells)] for peer in peers])


def tables(results: Results, plan: Plan, peers: Sequence[str]) -> str:
    """Return all tables of a run; every value is the median over the passes."""

    def requests(peer: str, size: int, connections: int) -> str:
        cells = results.requests[peer, size, connections]
        failed = sum(cell.errors for cell in cells)
        return f"{median(cell.requests_per_second for cell in cells):,.0f}" + (f" ({failed} failed)" if failed else "")

    def cpu(peer: str, size: int, connections: int) -> str:
        return f"{median(cell.cpu_us for cell in results.requests[peer, size, connections]):,.0f}"

    def latency(peer: str, size: int, connections: int) -> str:
        both = (median(added(results, peer, size, connections, percentile)) for percentile in (p50, _p99))
        return "/".join(f"{value:,.0f}" for value in both)

    others = [peer for peer in peers if peer != DIRECT]
    return "\n".join(
        [
            request_table("requests/s", plan, peers, requests),
            request_table("CPU µs per request of the peer's process tree (direct: of the engine)", plan, peers, cpu),
            request_table("added latency p50/p99, µs over direct", plan, others, latency),
            _stream_table(results, plan, peers),
            _ratio_table(results, plan, others),
            table("RSS, MB", ["peer", "idle", "end"], [_memory_row(results, peer) for peer in peers]),
        ]
    )


def _p99(cell: RequestCell) -> float:
    return cell.p99_us


def _memory_row(results: Results, peer: str) -> list[str]:
    return [peer, f"{results.rss_idle[peer]:.1f}", f"{results.rss_end[peer]:.1f}"]


def _stream_table(results: Results, plan: Plan, peers: Sequence[str]) -> str:
    columns = ["peer"]
    for connections in plan.stream_connections:
        columns += [
            f"c{connections} first p50/p99",
            f"c{connections} delay p50/p99",
            f"c{connections} CPU µs/chunk",
            "failed",
        ]
    rows = []
    for peer in peers:
        row = [peer]
        for connections in plan.stream_connections:
            cells = results.streams[peer, connections]
            first = [median(cell.first_p50_ms for cell in cells), median(cell.first_p99_ms for cell in cells)]
            delay = [median(cell.delay_p50_ms for cell in cells), median(cell.delay_p99_ms for cell in cells)]
            row += [f"{first[0]:.2f}/{first[1]:.2f}", f"{delay[0]:.3f}/{delay[1]:.3f}"]
            row += [f"{median(cell.cpu_us for cell in cells):.1f}", str(sum(cell.errors for cell in cells))]
        rows.append(row)
    return table("paced streams of 100 chunks, ms (delay: from the engine's write to the client's read)", columns, rows)


def _ratio_table(results: Results, plan: Plan, peers: Sequence[str]) -> str:
    """Ratios inside each pass: CPU at 16 connections, added median latency at the fewest connections."""
    few = min(plan.connections)
    columns = ["peer"]
    for size in plan.sizes:
        kilobytes = f"{size // 1000}k"
        columns += [f"{kilobytes} CPU/nginx", f"{kilobytes} CPU/cache_aware", f"{kilobytes} p50/nginx"]
    rows = []
    for peer in peers:
        row = [peer]
        for size in plan.sizes:
            latency = ratio(added(results, peer, size, few, p50), added(results, NGINX, size, few, p50))
            values = [
                cpu_ratio(results, peer, NGINX, size, 16),
                cpu_ratio(results, peer, CACHE_AWARE, size, 16),
                latency,
            ]
            row += ["-" if value != value else f"{value:.2f}" for value in values]
        rows.append(row)
    return table(f"ratios in the same pass (CPU at 16 connections; added p50 at {few})", columns, rows)


def verdict_lines(judged: Sequence[Verdict]) -> str:
    """Return one line a target: MET, MISSED, or - where nothing was measured or nothing is demanded."""
    words = {True: "MET   ", False: "MISSED", None: "-     "}
    return "\n".join(f"{words[verdict.met]} {verdict.text}" for verdict in judged)


def as_json(results: Results, plan: Plan, versions: dict[str, str], judged: Sequence[Verdict]) -> str:
    """Return the whole run: plan, versions, every cell of every pass, memory and verdicts."""
    return json.dumps(
        {
            "plan": asdict(plan),
            "versions": versions,
            "requests": [
                {"peer": peer, "bytes": size, "connections": connections, "passes": [asdict(cell) for cell in cells]}
                for (peer, size, connections), cells in results.requests.items()
            ],
            "streams": [
                {"peer": peer, "connections": connections, "passes": [asdict(cell) for cell in cells]}
                for (peer, connections), cells in results.streams.items()
            ],
            "rss_mb": {peer: [results.rss_idle[peer], results.rss_end[peer]] for peer in results.rss_idle},
            "memory": results.memory,
            "verdicts": [asdict(verdict) for verdict in judged],
        },
        indent=1,
    )
