"""The dashboard's file: what Grafana would stumble over, and whether its queries ask for metrics that exist."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from dashboard_picture.board import fill_in
from fleet_dashboard.__main__ import FILE
from fleet_dashboard.build import DATASOURCE_UID, text
from fleet_dashboard.panels import LATENCY_SECONDS, POOL_FULL, REUSE_LOW
from routing_proxy.metrics import Metrics

ENGINE_METRICS = Path(__file__).parents[1] / "simulator/fixtures/metrics-full.txt"
BOARD = json.loads(FILE.read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
UNITS = {"short", "percentunit", "s", "ops", "reqps"}
FORMER_NAMES = {
    "vllm:gpu_cache_usage_perc",
    "vllm:gpu_prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total",
    "vllm:time_per_output_token_seconds_bucket",
}
PROMETHEUS_OWN = {"up", "ALERTS"}

each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def expressions() -> list[str]:
    """Every query of the file."""
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [*asked, *(mark["expr"] for mark in BOARD["annotations"]["list"])]


def walk(node: Any) -> Iterator[tuple[str, Any]]:
    """Every key of the file with its value."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield str(key), value
        yield from walk(value)


def test_the_file_is_what_the_generator_makes():
    assert FILE.read_text() == text()


def test_it_can_be_provisioned_into_any_grafana():
    assert BOARD["id"] is None
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", BOARD["uid"])
    assert {"title", "schemaVersion", "panels"} <= set(BOARD)
    assert "__inputs" not in BOARD and "${DS_" not in FILE.read_text()


def test_every_data_source_is_the_variable_and_that_opens_with_the_provisioned_one():
    sources = [value for key, value in walk(BOARD) if key == "datasource"]
    assert len(sources) > len(PANELS)
    assert {(source["type"], source["uid"]) for source in sources} == {("prometheus", "${datasource}")}
    (variable,) = [entry for entry in BOARD["templating"]["list"] if entry["type"] == "datasource"]
    assert (variable["name"], variable["query"]) == ("datasource", "prometheus")
    assert variable["current"]["value"] == DATASOURCE_UID


def test_every_variable_that_is_used_is_defined():
    used = {name for expr in expressions() for name in re.findall(r"\$\{?(\w+)", expr)} - {"__rate_interval"}
    assert used == {entry["name"] for entry in BOARD["templating"]["list"]} - {"datasource"}


def test_ids_and_titles_are_unique():
    for key in ("id", "title"):
        counts = Counter(panel[key] for panel in BOARD["panels"])
        assert [value for value, count in counts.items() if count > 1] == []


def test_panels_do_not_overlap_and_stay_on_the_grid():
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    cells = Counter(
        (x, y)
        for place in places
        for x, y in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    )
    assert max(cells.values()) == 1
    assert all(0 <= x < 24 for x, _ in cells)
    assert len(cells) == 24 * (1 + max(y for _, y in cells)), "a hole in the grid"


@each_panel
def test_a_panel_explains_itself(panel):
    defaults = panel["fieldConfig"]["defaults"]
    assert len(panel["description"]) > 20
    assert defaults["unit"] in UNITS
    assert defaults["noValue"]
    steps = [step["value"] for step in defaults["thresholds"]["steps"]]
    assert steps[0] is None and steps[1:] == sorted(steps[1:])
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize(
    ("words", "limit"),
    [("pool", POOL_FULL), ("p95 latency", LATENCY_SECONDS), ("prefix reuse", REUSE_LOW)],
)
def test_thresholds_are_those_of_the_alerts(words, limit):
    shown = [panel for panel in PANELS if words in panel["title"].lower()]
    assert shown
    for panel in shown:
        assert limit in [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]


@pytest.mark.parametrize("expr", expressions())
def test_a_query_is_promql(expr):
    promql_parser.parse(fill_in(expr, "1m"))


def selected_names(expr: str) -> set[str]:
    """The metrics that a query names: a word before a selector's brace."""
    return set(re.findall(r"([a-zA-Z_:][\w:]*)\{", fill_in(expr, "1m")))


def test_every_metric_exists():
    engine = set(re.findall(r"^([a-zA-Z_:][\w:]*)", ENGINE_METRICS.read_text(), re.MULTILINE))
    metrics = Metrics(lambda: [("frank-medium-a", 0, True, 0)])
    metrics.count("frank-medium-a", "chat", 200, "pinned")
    metrics.timed("frank-medium-a", "chat", 0.1, 0.2, 0.3)
    metrics.failed_over("frank-medium-a", "connect")
    metrics.cut("frank-medium-a")
    proxy = set(re.findall(r"^([a-zA-Z_:][\w:]*)", metrics.render().decode(), re.MULTILINE))
    asked = set().union(*map(selected_names, expressions()))
    assert asked - engine - proxy - PROMETHEUS_OWN == FORMER_NAMES


def test_a_former_name_stands_behind_its_new_one():
    for expr in expressions():
        for name in selected_names(expr) & FORMER_NAMES:
            assert re.search(rf" or [^{{]*{name}\{{", expr), expr
