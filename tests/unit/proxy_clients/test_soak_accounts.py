"""The books of the soak: every breach of the failover contract is found, and nothing else is."""

from __future__ import annotations

import pytest
from bench.proxy_soak.accounts import read_ledger, violations
from bench.proxy_soak.load import Kind, Outcome, judge

MS = 1_000_000  # ns
BOOT = "0 boot -"
PLAN = {"pieces": 2, "invalid": False}


def outcome(kind: Kind, replica: str = "a", started: int = 10 * MS, ended: int = 500 * MS, detail: str = "") -> Outcome:
    return Outcome("r", kind, started, ended, replica, "spread", detail)


def found(seen: Outcome, logs: dict[str, list[str]], kills: dict[str, list[int]] | None = None) -> list[str]:
    kills = kills or {}
    every = {name: [BOOT, *lines] for name, lines in logs.items()}
    return violations([seen], read_ledger(every, {name: kills.get(name, []) for name in logs}))


def at(milliseconds: int, event: str) -> str:
    return f"{milliseconds * MS} {event} r"


ANSWERED_BY_A = [at(20, "start"), at(30, "byte"), at(40, "end")]
ANSWERED_BY_B = [at(220, "start"), at(230, "byte"), at(240, "end")]


def test_one_answer_is_in_order() -> None:
    assert found(outcome("answered"), {"a": ANSWERED_BY_A, "b": []}) == []


def test_an_answer_that_nobody_gave() -> None:
    assert found(outcome("answered"), {"a": [], "b": []})
    assert found(outcome("answered", replica="b"), {"a": ANSWERED_BY_A, "b": []})


def test_a_kill_between_the_last_byte_and_its_line_in_the_log() -> None:
    unlogged = {"a": [at(20, "start"), at(30, "byte")], "b": []}
    assert found(outcome("answered", ended=60 * MS), unlogged, {"a": [55 * MS]}) == []
    assert found(outcome("answered", ended=200 * MS), unlogged, {"a": [55 * MS]})
    assert found(outcome("answered", ended=60 * MS), unlogged)


def test_run_twice_while_the_first_replica_lives() -> None:
    sentences = found(outcome("answered", "b"), {"a": [at(20, "start")], "b": ANSWERED_BY_B})
    assert sentences == ["r (answered): run on a, which neither refused nor died silent, and again on b"]


def test_sent_again_after_a_silent_death() -> None:
    logs = {"a": [at(20, "start")], "b": ANSWERED_BY_B}
    assert found(outcome("answered", "b"), logs, {"a": [100 * MS]}) == []
    assert found(outcome("answered", "b"), logs, {"a": [300 * MS]}), "the second copy ran before the first died"


def test_sent_again_although_a_byte_was_answered() -> None:
    logs = {"a": [at(20, "start"), at(30, "byte")], "b": ANSWERED_BY_B}
    assert found(outcome("answered", "b"), logs, {"a": [100 * MS]})


def test_a_dropped_connection_is_a_502_and_not_sent_again() -> None:
    dropped = [at(20, "start"), at(25, "drop"), at(26, "gone")]
    assert found(outcome("502"), {"a": dropped, "b": []}) == []
    assert found(outcome("answered", "b"), {"a": dropped, "b": ANSWERED_BY_B})


def test_sent_again_after_a_refusal() -> None:
    assert found(outcome("answered", "b"), {"a": [at(20, "refuse")], "b": ANSWERED_BY_B}) == []


def test_a_death_belongs_to_the_life_in_which_the_copy_ran() -> None:
    reborn = ["110000000 boot -", at(120, "start")]
    assert found(outcome("broken off"), {"a": reborn, "b": []}, {"a": [5 * MS]}), "killed before it was asked"
    assert found(outcome("broken off"), {"a": reborn, "b": []}, {"a": [5 * MS, 130 * MS]}) == []


