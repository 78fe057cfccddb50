"""The http_* metrics that vLLM's API server shows beside the engine's."""

import time

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

_FINE = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)  # fmt: skip
_COARSE = (0.1, 0.5, 1)
_UNCOUNTED = {"/metrics", "/health", "/load", "/ping", "/version"}


class WebMetrics:
    """Counts requests by route, method and status class.

    Args:
        registry: where the metrics are shown.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "http_requests", "Requests by route.", ["method", "status", "handler"], registry=registry
        )
        self._received = Summary("http_request_size_bytes", "Request bodies.", ["handler"], registry=registry)
        self._sent = Summary("http_response_size_bytes", "Response bodies.", ["handler"], registry=registry)
        self._fine = Histogram(
            "http_request_duration_highr_seconds", "Latency, finely.", buckets=_FINE, registry=registry
        )
        self._coarse = Histogram(
            "http_request_duration_seconds",
            "Latency by route.",
            ["method", "handler"],
            buckets=_COARSE,
            registry=registry,
        )

    def record(self, request: web.Request, response: web.StreamResponse, started: float) -> None:
        """Count one answered request; `started` is of the monotonic clock."""
        resource = request.match_info.route.resource
        handler = resource.canonical if resource else "none"
        if handler in _UNCOUNTED:
            return
        seconds = time.monotonic() - started
        self._requests.labels(request.method, f"{response.status // 100}xx", handler).inc()
        self._received.labels(handler).observe(request.content_length or 0)
        self._sent.labels(handler).observe(response.content_length or 0)
        self._fine.observe(seconds)
        self._coarse.labels(request.method, handler).observe(seconds)
