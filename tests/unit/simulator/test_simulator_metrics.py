"""Metrics have vLLM's names, types, labels and buckets, and move only by what happened."""

import re

from prometheus_client.parser import text_string_to_metric_families
from sim_process import FIXTURES, Simulator, fixture, running

CHAT = "/v1/chat/completions"


def families(text: str) -> dict[str, tuple[str, frozenset[str], frozenset[tuple[str, str]]]]:
    """Type, label names and (for histograms) buckets of each family of the engine and its web server."""
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(("vllm:", "http_", "process_start", "python_info")) and family.samples:
            labels = frozenset(name for sample in family.samples for name in sample.labels)
            fixed = ("le", "reason", "source", "finished_reason", "sleep_state")
            values = frozenset((n, v) for sample in family.samples for n, v in sample.labels.items() if n in fixed)
            found[family.name] = (family.type, labels, values)
    return found


def test_names_types_labels_and_buckets_are_vllms(simulator: Simulator) -> None:
    simulator.get("/v1/models")
    reply = simulator.get("/metrics")
    ours, theirs = families(reply.body.decode()), families((FIXTURES / "metrics-full.txt").read_text())
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] != theirs[name]} == set()
    assert reply.headers["content-type"] == fixture("metrics-head").headers["content-type"]


def test_speculation_has_metrics_of_its_own(deployed: Simulator) -> None:
    deployed.post(CHAT, {"messages": [{"role": "user", "content": "drafts"}], "max_tokens": 200, "ignore_eos": True})
    drafts = deployed.metric("vllm:spec_decode_num_drafts_total")
    accepted = deployed.metric("vllm:spec_decode_num_accepted_tokens_total")
    assert 0 < accepted < 7 * drafts
    assert accepted == deployed.metric("vllm:spec_decode_num_accepted_tokens_per_pos_total")


def test_counters_move_by_what_happened() -> None:
    with running() as simulator:
        assert simulator.metric("vllm:iteration_tokens_total_count") == 0
        messages = [{"role": "user", "content": "x" * 2000}]
        for _ in range(2):
            simulator.post(CHAT, {"messages": messages, "max_tokens": 5})
        prompt = simulator.post("/tokenize", {"messages": messages}).json["count"]
        cached = (prompt - 1) // 128 * 128
        expected = {
            "vllm:prompt_tokens_total": 2 * prompt,
            "vllm:generation_tokens_total": 10,
            "vllm:prefix_cache_queries_total": 2 * prompt,
            "vllm:prefix_cache_hits_total": cached,
            "vllm:prompt_tokens_cached_total": cached,
            "vllm:iteration_tokens_total_count": 10,
            "vllm:iteration_tokens_total_sum": 2 * prompt - cached + 10,
            "vllm:time_to_first_token_seconds_count": 2,
            "vllm:inter_token_latency_seconds_count": 8,
            "vllm:e2e_request_latency_seconds_count": 2,
            "vllm:num_requests_running": 0,
            "vllm:num_requests_waiting": 0,
            "vllm:kv_cache_usage_perc": 0,
            "vllm:num_preemptions_total": 0,
        }
        assert {name: simulator.metric(name) for name in expected} == expected
        assert simulator.metric("vllm:request_success_total", 'finished_reason="length"') == 2
        assert simulator.metric("http_requests_total", f'handler="{CHAT}"') == 2
        assert simulator.metric("http_requests_total", 'handler="/metrics"') == 0
        assert re.search(r"^process_start_time_seconds \d", simulator.get("/metrics").body.decode(), re.MULTILINE)


def test_gauges_show_what_runs() -> None:
    with running("--max-num-seqs", "1", "--time-scale", "1") as simulator:
        connections = [simulator.open() for _ in range(2)]
        body = b'{"messages":[{"role":"user","content":"a"}],"max_tokens":9000,"ignore_eos":true,"stream":true}'
        for connection in connections:
            connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
        connections[0].getresponse().readline()
        connections[1].getresponse()
        assert simulator.metric("vllm:num_requests_running") == 1
        assert simulator.metric("vllm:num_requests_waiting") == 1
        assert simulator.metric("vllm:num_requests_waiting_by_reason", 'reason="capacity"') == 1
        assert 0 < simulator.metric("vllm:kv_cache_usage_perc") < 0.1