def test_502_needs_a_failure_after_which_nothing_may_be_sent_again() -> None:
    started, answering = [at(20, "start")], [at(20, "start"), at(30, "byte")]
    assert found(outcome("502"), {"a": answering, "b": []})
    assert found(outcome("502"), {"a": answering, "b": []}, {"a": [50 * MS]}) == []
    assert found(outcome("502"), {"a": started, "b": []}, {"a": [50 * MS]}), "b could have taken it"


def test_503_needs_a_refusal_or_an_outage() -> None:
    assert found(outcome("503"), {"a": [], "b": []})
    assert found(outcome("503"), {"a": [], "b": []}, {"a": [50 * MS]}), "b was up"
    assert found(outcome("503"), {"a": [], "b": []}, {"a": [50 * MS], "b": [60 * MS]}) == []
    assert found(outcome("503"), {"a": [at(20, "refuse")], "b": []}) == []


def test_broken_off_needs_a_death() -> None:
    started = [at(20, "start"), at(30, "byte")]
    assert found(outcome("broken off"), {"a": started, "b": []})
    assert found(outcome("broken off"), {"a": started, "b": []}, {"a": [50 * MS]}) == []


def test_an_abandoned_request_is_dropped_by_the_engine_within_a_second() -> None:
    assert found(outcome("abandoned"), {"a": [at(20, "start"), at(1400, "gone")], "b": []}) == []
    assert found(outcome("abandoned"), {"a": [at(20, "start"), at(1600, "gone")], "b": []})
    assert found(outcome("abandoned"), {"a": [at(20, "start")], "b": []})


def test_changed_bodies_and_unasked_requests() -> None:
    logs = {"a": [at(10, "corrupt"), *ANSWERED_BY_A], "b": []}
    assert found(outcome("answered"), logs) == ["r: its body arrived changed"]
    assert violations([], read_ledger({"a": [BOOT, at(20, "start")]}, {"a": []})) == ["r: nobody asked for it"]


@pytest.mark.parametrize(
    ("status", "received", "cut", "kind"),
    [
        (200, b'data: {"id": "r", "piece": 0}\n\ndata: {"id": "r", "piece": 1}\n\ndata: [DONE]\n\n', False, "answered"),
        (200, b'data: {"id": "r", "piece": 0}\n\ndata: {"error": {"code": 502}}\n\n', True, "broken off"),
        (200, b'data: {"error": {"code": 502}}\n\n', True, "broken off"),
        (200, b'data: {"id": "r", "piece": 0}\n\ndata: {"error": {"code": 502}}\n\n', False, "wrong"),  # a clean end
        (200, b'data: {"id": "r", "piece": 0}\n\n', True, "wrong"),  # no error event
        (200, b'data: {"id": "r", "piece": 0}\n\ndata: [DONE]\n\n', False, "wrong"),  # truncated, looks whole
        (200, b'data: {"id": "x", "piece": 0}\n\ndata: {"id": "x", "piece": 1}\n\ndata: [DONE]\n\n', False, "wrong"),
    ],
)
def test_judging_streams(status: int, received: bytes, cut: bool, kind: str) -> None:
    assert judge("r", status, True, received, cut, PLAN)[0] == kind


@pytest.mark.parametrize(
    ("status", "received", "cut", "kind"),
    [
        (200, b'{"id": "r", "text": "%b"}' % (b"x" * 200), False, "answered"),
        (200, b'{"id": "other", "text": "%b"}' % (b"x" * 200), False, "wrong"),
        (200, b'{"id": "r", "te', True, "broken off"),
        (502, b'{"error": {"message": "died"}}', False, "502"),
        (503, b'{"error": {"message": "none left"}}', False, "503"),
        (500, b'{"error": {"message": "bug"}}', False, "wrong"),
        (502, b"<html>", False, "wrong"),
        (400, b'{"error": {"message": "too long"}}', False, "wrong"),  # nobody asked for something invalid
    ],
)
def test_judging_answers(status: int, received: bytes, cut: bool, kind: str) -> None:
    assert judge("r", status, False, received, cut, PLAN)[0] == kind
