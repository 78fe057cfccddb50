"""The rules' file as a whole: its syntax, what every alert says, its metrics, its page and its scenarios."""

from __future__ import annotations

import re
import subprocess

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families
from routing_proxy.metrics import Metrics
from rules.coverage import ALERTS, DOC, GROUPS, RECORDED, SCENARIOS, covered, wanted, written
from rules.scenario import ALL, CASES, ROOT, RULES

ENGINE_SCRAPE = ROOT / "tests/unit/simulator/fixtures/metrics-full.txt"
#: Former name -> the vLLM that named it anew.
FORMER_NAMES = {
    "vllm:gpu_cache_usage_perc": "0.11",
    "vllm:gpu_prefix_cache_queries_total": "0.11",
    "vllm:gpu_prefix_cache_hits_total": "0.11",
}
PROMETHEUS_OWN = {
    *("up", "ALERTS"),
    *("prometheus_config_last_reload_successful", "prometheus_rule_evaluation_failures_total"),
}
EXPRESSIONS = [*RECORDED.values(), *(rule["expr"] for rule in ALERTS.values())]

each_alert = pytest.mark.parametrize("alert", ALERTS)


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def selectors(expr: str) -> set[str]:
    """Names of the metrics that an expression reads."""
    return set(re.findall(r"VectorSelector \{\s+name: Some\(\s+\"([^\"]+)\"", repr(promql_parser.parse(expr))))


def proxy_names() -> set[str]:
    """Every sample of the proxy, after it has seen one event of each kind."""
    metrics = Metrics(lambda: [("a", 0, True, 0)])
    metrics.count("a", "chat", 200, "spread")
    metrics.timed("a", "chat", 0.1, 0.1, 0.1)
    metrics.failed_over("a", "connect")
    metrics.cut("a")
    return {
        sample.name for family in text_string_to_metric_families(metrics.render().decode()) for sample in family.samples
    }


def engine_names() -> set[str]:
    return {re.split(r"[{ ]", line)[0] for line in ENGINE_SCRAPE.read_text().splitlines() if not line.startswith("#")}


def test_promtool_and_its_linter_accept_the_file(promtool: list[str]):
    done = subprocess.run(
        [*promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@each_alert
def test_it_says_what_is_wrong_what_to_do_and_why(alert: str):
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "threshold", "runbook_url"}
    assert all(text.strip() for text in rule["annotations"].values())
    assert "\n" not in rule["annotations"]["summary"].strip()
    assert rule["annotations"]["runbook_url"] == f"docs/observability.md#{alert.lower()}"


@each_alert
def test_it_has_a_page(alert: str):
    pages = dict(re.findall(r"^### (Fleet\w+)\n(.*?)(?=^##|\Z)", DOC.read_text(), re.M | re.S))
    assert alert in pages, f"docs/observability.md needs a section '### {alert}'"
    for part in ("**Means.**", "**Do.**", "**Threshold.**"):
        assert part in pages[alert], f"the page of {alert} has no {part}"


def test_no_page_is_about_an_alert_that_is_gone():
    assert set(re.findall(r"^### (Fleet\w+)$", DOC.read_text(), re.M)) == set(ALERTS)


@each_alert
def test_an_alert_about_a_fleet_says_which(alert: str):
    if "fleet" in ALERTS[alert]["expr"] and not alert.startswith(("FleetNothing", "FleetRules")):
        assert "{{ $labels.fleet }}" in ALERTS[alert]["annotations"]["summary"]


def test_the_timing_fits_a_scrape_of_15_s():
    for group in GROUPS:
        assert group["interval"] == "30s"
        for rule in group["rules"]:
            for key in ("for", "keep_firing_for"):
                assert seconds(rule.get(key, "30s")) % 30 == 0
            for window in re.findall(r"\[(\w+)\]", rule["expr"]):
                assert seconds(window) >= 4 * 15


def test_what_explains_an_alert_comes_before_it():
    order = list(ALERTS)
    for alert, rule in ALERTS.items():
        for names in re.findall(r'alertname=~?"([^"]+)"', rule["expr"]):
            for name in names.split("|"):
                assert order.index(name) < order.index(alert)


def test_every_metric_exists():
    known = engine_names() | proxy_names() | PROMETHEUS_OWN | set(RECORDED) | set(FORMER_NAMES)
    asked = {name for expr in EXPRESSIONS for name in selectors(expr)}
    assert len(asked) > 20
    assert asked <= known, asked - known


def test_a_former_name_stands_beside_its_present_one():
    for former in FORMER_NAMES:
        present = former.replace("gpu_cache", "kv_cache").replace("gpu_prefix", "prefix")
        assert former not in engine_names() and present in engine_names()
        for expr in EXPRESSIONS:
            assert (former in selectors(expr)) == (present in selectors(expr))


def test_scenarios_speak_of_alerts_and_cases_that_exist():
    for scenario in SCENARIOS:
        for alert, case in scenario.cases():
            assert alert in {ALL, *ALERTS} and case in CASES, scenario.name
        fired = {alert.split()[0] for alerts in scenario.firing.values() for alert in alerts}
        assert {alert for alert, case in scenario.cases() if case == "fires"} <= fired, scenario.name


@each_alert
def test_each_of_its_cases_has_a_scenario(alert: str):
    missing = {case for case in wanted(alert) if not covered()[alert][case]}
    assert not missing, f"{alert} has no scenario for {missing}"


def test_the_table_in_the_docs_is_this_one():
    text = DOC.read_text()
    assert text == written(text), "run `cd tests && python -m rules.coverage` and commit docs/observability.md"
