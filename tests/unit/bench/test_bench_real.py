"""What the bench on real engines demands of the adaptive policy."""

from bench.harness.loops import Turn
from bench.real.__main__ import Outcome, violations


def turn(loop: int, number: int, replica: str, cached: int = 6700, error: str = "") -> Turn:
    tokens = 0 if number == 1 else cached
    return Turn(f"talk-{loop}", "talk", number, 0.0, 0.1, 0.2, 6800, tokens, 16, replica, "", error)


def outcome(turns: list[Turn]) -> Outcome:
    return Outcome("adaptive", turns, [])


BURST = [turn(number, 1, "ab"[number % 2]) for number in range(16)]
NEXT = [turn(number, 2, "ab"[number % 2]) for number in range(16)]


def test_a_spread_burst_and_cached_turns_pass() -> None:
    assert violations(outcome(BURST + NEXT)) == []


def test_a_herd_is_found() -> None:
    herd = [turn(number, 1, "b" if number < 2 else "a") for number in range(16)]
    assert violations(outcome(herd)) == ["the burst went [14, 2] instead of to both replicas alike"]
    assert "[16]" in violations(outcome([turn(number, 1, "a") for number in range(16)]))[0]


def test_a_turn_that_left_its_replica_or_its_cache_is_found() -> None:
    assert violations(outcome([*BURST, turn(3, 2, "a")])) == ["talk-3 turn 2 left its replica"]
    assert violations(outcome([*BURST, turn(3, 2, "b", cached=4400)])) == ["talk-3 turn 2: 4400 of 6800 tokens cached"]


def test_a_failed_request_is_found() -> None:
    assert violations(outcome([*BURST, turn(3, 2, "b", error="cut")])) == ["talk-3 turn 2 failed: cut"]
