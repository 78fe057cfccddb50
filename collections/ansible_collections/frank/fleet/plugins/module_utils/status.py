"""One screen about a host's part of the fleet; each row stands for itself when something is down."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable

from ansible_collections.frank.fleet.plugins.module_utils.exposition import Samples, parse, quantile, total
from ansible_collections.frank.fleet.plugins.module_utils.http import OPENER
from ansible_collections.frank.fleet.plugins.module_utils.proxy_admin import ProxyAbsentError, ProxyAdmin

TIMEOUT_SECONDS = 5
POOL = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
FAILOVER = re.compile(r"^proxy: failover — .*$", re.MULTILINE)


def get(url: str) -> str | None:
    """Body of an answer with status 200, None for anything else."""
    try:
        with OPENER.open(url, timeout=TIMEOUT_SECONDS) as response:
            return bytes(response.read()).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def metrics(port: int) -> Samples:
    """Samples of the process on a port, none if it does not answer."""
    return parse(get(f"http://127.0.0.1:{port}/metrics") or "")


def engine_rows(engines: list[dict], admin: str, pause: Callable[[], None]) -> list[str]:
    """A row for each engine: state, requests, pool, and reuse of prefixes over its life and over the pause."""
    try:
        known = ProxyAdmin(admin).replicas()
    except ProxyAbsentError:
        known = {}
    before = {engine["name"]: metrics(engine["port"]) for engine in engines}
    pause()
    rows = []
    for engine in engines:
        name, now = engine["name"], metrics(engine["port"])
        replica = known.get(name)
        state = f"{replica['state']} for {_span(time.time() - replica['since'])}" if replica else "not known to a proxy"
        if replica and replica["reason"]:
            state += f" ({replica['reason']})"
        if not now:
            rows.append(f"{name:20}  {state}; :{engine['port']} does not answer")
            continue
        rows.append(
            f"{name:20}  {state}; running {_number(total(now, 'vllm:num_requests_running'))}, "
            f"waiting {_number(total(now, 'vllm:num_requests_waiting'))}, pool {_share(total(now, *POOL))}, "
            f"prefix reuse {_share(_reuse([], now))} (just now {_share(_reuse(before[name], now))})"
            + (f", pins {replica['pins']}" if replica else "")
        )
    return rows


def proxy_rows(proxy: dict, log: str) -> list[str]:
    """What the proxy counted since its start, and the last failover in its log."""
    now = metrics(proxy["port"])
    if not now:
        return [f"{proxy['name']:20}  :{proxy['port']} does not answer"]
    decisions: dict[str, float] = {}
    for name, labels, value in now:
        if name == "routing_proxy_requests_total":
            decision = labels.get("decision") or "none"
            decisions[decision] = decisions.get(decision, 0) + value
    counted = ", ".join(f"{decision} {value:.0f}" for decision, value in sorted(decisions.items())) or "none"
    first = [quantile(now, "routing_proxy_time_to_first_byte_seconds", share) for share in (0.5, 0.95)]
    failovers = FAILOVER.findall(log)
    return [
        f"{proxy['name']:20}  requests: {counted}",
        f"{'':20}  first byte within {_seconds(first[0])} for half, {_seconds(first[1])} for 95 %",
        f"{'':20}  failovers {_number(total(now, 'routing_proxy_failovers_total') or 0)}"
        + (f", last: {failovers[-1]}" if failovers else ""),
    ]


def alert_rows(url: str) -> list[str]:
    """The alerts that Prometheus has firing."""
    if not url:
        return ["alerts                not asked: set monitoring_prometheus_url to a Prometheus that watches this host"]
    try:
        alerts = json.loads(get(f"{url.rstrip('/')}/api/v1/alerts") or "")["data"]["alerts"]
        firing = [alert["labels"] for alert in alerts if alert["state"] == "firing" and "fleet" in alert["labels"]]
    except (ValueError, KeyError, TypeError):
        return [f"alerts                {url} does not answer as expected"]
    named = [f"{labels['alertname']} {labels.get('replica', '')}".strip() for labels in firing]
    return [f"alerts                {', '.join(named) or 'none fires'}"]


def _reuse(before: Samples, now: Samples) -> float | None:
    hits, queries = ((total(now, *names) or 0) - (total(before, *names) or 0) for names in (HITS, QUERIES))
    return hits / queries if queries > 0 else None


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else "more than the largest bucket" if math.isinf(value) else f"{value:g} s"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
