"""Series of a made-up fleet, in promtool's notation: one sample every 15 s, as Prometheus scrapes."""

from __future__ import annotations

from dataclasses import dataclass

#: Samples a minute.
RATE = 4
#: Phases of a gauge: its value (None: the scrape fails, so the series ends) and for how many minutes.
Gauge = list[tuple[float | None, float]]
#: Phases of a counter: its rise per second (None as above; after it the counter begins at 0 again) and minutes.
Counter = list[tuple[float | None, float]]
#: Name of a series, with labels, to its samples.
Series = dict[str, str]

GONE: None = None


def gauge(phases: Gauge) -> str:
    """Return the samples of a gauge."""
    return " ".join(_gone(minutes) if value is None else f"{value:g}x{_last(minutes)}" for value, minutes in phases)


def counter(phases: Counter, start: float = 1000) -> str:
    """Return the samples of a counter that stands at `start`; it is reset by each gap, and where a rise is negative."""
    words, now = [], start
    for rise, minutes in phases:
        if rise is None:
            words.append(_gone(minutes))
            now = 0
            continue
        step = rise * 60 / RATE
        words.append(f"{now:g}+{step:g}x{_last(minutes)}")
        now += step * round(minutes * RATE)
    return " ".join(words)


def _last(minutes: float) -> int:
    return round(minutes * RATE) - 1


def _gone(minutes: float) -> str:
    # Prometheus marks a series stale at the first scrape that fails; a mere gap would live on for 5 minutes.
    return f"stale _x{_last(minutes)}"


@dataclass(frozen=True)
class Target:
    """A scrape target and the labels it is given."""

    fleet: str
    host: str
    replica: str = ""

    def labels(self, **more: str) -> str:
        """Return the target's labels and these, in braces."""
        name = self.replica or f"{self.fleet}-proxy"
        job = self.fleet if self.replica else name
        own = {"fleet": self.fleet, "host": self.host, "replica": self.replica, "job": job, "instance": name}
        return "{" + ",".join(f'{key}="{value}"' for key, value in {**own, **more}.items() if value) + "}"


A = Target("frank-medium", "dankserver", "frank-medium-a")
B = Target("frank-medium", "dankserver", "frank-medium-b")
PROXY = Target("frank-medium", "dankserver")
LARGE = Target("frank-large", "bigserver", "frank-large")

OLD_NAMES = {
    "kv_cache_usage_perc": "gpu_cache_usage_perc",
    "prefix_cache_queries_total": "gpu_prefix_cache_queries_total",
    "prefix_cache_hits_total": "gpu_prefix_cache_hits_total",
}


def engine(
    target: Target,
    *,
    up: Gauge | None = None,
    running: float = 1,
    waiting: Gauge | None = None,
    kv: Gauge | None = None,
    queries: Counter | None = None,
    hits: Counter | None = None,
    steps: Counter | None = None,
    requests: Counter | None = None,
    slow: Counter | None = None,
    started: Gauge | None = None,
    old: bool = False,
    number: str = "0",
    minutes: float = 180,
) -> Series:
    """Return the series of an engine: healthy and busy, apart from what is given.

    `up` has values 1 and 0; where it is 0 every other series has its gap. `requests` of 1 s and `slow` ones of 100 s
    are per second; `queries` and `hits` are tokens a second.
    """
    up = up or [(1, minutes)]
    labels = {"engine": number, "model_name": target.fleet}
    names = OLD_NAMES if old else {}

    def metric(name: str, samples: str, **more: str) -> Series:
        return {f"vllm:{names.get(name, name)}{target.labels(**labels, **more)}": samples}

    def alive(value: float) -> Gauge:
        return [(value if state else GONE, length) for state, length in up]

    tardy = slow or alive(0)
    quick = requests or ([(0.2, length) for _, length in tardy] if slow else alive(0.2))
    both = [(None if a is None else a + (b or 0), length) for (a, length), (b, _) in zip(quick, tardy, strict=True)]
    return {
        f"up{target.labels()}": gauge(up),
        f"process_start_time_seconds{target.labels()}": gauge(started or alive(1000)),
        **metric("num_requests_running", gauge(alive(running))),
        **metric("num_requests_waiting", gauge(waiting or alive(0))),
        **metric("kv_cache_usage_perc", gauge(kv or alive(0.5))),
        **metric("prefix_cache_queries_total", counter(queries or alive(1000))),
        **metric("prefix_cache_hits_total", counter(hits or alive(900))),
        **metric("iteration_tokens_total_count", counter(steps or alive(10))),
        **metric("e2e_request_latency_seconds_bucket", counter(quick), le="2.0"),
        **metric("e2e_request_latency_seconds_bucket", counter(quick), le="60.0"),
        **metric("e2e_request_latency_seconds_bucket", counter(both), le="120.0"),
        **metric("e2e_request_latency_seconds_bucket", counter(both), le="+Inf"),
        **metric("e2e_request_latency_seconds_count", counter(both)),
    }


def proxy(up: Gauge | None = None, minutes: float = 180, lag: float = 0.001, **replica_up: Gauge) -> Series:
    """Return the series of frank-medium's proxy; `a` and `b` are what it says of its replicas, `lag` is in seconds."""
    up = up or [(1, minutes)]
    alive: Gauge = [(1 if state else GONE, length) for state, length in up]
    ticks: Counter = [(10 if state else GONE, length) for state, length in up]
    series = {f"up{PROXY.labels()}": gauge(up)}
    for target in (A, B):
        said = replica_up.get(target.replica[-1], alive)
        series[f"routing_proxy_replica_up{PROXY.labels(replica=target.replica)}"] = gauge(said)
    for bound in ("0.001", "0.05", "0.1", "+Inf"):
        reached = [(rise if rise is None or lag <= float(bound) else 0, length) for rise, length in ticks]
        series[f"routing_proxy_event_loop_lag_seconds_bucket{PROXY.labels(le=bound)}"] = counter(reached)
    return series


def events(name: str, samples: str, replica: str = A.replica, **more: str) -> Series:
    """Return a counter of the proxy about a replica."""
    return {f"routing_proxy_{name}_total{PROXY.labels(replica=replica, **more)}": samples}
