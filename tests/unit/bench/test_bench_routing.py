"""The routing experiment: its verdict, its virtual time, its variants."""

from dataclasses import replace

import pytest
from bench.harness.loops import Loop, Turn
from bench.routing.experiment import virtually
from bench.routing.policies import make
from bench.routing.report import violations
from bench.routing.summary import Summary, summarize
from bench.routing.virtual import VirtualFleet, replica_names
from bench.routing.workloads import all_workloads, document
from engine_simulator.deployment import DEPLOYED_FLAGS, build_engine
from engine_simulator.flags import parse
from engine_simulator.sequence import Sequence
from engine_simulator.sizing import size_kv_cache
from engine_simulator.tokens import chat_prompt, text_prompt
from engine_simulator.virtual_time import closed_loop

WORKLOADS = all_workloads()


def turn(loop: str, number: int, started: float, ttft: float, replica: str = "a", error: str = "") -> Turn:
    return Turn(loop, loop, number, started, ttft, ttft + 1, 100, 90 if number > 1 else 0, 10, replica, "", error)


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, Summary]]:
    """What was measured on the cards, in virtual time."""
    names = ("burst", "turns-15k", "turns-90k")
    policies = ("adaptive", "roundrobin", "affinity")
    return {name: {p: summarize(p, virtually(WORKLOADS[name], p)) for p in policies} for name in names}


def test_the_order_of_the_policies_comes_out_by_itself(measured: dict[str, dict[str, Summary]]) -> None:
    assert violations(measured) == []


def test_the_burst_herds_under_affinity_alone(measured: dict[str, dict[str, Summary]]) -> None:
    assert list(measured["burst"]["affinity"].spread.values()) == [16]
    assert list(measured["burst"]["adaptive"].spread.values()) == [8, 8]


@pytest.mark.parametrize(
    ("workload", "policy", "figure", "factor"),
    [("burst", "affinity", "span", 0.5), ("burst", "adaptive", "span", 1.3), ("turns-90k", "roundrobin", "warm", 0.05),
     ("turns-15k", "adaptive", "warm", 3.0)],
)  # fmt: skip
def test_another_order_is_a_violation(
    measured: dict[str, dict[str, Summary]], workload: str, policy: str, figure: str, factor: float
) -> None:
    summary = measured[workload][policy]
    worse = replace(summary, **{figure: summary.headline(figure) * factor})
    found = violations(measured | {workload: measured[workload] | {policy: worse}})
    assert found
    assert all(line.startswith(f"{workload}: ") for line in found)


def test_a_lone_request_takes_as_long_as_on_the_bare_engine() -> None:
    loop = Loop("alone", document=document("alone", 15_000))
    [ours] = VirtualFleet(make("adaptive", replica_names(2))).run([loop])
    settings = parse(DEPLOYED_FLAGS, {})
    engine = build_engine(settings, size_kv_cache(settings.shape))
    [bare] = closed_loop([engine], [Sequence(chat_prompt([loop.ask(1)]), text_prompt("x" * 4 * 64))], 1)
    assert ours.ttft == pytest.approx(bare.ttft)
    assert ours.output_tokens == 64


def test_forks_go_to_the_card_of_their_parent_and_find_its_prefix() -> None:
    turns = virtually(WORKLOADS["forks-2x4"], "adaptive")
    homes = {turn.loop: turn.replica for turn in turns if turn.family == "parent"}
    forks = [turn for turn in turns if turn.family == "fork"]
    assert {turn.replica == homes[turn.loop.rpartition("-")[0]] for turn in forks} == {True}
    assert min(turn.cached_tokens or 0 for turn in forks) > 25_000


def test_a_full_batch_spills_only_under_the_variant() -> None:
    workload = WORKLOADS["forks-1x8"]
    replicas = {name: {turn.replica for turn in virtually(workload, name)} for name in ("adaptive", "spill")}
    assert (len(replicas["adaptive"]), len(replicas["spill"])) == (1, 2)


def test_load_placement_keeps_the_large_family_alone() -> None:
    for variant in ("lighter", "shortest"):
        homes = {turn.loop: turn.replica for turn in virtually(WORKLOADS["overload"], variant)}
        assert homes["medium-1"] == homes["medium-2"] != homes["heavy"]


def test_a_summary_is_in_model_time_and_counts_failures() -> None:
    turns = [turn("x", 1, 0.0, 4.0), turn("x", 2, 5.0, 1.0), turn("y", 1, 1.0, 2.0, "b"),
             turn("y", 2, 4.0, 9.0, "b", "cut")]  # fmt: skip
    summary = summarize("adaptive", turns, time_scale=0.5)
    assert (summary.span, summary.first, summary.warm, summary.worst) == (14.0, 6.0, 2.0, 10.0)
    assert summary.cached == pytest.approx(0.9)
    assert (summary.failed, summary.requests, summary.spread) == (1, 4, {"a": 2, "b": 1})


def test_a_run_without_a_whole_answer_has_no_summary() -> None:
    with pytest.raises(ValueError, match="no request got a whole answer: cut"):
        summarize("adaptive", [turn("x", 1, 0.0, 1.0, error="cut")])
