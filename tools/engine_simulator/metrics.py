"""Prometheus metrics with vLLM's names, types, labels and buckets. They move only by what really happened.

Times are wall seconds, as a client sees them: with a time scale of 0.05 a modelled second is observed as 0.05.
"""

from collections.abc import Sequence as Items
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from .engine import Engine

_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
_PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_REQUEST = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)

_GAUGES = {
    "num_requests_running": "Requests in the batch.",
    "num_requests_waiting": "Requests waiting for a seat in the batch.",
    "kv_cache_usage_perc": "Share of the KV blocks that running requests hold, from 0 to 1.",
}
_COUNTERS = {
    "estimated_flops_per_gpu": "Floating point operations (not modelled).",
    "estimated_read_bytes_per_gpu": "Bytes read from memory (not modelled).",
    "estimated_write_bytes_per_gpu": "Bytes written to memory (not modelled).",
    "prefix_cache_queries": "Prompt tokens looked up in the prefix cache.",
    "prefix_cache_hits": "Prompt tokens found in the prefix cache.",
    "external_prefix_cache_queries": "Prompt tokens looked up in other instances (not modelled).",
    "external_prefix_cache_hits": "Prompt tokens found in other instances (not modelled).",
    "mm_cache_queries": "Images looked up (not modelled).",
    "mm_cache_hits": "Images found (not modelled).",
    "num_preemptions": "Running requests that lost their blocks to another.",
    "prompt_tokens": "Prompt tokens of requests whose prefill is complete.",
    "prompt_tokens_cached": "Those of them that came from the cache.",
    "generation_tokens": "Tokens generated.",
}
_SPECULATION_COUNTERS = {
    "spec_decode_num_drafts": "Drafts verified.",
    "spec_decode_num_draft_tokens": "Draft tokens verified.",
    "spec_decode_num_accepted_tokens": "Draft tokens accepted.",
}
_HISTOGRAMS: dict[str, tuple[str, Items[float]]] = {
    "request_prompt_tokens": ("Prompt tokens of a request.", _TOKENS),
    "request_generation_tokens": ("Tokens generated for a request.", _TOKENS),
    "iteration_tokens_total": ("Tokens of an engine step.", _STEP_TOKENS),
    "request_max_num_generation_tokens": ("Longest answer of a request, in tokens.", _TOKENS),
    "request_params_n": ("Answers asked for.", (1, 2, 5, 10, 20)),
    "request_params_max_tokens": ("Greatest answer asked for, in tokens.", _TOKENS),
    "time_to_first_token_seconds": ("From arrival to the first token.", _FIRST_TOKEN),
    "inter_token_latency_seconds": ("Between two deliveries of tokens of a request.", _PER_TOKEN),
    "request_time_per_output_token_seconds": ("Mean time per token of a request after its first.", _PER_TOKEN),
    "e2e_request_latency_seconds": ("From arrival to the last token.", _REQUEST),
    "request_queue_time_seconds": ("From arrival to a seat in the batch.", _REQUEST),
    "request_inference_time_seconds": ("From a seat in the batch to the last token.", _REQUEST),
    "request_prefill_time_seconds": ("From a seat in the batch to the first token.", _REQUEST),
    "request_decode_time_seconds": ("From the first token to the last.", _REQUEST),
    "request_num_preemptions": ("How often a request lost its blocks.", (1, 2, 3, 4, 5, 10, 20)),
    "request_prefill_kv_computed_tokens": ("Prompt tokens of a request that were not cached.", _TOKENS),
}
_LABELLED_COUNTERS: dict[str, tuple[str, str, Items[str]]] = {
    "prompt_tokens_by_source": (
        "Prompt tokens by where their KV came from.",
        "source",
        ("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    "prompt_tokens_cached_by_source": (
        "Cached prompt tokens by where the cache lies.",
        "source",
        ("device", "host", "p2p", "disk", "external_unspecified"),
    ),
    "request_success": (
        "Requests answered to their end, by what ended them.",
        "finished_reason",
        ("stop", "length", "abort", "error", "repetition"),
    ),
}
_LABELLED_GAUGES: dict[str, tuple[str, str, dict[str, float]]] = {
    "num_requests_waiting_by_reason": ("Waiting requests by reason.", "reason", {"capacity": 0, "deferred": 0}),
    "engine_sleep_state": (
        "Which sleep state holds.",
        "sleep_state",
        {"awake": 1, "weights_offloaded": 0, "discard_all": 0},
    ),
}


class Metrics:
    """All metrics of one engine.

    Args:
        model: served model name, the value of `model_name`.
        cache_info: labels of vllm:cache_config_info.
        depth: draft tokens a step; without speculation its metrics do not exist.
    """

    def __init__(self, model: str, cache_info: dict[str, str], depth: int) -> None:
        self.registry = CollectorRegistry()
        GCCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        ProcessCollector(registry=self.registry)
        self._labels = {"engine": "0", "model_name": model}
        self._previous: dict[str, float] = {}
        gauges: dict[str, Any] = {name: self._make(Gauge, name, text) for name, text in _GAUGES.items()}
        counters = _COUNTERS | (_SPECULATION_COUNTERS if depth else {})
        self.counter: dict[str, Any] = {name: self._make(Counter, name, text) for name, text in counters.items()}
        self.histogram: dict[str, Any] = {
            name: self._make(Histogram, name, text, buckets=buckets) for name, (text, buckets) in _HISTOGRAMS.items()
        }
        self.labelled: dict[tuple[str, str], Any] = {}
        for name, (text, label, values) in _LABELLED_COUNTERS.items():
            self._make_labelled(Counter, name, text, label, values)
        for name, (text, label, states) in _LABELLED_GAUGES.items():
            self._make_labelled(Gauge, name, text, label, list(states))
            for value, number in states.items():
                self.labelled[name, value].set(number)
        positions = [str(position) for position in range(depth)]
        if positions:
            text = "Draft tokens accepted, by their place in the draft."
            self._make_labelled(Counter, "spec_decode_num_accepted_tokens_per_pos", text, "position", positions)
        self._gauges = gauges
        rejections = Counter(
            "vllm:admission_rejections", "Requests refused.", ["model_name", "reason"], registry=self.registry
        )
        self.queue_full = rejections.labels(model_name=model, reason="max_num_queued_reqs")
        rejections.labels(model_name=model, reason="max_num_queued_tokens")
        info = {"engine": "0"} | cache_info
        Gauge("vllm:cache_config_info", "The KV cache.", sorted(info), registry=self.registry).labels(**info).set(1)

    def render(self) -> bytes:
        """One scrape, in Prometheus text format."""
        return generate_latest(self.registry)

    def update_gauges(self, engine: Engine) -> None:
        """Show what the engine holds now."""
        waiting = len(engine.waiting)
        self._gauges["num_requests_running"].set(len(engine.running))
        self._gauges["num_requests_waiting"].set(waiting)
        self._gauges["kv_cache_usage_perc"].set(engine.pool.used / engine.pool.blocks)
        self.labelled["num_requests_waiting_by_reason", "capacity"].set(waiting)

    def count_engine(self, engine: Engine) -> None:
        """Add what the engine counted since the last call."""
        counters = engine.counters
        self._raise(self.counter["prefix_cache_queries"], "queries", counters.cache_queries)
        self._raise(self.counter["prefix_cache_hits"], "hits", counters.cache_hits)
        self._raise(self.labelled["prompt_tokens_cached_by_source", "device"], "device", counters.cache_hits)
        self._raise(self.counter["num_preemptions"], "preemptions", counters.preemptions)
        if not counters.accepted_by_position:
            return
        self._raise(self.counter["spec_decode_num_drafts"], "drafts", counters.drafts)
        self._raise(self.counter["spec_decode_num_draft_tokens"], "draft_tokens", counters.draft_tokens)
        accepted = counters.accepted_by_position
        self._raise(self.counter["spec_decode_num_accepted_tokens"], "accepted", sum(accepted))
        for position, count in enumerate(accepted):
            counter = self.labelled["spec_decode_num_accepted_tokens_per_pos", str(position)]
            self._raise(counter, f"position {position}", count)

    def _raise(self, counter: Any, key: str, value: float) -> None:
        """Bring a counter up to a value that only grows."""
        counter.inc(value - self._previous.get(key, 0))
        self._previous[key] = value

    def _make(self, kind: Any, name: str, text: str, **options: Any) -> Any:
        metric = kind(f"vllm:{name}", text, list(self._labels), registry=self.registry, **options)
        return metric.labels(**self._labels)

    def _make_labelled(self, kind: Any, name: str, text: str, label: str, values: Items[str]) -> None:
        metric = kind(f"vllm:{name}", text, [*self._labels, label], registry=self.registry)
        for value in values:
            self.labelled[name, value] = metric.labels(**self._labels, **{label: value})
