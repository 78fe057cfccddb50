"""fleet_status_info: right numbers from a real engine's metrics, and a row that says so where something is down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import status
from ansible_collections.frank.fleet.plugins.module_utils.exposition import parse, quantile, total
from unit.collection.fakehost import FakeHost
from unit.collection.proxying import Admin
from unit.collection.serving import Engine, serving

SCRAPE = (Path(__file__).parents[1] / "simulator/fixtures/metrics-full.txt").read_text()
PROXY = """\
routing_proxy_requests_total{replica="a",endpoint="chat",code="200",decision="pinned"} 30.0
routing_proxy_requests_total{replica="b",endpoint="chat",code="200",decision="pinned"} 12.0
routing_proxy_requests_total{replica="b",endpoint="chat",code="200",decision="spread"} 5.0
routing_proxy_failovers_total{replica="a",reason="connect"} 2.0
routing_proxy_time_to_first_byte_seconds_bucket{replica="a",le="0.5"} 40.0
routing_proxy_time_to_first_byte_seconds_bucket{replica="a",le="2.0"} 45.0
routing_proxy_time_to_first_byte_seconds_bucket{replica="a",le="+Inf"} 47.0
"""
FAILOVER = "proxy: failover — a unreachable (Connection refused), retrying on b"


@pytest.fixture
def admin() -> Iterator[Admin]:
    """A proxy's admin port that knows one replica."""
    admin = Admin(a="up")
    admin.replicas["a"].update(since=time.time() - 7300, pins=12)
    with serving(admin.server):
        yield admin


def look(host: FakeHost, engine: Engine, admin: Admin, **changes: Any) -> list[str]:
    port = engine.server.server_port
    plan = {"engines": [{"name": "a", "port": port}], "proxy": {"name": "p", "port": port}, **changes}
    result = host.ok("fleet_status_info", plan=plan, admin_port=admin.server.server_port, sample=0)
    lines: list[str] = result["lines"]
    return lines


def test_one_screen(host: FakeHost, engine: Engine, admin: Admin) -> None:
    engine.answers["/metrics"] = (200, SCRAPE + PROXY)
    host.set(logs=f"proxy: serving a\n{FAILOVER.replace('refused', 'reset')}\n{FAILOVER}\nproxy: a is up\n")
    row, *proxy, alerts = look(host, engine, admin)
    assert row.startswith("a                     up for 2 h; running 0, waiting 0, pool 0 %, prefix reuse ")
    assert row.endswith("(just now -), pins 12")
    assert proxy[0].endswith("requests: pinned 42, spread 5")
    assert proxy[1].endswith("first byte within 0.5 s for half, 2 s for 95 %")
    assert proxy[2].endswith(f"failovers 2, last: {FAILOVER}") and "not asked" in alerts


def test_reuse_is_hits_over_queries(host: FakeHost, engine: Engine, admin: Admin) -> None:
    for old in ("", "gpu_"):
        engine.answers["/metrics"] = (
            200, f"vllm:{old}prefix_cache_hits_total 30\nvllm:{old}prefix_cache_queries_total 40\n",
        )  # fmt: skip
        assert "prefix reuse 75 %" in look(host, engine, admin)[0]


def test_what_is_down_hides_nothing_else(host: FakeHost, engine: Engine, admin: Admin) -> None:
    engine.answers["/metrics"] = (503, "")
    admin.replicas["a"].update(state="down", reason="Connection refused")
    row, proxy, _ = look(host, engine, admin)
    assert "down for 2 h (Connection refused)" in row and "does not answer" in row and "does not answer" in proxy


def test_without_a_proxy(host: FakeHost, engine: Engine, admin: Admin) -> None:
    engine.answers["/metrics"] = (200, SCRAPE)
    admin.replicas.clear()
    [row, _] = look(host, engine, admin, proxy=None)
    assert "not known to a proxy" in row and "pool 0 %" in row


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"data": {"alerts": []}}, "none fires"),
        (
            {"data": {"alerts": [
                {"state": "firing", "labels": {"alertname": "FleetReplicaDown", "replica": "a", "fleet": "f"}},
                {"state": "pending", "labels": {"alertname": "X", "fleet": "f"}},
                {"state": "firing", "labels": {"alertname": "TheirOwn"}}]}},
            "FleetReplicaDown a",
        ),
        ({"data": None}, "does not answer as expected"),
    ],
)  # fmt: skip
def test_alerts(engine: Engine, answer: Any, words: str) -> None:
    engine.answers["/api/v1/alerts"] = (200, answer)
    [row] = status.alert_rows(engine.url)
    assert row.partition("alerts")[2].strip().endswith(words)


def test_samples_are_read_as_prometheus_writes_them() -> None:
    samples = parse('# HELP x y\nx{a="1\\"}",b="2"} 3 1790000000\nx{a="2",b="2"} 4e0\nnonsense\ny NaN\n')
    assert total(samples, "x") == 7 and total(samples, "x", a="2") == 4 and total(samples, "z", "x", b="2") == 7
    assert total(samples, "none") is None and quantile(samples, "x", 0.5) is None
