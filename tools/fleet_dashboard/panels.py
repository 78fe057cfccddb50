"""What the dashboard shows. Thresholds are those of the alerts, with the measurements in docs/observability.md."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .queries import ENGINE, FLEET, fill, firing, gauge, happened, or_zero, proxied, quantile, rate, reuse

POOL_FULL = 0.9
LATENCY_SECONDS = 60.0
REUSE_LOW = 0.2
GREEN, ORANGE, RED, OK = "green", "orange", "red", ((None, "green"),)


@dataclass(frozen=True)
class Query:
    """One query; `legend` may name labels as {{replica}}."""

    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        unit: Grafana's name of it.
        steps: (lowest value, colour), rising; None is minus infinity.
        at_rest: what it says without data.
        highest: top of the axis; None to follow the data.
        line: a line over time shows its second step as a dashed line.
    """

    title: str
    description: str
    queries: Sequence[Query]
    unit: str
    steps: Sequence[tuple[float | None, str]] = OK
    kind: Literal["stat", "timeseries", "state-timeline"] = "timeseries"
    at_rest: str = "no data: is the fleet scraped?"
    highest: float | None = None
    stacked: bool = False
    words: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """Panels side by side under a heading, `height` in grid rows of 30 pixels."""

    heading: str
    height: int
    panels: Sequence[Panel]


