"""The dashboard's queries on a real Prometheus that scrapes simulated engines behind the real proxy."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.harness.endpoint import Client, Endpoint
from bench.harness.loops import Loop, run
from bench.routing.fleet import MODEL, SimulatedFleet
from bench.routing.workloads import document
from dashboard_picture.board import Panel, Target, fill_in, load
from dashboard_picture.prometheus import Prometheus, Series
from dashboard_picture.stage import scraped_fleet
from fleet_dashboard.__main__ import FILE

INTERVAL = 1.0
TIME_SCALE = 0.05
PATIENCE = 30.0
PANELS = [panel for panel in load("5s") if panel.kind != "row"]
QUERIES = [(panel, target) for panel in PANELS for target in panel.targets]
NO_TRAFFIC = "no traffic"
ALERTS = "Alerts firing"

each_query = pytest.mark.parametrize(
    ("panel", "target"), QUERIES, ids=[f"{panel.title}: {target.legend}" for panel, target in QUERIES]
)


@dataclass
class Answers:
    """What each query said: before the first request, and over the whole run with its traffic."""

    at_rest: dict[str, list[Series]]
    afterwards: dict[str, list[Series]]
    restarts: list[Series]


async def until(happened: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not await asyncio.to_thread(happened):
        assert time.monotonic() < deadline, f"not within {PATIENCE} s"
        await asyncio.sleep(0.2)


async def talk(fleet: SimulatedFleet, prefix: str, answer_tokens: int = 64) -> None:
    """Hold eight conversations of two turns."""
    loops = [
        Loop(f"{prefix}-{n}", document=document(f"{prefix} {n}", 3000), turns=2, answer_tokens=answer_tokens)
        for n in range(8)
    ]
    async with Client(Endpoint(fleet.url, MODEL), ignore_eos=True) as client:
        await run(client, loops)


async def play(folder: Path) -> Answers:
    """Rest, talk, kill a replica under its conversations, bring it back; ask every query before and after."""
    async with scraped_fleet(folder, INTERVAL, TIME_SCALE) as (fleet, prometheus):
        began = time.time()
        await until(lambda: len(prometheus.instant("up == 1")) == 3)
        await asyncio.sleep(2 * INTERVAL)
        at_rest = {target.expr: prometheus.instant(target.expr) for _, target in QUERIES}
        # Two rounds, so that each counter moves after a scrape has seen it.
        await talk(fleet, "first")
        await asyncio.sleep(2 * INTERVAL)
        await kill_idle(fleet)
        await back(fleet, prometheus)
        await kill_under(fleet)
        await back(fleet, prometheus)
        await talk(fleet, "second")
        await until(lambda: len(prometheus.instant("up == 1")) == 3)
        await asyncio.sleep(3 * INTERVAL)
        return Answers(at_rest, asked_since(prometheus, began), prometheus.instant(restarts()))


async def kill_idle(fleet: SimulatedFleet) -> None:
    """Kill a replica that has nothing to do, and talk at once: half of the requests find its port closed."""
    fleet.kill(fleet.names[-1])
    await talk(fleet, "survivor")


async def kill_under(fleet: SimulatedFleet) -> None:
    """Kill a replica while it gives answers of 2 s, so that they are cut."""
    talking = asyncio.create_task(talk(fleet, "killed", answer_tokens=2000))
    await asyncio.sleep(1.0)
    fleet.kill(fleet.names[-1])
    await talking


async def back(fleet: SimulatedFleet, prometheus: Prometheus) -> None:
    """Bring it back when Prometheus has seen that it is down."""
    await until(lambda: bool(prometheus.instant("routing_proxy_replica_up == 0")))
    fleet.restart(fleet.names[-1])
    await until(lambda: len(prometheus.instant("routing_proxy_replica_up == 1")) == 2)


def asked_since(prometheus: Prometheus, began: float) -> dict[str, list[Series]]:
    """Ask every query for the whole run."""
    now = time.time()
    return {
        target.expr: prometheus.instant(target.expr) if target.instant else prometheus.over(target.expr, began, now, 1)
        for _, target in QUERIES
    }


def restarts() -> str:
    """The query of the marks."""
    (mark,) = json.loads(FILE.read_text())["annotations"]["list"]
    return fill_in(mark["expr"], "5s")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    played: Coroutine[None, None, Answers] = play(tmp_path_factory.mktemp("prometheus"))
    return asyncio.run(played)


@each_query
def test_nothing_is_blank_at_rest(answers: Answers, panel: Panel, target: Target):
    """A query answers, or its panel says that there is no traffic."""
    assert answers.at_rest[target.expr] or panel.at_rest == NO_TRAFFIC


@each_query
def test_traffic_is_shown(answers: Answers, panel: Panel, target: Target):
    """A query answers with series of ours, not with the zero that stands for none."""
    found = answers.afterwards[target.expr]
    assert found
    if not panel.title.startswith(ALERTS):
        assert [series for series in found if "none" not in series.labels.values()]


def peak(answers: Answers, title: str, legend: str = "") -> float:
    """The greatest value that a panel showed under a legend."""
    (panel,) = [panel for panel in PANELS if panel.title == title]
    return max(
        value
        for target in panel.targets
        for series in answers.afterwards[target.expr]
        if legend in target.named(series.labels)
        for _, value in series.samples
    )


def test_the_figures_are_those_of_the_run(answers: Answers):
    assert 0 < peak(answers, "Pool fill by card") <= 1
    assert 0.2 < peak(answers, "Prefix reuse by card, 5 min") < 1
    assert peak(answers, "Running requests") >= 1
    assert peak(answers, "Generated tokens per second") > 10
    assert 0 < peak(answers, "Time to first token, engines", "p50") < 60
    assert peak(answers, "Failovers and cut answers, 5 min", "failover: connect") >= 1
    assert peak(answers, "Failovers and cut answers, 5 min", "cut") >= 1
    assert peak(answers, "Proxy requests by code, 5 min", "200") >= 30
    assert peak(answers, "Routing decisions", "pinned") > 0


def test_a_replica_that_was_down_shows_as_down(answers: Answers):
    (panel,) = [panel for panel in PANELS if panel.title == "Replica state"]
    shown = {
        target.named(series.labels): {value for _, value in series.samples}
        for target in panel.targets
        for series in answers.afterwards[target.expr]
    }
    assert shown["frank-medium-b in rotation"] == {0, 1}
    assert shown["frank-medium-a in rotation"] == {1}
    assert set(shown) >= {"frank-medium-a scraped", "frank-medium-b scraped", "frank-medium-proxy scraped"}


def test_the_restart_is_marked(answers: Answers):
    assert {series.labels.get("replica") for series in answers.restarts} >= {"frank-medium-b"}
