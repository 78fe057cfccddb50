"""PromQL of the dashboard. $fleet and $replica are its variables, $__rate_interval Grafana's: four scrapes or more."""

FLEET = 'fleet=~"$fleet"'
ENGINE = f'{FLEET}, replica=~"$replica"'
"""Both are labels of the scrape target at an engine. At the proxy `replica` is the metric's own label."""
WINDOW = "$__rate_interval"


def renamed(new: str, old: str) -> str:
    """Use `new`, and `old` where there is none: engines before 0.11 have other names for some metrics."""
    return f"({new} or {old})"


def gauge(name: str) -> str:
    """Return a gauge of each engine, summed over the parts of an engine (`engine` counts them)."""
    return f"sum by (replica) (vllm:{name}{{{ENGINE}}})"


def fill() -> str:
    """Return how full each card's KV pool is, 0 to 1."""
    by_name = (f"vllm:{name}{{{ENGINE}}}" for name in ("kv_cache_usage_perc", "gpu_cache_usage_perc"))
    return f"max by (replica) {renamed(*by_name)}"


def rate(name: str, window: str = WINDOW, by: str = "replica", prefix: str = "vllm:") -> str:
    """Return the growth of an engine's counter a second."""
    return f"sum by ({by}) (rate({prefix}{name}{{{ENGINE}}}[{window}]))"


def reuse(by: str = "replica") -> str:
    """Return the share of looked-up prompt tokens that the prefix cache had in 5 minutes; nothing without traffic.

    The window is the one in which reuse below 20 % was judged; one long prompt decides a shorter one.
    """
    hits, queries = (
        renamed(rate(f"prefix_cache_{kind}_total", "5m", by), rate(f"gpu_prefix_cache_{kind}_total", "5m", by))
        for kind in ("hits", "queries")
    )
    return f"{hits} / ({queries} > 0)"


def quantile(share: float, histogram: str, window: str = WINDOW, labels: str = ENGINE, old: str = "") -> str:
    """Return a quantile over the chosen replicas of a histogram; `old` is its former name.

    Nothing without traffic: the NaN of a histogram that did not move is no number >= 0.
    """
    names = [histogram, *([old] if old else [])]
    grown = " or ".join(f"sum by (le) (rate({name}_bucket{{{labels}}}[{window}]))" for name in names)
    return f"histogram_quantile({share}, {grown}) >= 0"


def or_zero(expression: str, label: str = "", value: str = "none") -> str:
    """Return 0 where the expression has no series at all, named `value` in `label`."""
    zero = f'label_replace(vector(0), "{label}", "{value}", "", "")' if label else "vector(0)"
    return f"{expression} or on () {zero}"


def proxied(name: str, by: str) -> str:
    """Return the growth a second of a counter of the proxy's. Replica "none" is what no replica got."""
    return or_zero(f"sum by ({by}) (rate({_counter(name)}[{WINDOW}]))", by)


def happened(name: str, by: str = "") -> str:
    """Return how often something happened at the proxy in 5 minutes.

    For what is rare: a series begins with the first time, which no increase contains, so one that was not there
    5 minutes ago counts in full.
    """
    counter = _counter(name)
    return or_zero(f"sum by ({by}) (({counter} unless {counter} offset 5m) or increase({counter}[5m]))", by)


def _counter(name: str) -> str:
    return f'routing_proxy_{name}_total{{{FLEET}, replica=~"$replica|none"}}'


def firing(by: str = "") -> str:
    """Return how many of our alerts fire: those of the chosen fleets, and those of no fleet, as of missing targets."""
    return f'count by ({by}) (ALERTS{{alertname=~"Fleet.+", alertstate="firing", fleet=~"$fleet|"}})'