def percentiles(histogram: str, labels: str = ENGINE, old: str = "") -> list[Query]:
    """Return p50, p95 and p99."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return [Query(quantile(share, histogram, labels=labels, old=old), name) for name, share in shares.items()]


NO_TRAFFIC = "no traffic"
UP_TO_LIMIT = ((None, GREEN), (LATENCY_SECONDS, RED))
NONE_IS_BEST = ((None, GREEN), (1.0, RED))
PROXY = f'{FLEET}, replica=~"$replica"'

NOW = Row(
    "Now",
    4,
    [
        Panel(
            "Replicas out of rotation",
            "Replicas that the proxy gives no new requests: down, draining or stalled. Its /health says why.",
            [Query(f"count(routing_proxy_replica_up{{{PROXY}}} == 0) or on () vector(0)", "out")],
            "short",
            NONE_IS_BEST,
            "stat",
        ),
        Panel(
            "Fullest pool",
            "Share of the KV pool that running requests hold on the fullest card. Above 90 % the next long prompt "
            "waits or pushes another one out.",
            [Query(f"max({fill()})", "pool")],
            "percentunit",
            ((None, GREEN), (0.7, ORANGE), (POOL_FULL, RED)),
            "stat",
        ),
        Panel(
            "Waiting requests",
            "Requests that wait for a seat or for room in the pool, on all chosen cards.",
            [Query(f"sum({gauge('num_requests_waiting')})", "waiting")],
            "short",
            ((None, GREEN), (1.0, ORANGE)),
            "stat",
        ),
        Panel(
            "Prefix reuse, 5 min",
            "Share of the prompt tokens that came from the prefix cache. Below 20 % with traffic, conversations evict "
            "each other or do not go back to their card.",
            [Query(reuse("fleet"), "{{fleet}}")],
            "percentunit",
            ((None, RED), (REUSE_LOW, GREEN)),
            "stat",
            at_rest=NO_TRAFFIC,
        ),
        Panel(
            "p95 latency, 5 min",
            "95 % of the requests took less, from arrival at the engine to the last token. Above 60 s cards are "
            "overloaded: two conversations of 50k tokens on one card take 25 to 45 s a turn.",
            [Query(quantile(0.95, "vllm:e2e_request_latency_seconds", "5m"), "p95")],
            "s",
            UP_TO_LIMIT,
            "stat",
            at_rest=NO_TRAFFIC,
        ),
        Panel(
            "Alerts firing now",
            "Alerts of the chosen fleets that fire. Nothing is sent anywhere without an Alertmanager.",
            [Query(or_zero(firing()), "alerts")],
            "short",
            NONE_IS_BEST,
            "stat",
        ),
    ],
)

CAPACITY = Row(
    "Capacity and reuse",
    8,
    [
        Panel(
            "Pool fill by card",
            "Share of each card's KV pool (122,636 tokens on an R9700) that running requests hold. Cached prefixes of "
            "requests that are over do not count: they make room.",
            [Query(fill(), "{{replica}}")],
            "percentunit",
            ((None, GREEN), (POOL_FULL, RED)),
            highest=1.0,
        ),
        Panel(
            "Queue depth",
            "Requests that wait at each engine. A queue that stands for 10 minutes is an alert.",
            [Query(gauge("num_requests_waiting"), "{{replica}}")],
            "short",
            ((None, GREEN), (1.0, ORANGE)),
        ),
        Panel(
            "Running requests",
            "Requests in each engine's batch, at most MAXSEQS.",
            [Query(gauge("num_requests_running"), "{{replica}}")],
            "short",
        ),
        Panel(
            "Prefix reuse by card, 5 min",
            "Share of the prompt tokens that came from the card's prefix cache. Nothing is drawn without traffic.",
            [Query(reuse(), "{{replica}}")],
            "percentunit",
            ((None, RED), (REUSE_LOW, GREEN)),
            at_rest=NO_TRAFFIC,
            highest=1.0,
        ),
        Panel(
            "Prompt tokens per second",
            "Prompt tokens of finished prefills, those from the cache included. A card computes 2,400 to 2,800 a "
            "second; what is above that was reused.",
            [Query(rate("prompt_tokens_total"), "{{replica}}")],
            "short",
        ),
        Panel(
            "Generated tokens per second",
            "Tokens of answers. A card gives about 42 to one stream and 150 to four.",
            [Query(rate("generation_tokens_total"), "{{replica}}")],
            "short",
        ),
    ],
)

LATENCY = Row(
    "Latency",
    8,
    [
        Panel(
            "Time to first token, engines",
            "From a request's arrival at an engine to its first token: waiting and prefill. A cold prompt of 15k "
            "tokens takes 6 s, a warm one 1 s.",
            percentiles("vllm:time_to_first_token_seconds"),
            "s",
            at_rest=NO_TRAFFIC,
        ),
        Panel(
            "Request latency, engines",
            "From arrival at an engine to the last token.",
            percentiles("vllm:e2e_request_latency_seconds"),
            "s",
            UP_TO_LIMIT,
            at_rest=NO_TRAFFIC,
        ),
        Panel(
            "First byte and first token, proxy",
            "What clients wait for, the proxy included. The first byte of a stream is its head, which an engine sends "
            "long before a token.",
            [
                Query(quantile(share, f"routing_proxy_time_to_first_{what}_seconds", labels=PROXY), f"{what} {name}")
                for what in ("byte", "token")
                for name, share in {"p50": 0.5, "p95": 0.95}.items()
            ],
            "s",
            at_rest=NO_TRAFFIC,
        ),
        Panel(
            "Time between tokens, engines",
            "Between two deliveries of tokens of one request. Prefills of neighbours stretch the upper percentiles.",
            percentiles("vllm:inter_token_latency_seconds", old="vllm:time_per_output_token_seconds"),
            "s",
            at_rest=NO_TRAFFIC,
        ),
        Panel(
            "Preemptions",
            "Running requests that lost their blocks to another and start over: the pool is too small for what runs.",
            [Query(rate("num_preemptions_total"), "{{replica}}")],
            "ops",
        ),
        Panel(
            "Proxy event loop lag, p99",
            "How late the proxy runs its own timers, which every request waits for. Above 50 ms its core is full.",
            [Query(quantile(0.99, "routing_proxy_event_loop_lag_seconds", labels=FLEET), "p99")],
            "s",
            ((None, GREEN), (0.05, RED)),
            at_rest="no data: is the proxy scraped?",
        ),
    ],
)

STATES = {"0": ("no", RED), "1": ("yes", GREEN)}
ROUTING = Row(
    "Routing and health",
    8,
    [
        Panel(
            "Replica state",
            "In rotation: the proxy gives it new requests. Scraped: it answers Prometheus. A replica that loads is "
            "neither for about 150 s.",
            [
                Query(f"routing_proxy_replica_up{{{PROXY}}}", "{{replica}} in rotation"),
                Query(f'up{{{FLEET}, replica=~"$replica", replica!=""}}', "{{replica}} scraped"),
                Query(f'up{{{FLEET}, replica=""}}', "{{job}} scraped"),
            ],
            "short",
            ((None, RED), (1.0, GREEN)),
            "state-timeline",
            words=STATES,
        ),
        Panel(
            "Routing decisions",
            "pinned: back to the card that served the conversation. session: the client named one. spread: anything "
            "else. failover: another card than it belongs to.",
            [Query(proxied("requests", "decision"), "{{decision}}")],
            "reqps",
            stacked=True,
        ),
        Panel(
            "Failovers and cut answers, 5 min",
            "Requests that a replica could not take, by reason, and answers broken off after their first byte.",
            [
                Query(happened("failovers", "reason"), "failover: {{reason}}"),
                Query(happened("answers_cut"), "cut"),
            ],
            "short",
        ),
        Panel(
            "Proxy requests by code, 5 min",
            "Requests that are over, by status. 499: the client left first; 502 and 503: no replica could answer.",
            [Query(happened("requests", "code"), "{{code}}")],
            "short",
            stacked=True,
        ),
        Panel(
            "Conversations on record",
            "Conversations whose next turn goes back to this card. They go when it restarts.",
            [Query(f"routing_proxy_conversations{{{PROXY}}}", "{{replica}}")],
            "short",
            at_rest="no data: is the proxy scraped?",
        ),
        Panel(
            "Alerts firing",
            "Firing alerts by name.",
            [Query(or_zero(firing("alertname"), "alertname"), "{{alertname}}")],
            "short",
            NONE_IS_BEST,
            stacked=True,
        ),
    ],
)

ROWS = (NOW, CAPACITY, LATENCY, ROUTING)
_STARTED = f"process_start_time_seconds{{{FLEET}}}"
RESTARTS = f"changes({_STARTED}[2m]) > 0 or ({_STARTED} unless {_STARTED} offset 2m)"
"""Marks on every graph: an engine or a proxy was started again. An engine that loads for longer
than 2 minutes is found by its return, everything quicker by its new start time."""
