"""The metrics of /metrics. Every label has a bounded set of values."""

from collections.abc import Callable

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
# From a warm cache hit on the wire (about 50 ms) to a 20-minute silent prefill.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200)
_LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class FleetView(Collector):
    """Gauges that are read from the fleet at scrape time: (replica, in flight, up, conversations) for each replica."""

    def __init__(self, read: Callable[[], list[tuple[str, int, bool, int]]]) -> None:
        self._read = read

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the gauges."""
        in_flight = GaugeMetricFamily(
            "routing_proxy_in_flight", "Requests a replica is working on.", labels=["replica"]
        )
        up = GaugeMetricFamily(
            "routing_proxy_replica_up", "1 while a replica gets new requests, 0 else.", labels=["replica"]
        )
        conversations = GaugeMetricFamily(
            "routing_proxy_conversations", "Conversations on record at a replica.", labels=["replica"]
        )
        for name, busy, is_up, pins in self._read():
            in_flight.add_metric([name], busy)
            up.add_metric([name], is_up)
            conversations.add_metric([name], pins)
        return [in_flight, up, conversations]


class Metrics:
    """What is counted while requests pass."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._requests = Counter(
            "routing_proxy_requests_total",
            "Requests by outcome; no replica got those of replica none, code 499: the client left.",
            ["replica", "endpoint", "code", "decision"],
            registry=registry,
        )
        self._failovers = Counter(
            "routing_proxy_failovers_total",
            "Requests a replica could not take, by reason: connect, died, busy or stopping.",
            ["replica", "reason"],
            registry=registry,
        )
        self._cut = Counter(
            "routing_proxy_answers_cut_total",
            "Answers broken off after their first byte had reached the client.",
            ["replica"],
            registry=registry,
        )
        self._first_byte = self._histogram(
            "routing_proxy_time_to_first_byte_seconds", "From the whole request to the first byte of its answer."
        )
        self._first_token = self._histogram(
            "routing_proxy_time_to_first_token_seconds",
            "From the whole request to the first data line of the stream.",
        )
        self._duration = self._histogram(
            "routing_proxy_request_seconds", "From the whole request to the end of its answer."
        )
        self.loop_lag = Histogram(
            "routing_proxy_event_loop_lag_seconds",
            "How late the event loop runs a timer: time that every request waited.",
            buckets=_LAG_SECONDS,
            registry=registry,
        )
        ProcessCollector(registry=registry)
        self._counters: dict[tuple[str, str, int, str], Counter] = {}
        self._times: dict[tuple[str, str], tuple[Histogram, Histogram, Histogram]] = {}

    def _histogram(self, name: str, help_text: str) -> Histogram:
        return Histogram(name, help_text, ["replica", "endpoint"], buckets=_SECONDS, registry=self.registry)

    def count(self, replica: str, endpoint: str, code: int, decision: str) -> None:
        """Count a request that is over."""
        key = (replica, endpoint, code, decision)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(replica, endpoint, str(code), decision)
        counter.inc()

    def timed(self, replica: str, endpoint: str, first_byte: float, first_token: float | None, total: float) -> None:
        """Take the seconds an answered request took; `first_token` is None when it was not an event stream."""
        times = self._times.get((replica, endpoint))
        if times is None:
            times = self._times[replica, endpoint] = (
                self._first_byte.labels(replica, endpoint),
                self._first_token.labels(replica, endpoint),
                self._duration.labels(replica, endpoint),
            )
        times[0].observe(first_byte)
        if first_token is not None:
            times[1].observe(first_token)
        times[2].observe(total)

    def failed_over(self, replica: str, reason: str) -> None:
        """Count a replica that could not take a request."""
        self._failovers.labels(replica, reason).inc()

    def cut(self, replica: str) -> None:
        """Count an answer that was broken off."""
        self._cut.labels(replica).inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)
