"""The metrics of /metrics. Every label has a bounded set of values.

Counting is plain arithmetic on the way of a request, several times cheaper than prometheus_client's locked values (the
proxy has one thread); prometheus_client shapes and renders it at scrape time.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
# From a warm cache hit on the wire (about 50 ms) to a 20-minute silent prefill.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
_LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Histogram:
    """How often a duration fell into each bucket."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._total += seconds

    def add_to(self, family: HistogramMetricFamily, labels: list[str]) -> None:
        """Render as a series of `family`."""
        below, buckets = 0, []
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            below += count
            buckets.append((str(bound), below))
        family.add_metric(labels, buckets, self._total)


class Times:
    """What the answered requests of one endpoint at one replica took."""

    __slots__ = ("first_byte", "first_token", "total")

    def __init__(self) -> None:
        self.first_byte = Histogram(_SECONDS)
        self.first_token = Histogram(_SECONDS)
        self.total = Histogram(_SECONDS)


class Metrics(Collector):
    """Everything that is counted; `gauges` tells of each replica its name, requests in flight, up or not, and pins."""

    def __init__(self, gauges: Callable[[], list[tuple[str, int, bool, int]]] = list) -> None:
        self.gauges = gauges
        self._requests: Counter[tuple[str, str, int, str]] = Counter()
        self._times: dict[tuple[str, str], Times] = {}
        self._failovers: Counter[tuple[str, str]] = Counter()
        self._cut: Counter[str] = Counter()
        self.loop_lag = Histogram(_LAG_SECONDS)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def count(self, replica: str, endpoint: str, code: int, decision: str) -> None:
        """Count a request that is over."""
        self._requests[replica, endpoint, code, decision] += 1

    def timed(self, replica: str, endpoint: str, first_byte: float, first_token: float | None, total: float) -> None:
        """Take the seconds an answered request took; `first_token` is None when it was not an event stream."""
        times = self._times.get((replica, endpoint))
        if times is None:
            times = self._times[replica, endpoint] = Times()
        times.first_byte.observe(first_byte)
        if first_token is not None:
            times.first_token.observe(first_token)
        times.total.observe(total)

    def failed_over(self, replica: str, reason: str) -> None:
        """Count a replica that could not take a request."""
        self._failovers[replica, reason] += 1

    def cut(self, replica: str) -> None:
        """Count an answer that was broken off."""
        self._cut[replica] += 1

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics in prometheus_client's shapes."""
        yield from (*self._counters(), *self._durations(), *self._gauges())

    def _counters(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "routing_proxy_requests",
            "Requests by outcome; no replica got those of replica none, code 499: the client left.",
            labels=["replica", "endpoint", "code", "decision"],
        )
        for (replica, endpoint, code, decision), number in self._requests.items():
            requests.add_metric([replica, endpoint, str(code), decision], number)
        failovers = CounterMetricFamily(
            "routing_proxy_failovers",
            "Requests a replica could not take, by reason: connect, died, busy or stopping.",
            labels=["replica", "reason"],
        )
        for labels, number in self._failovers.items():
            failovers.add_metric(labels, number)
        cut = CounterMetricFamily(
            "routing_proxy_answers_cut",
            "Answers broken off after their first byte had reached the client.",
            labels=["replica"],
        )
        for replica, number in self._cut.items():
            cut.add_metric([replica], number)
        return requests, failovers, cut

    def _durations(self) -> Iterable[Metric]:
        labels = ["replica", "endpoint"]
        first_byte = HistogramMetricFamily(
            "routing_proxy_time_to_first_byte_seconds",
            "From the whole request to the first byte of its answer.",
            labels=labels,
        )
        first_token = HistogramMetricFamily(
            "routing_proxy_time_to_first_token_seconds",
            "From the whole request to the first data line of the stream.",
            labels=labels,
        )
        total = HistogramMetricFamily(
            "routing_proxy_request_seconds", "From the whole request to the end of its answer.", labels=labels
        )
        for key, times in self._times.items():
            times.first_byte.add_to(first_byte, list(key))
            times.first_token.add_to(first_token, list(key))
            times.total.add_to(total, list(key))
        lag = HistogramMetricFamily(
            "routing_proxy_event_loop_lag_seconds",
            "How late the event loop runs a timer: time that every request waited.",
            labels=[],
        )
        self.loop_lag.add_to(lag, [])
        return first_byte, first_token, total, lag

    def _gauges(self) -> Iterable[Metric]:
        label = ["replica"]
        in_flight = GaugeMetricFamily("routing_proxy_in_flight", "Requests a replica is working on.", labels=label)
        up = GaugeMetricFamily("routing_proxy_replica_up", "1 while a replica gets new requests, 0 else.", labels=label)
        conversations = GaugeMetricFamily(
            "routing_proxy_conversations", "Conversations on record at a replica.", labels=label
        )
        for name, busy, is_up, pins in self.gauges():
            in_flight.add_metric([name], busy)
            up.add_metric([name], is_up)
            conversations.add_metric([name], pins)
        return in_flight, up, conversations
