"""Requests that name where they belong: sessions and stored responses."""

from collections.abc import Mapping

import pytest
from routing_proxy.identity import Identity
from routing_proxy.routing import POLICIES, Choice, Decision, Router

A, B, C = "replica-a", "replica-b", "replica-c"
ALL = (A, B, C)
IDLE: Mapping[str, int] = {}


def session(name: str, *boundaries: bytes) -> Identity:
    return Identity(name, None, boundaries, boundaries[0] if boundaries else None, None, len(boundaries) > 2)


def response(name: str) -> Identity:
    return Identity(None, name)


@pytest.fixture
def router() -> Router:
    return Router("adaptive", ALL)


# Sessions


def test_new_sessions_are_placed_in_turn(router: Router) -> None:
    for name, replica in (("s1", A), ("s2", B), ("s3", C)):
        assert router.choose(session(name), ALL, IDLE) == Choice(replica, Decision.SESSION)
        router.record(session(name), replica)


def test_a_session_stays_whatever_it_sends_and_however_busy_its_replica_is(router: Router) -> None:
    router.record(session("s", b"1"), B)
    router.record(Identity(None, None, (b"2",), b"2"), A)
    assert router.choose(session("s", b"other"), ALL, {B: 9}) == Choice(B, Decision.SESSION)
    assert router.choose(session("s", b"2", b"3"), ALL, IDLE) == Choice(B, Decision.SESSION)


def test_an_unknown_session_goes_where_its_conversation_is(router: Router) -> None:
    router.record(Identity(None, None, (b"1",), b"1"), C)
    assert router.choose(session("new", b"1", b"2"), ALL, IDLE) == Choice(C, Decision.SESSION)


def test_a_session_is_on_record_by_its_conversation_too(router: Router) -> None:
    router.record(session("s", b"1"), B)
    assert router.choose(Identity(None, None, (b"1", b"2"), b"1"), ALL, IDLE) == Choice(B, Decision.PINNED)


def test_a_session_fails_over_and_stays_there(router: Router) -> None:
    router.record(session("s"), A)
    assert router.choose(session("s"), (B, C), {B: 1}) == Choice(C, Decision.FAILOVER)
    router.record(session("s"), C)
    assert router.choose(session("s"), ALL, IDLE) == Choice(C, Decision.SESSION)


def test_a_session_is_forgotten_with_its_replica(router: Router) -> None:
    router.record(session("s"), B)
    router.forget(B)
    assert router.pins(B) == 0
    assert router.choose(session("s"), ALL, {B: 1, A: 1}) == Choice(C, Decision.SESSION)


# Stored responses


@pytest.mark.parametrize("policy", POLICIES)
def test_a_response_is_asked_of_its_maker_under_every_policy(policy: str) -> None:
    router = Router(policy, ALL)
    router.record_response("resp_1", C)
    for prefix in (None, b"1", b"2", b"3"):
        request = Identity(None, "resp_1", prefix=prefix)
        assert router.choose(request, ALL, {C: 9}) == Choice(C, Decision.PINNED)


def test_a_response_comes_before_the_session(router: Router) -> None:
    router.record_response("resp_1", C)
    router.record(session("s"), A)
    assert router.choose(Identity("s", "resp_1"), ALL, IDLE) == Choice(C, Decision.PINNED)
    assert router.choose(Identity("s", "resp_unknown"), ALL, IDLE) == Choice(A, Decision.SESSION)


def test_unknown_responses_are_spread(router: Router) -> None:
    assert [router.choose(response("resp_x"), ALL, IDLE) for _ in range(3)] == [
        Choice(replica, Decision.SPREAD) for replica in ALL
    ]


def test_a_restarted_maker_is_still_asked_so_that_it_says_itself_that_it_is_gone(router: Router) -> None:
    router.record_response("resp_1", C)
    router.forget(C)
    assert router.choose(response("resp_1"), ALL, IDLE) == Choice(C, Decision.PINNED)


def test_the_owner_of_a_response_is_known_when_it_takes_no_new_work(router: Router) -> None:
    router.record_response("resp_1", C)
    assert router.owner(response("resp_1")) == C
    assert router.choose(response("resp_1"), (A, B), {A: 1}) == Choice(B, Decision.FAILOVER)
    assert router.owner(response("resp_2")) is None
    assert router.owner(session("s")) is None


def test_responses_are_bounded_and_are_not_conversations() -> None:
    router = Router("adaptive", ALL, max_records=2)
    for number in range(3):
        router.record_response(f"resp_{number}", A)
    assert [router.owner(response(f"resp_{number}")) for number in range(3)] == [None, A, A]
    assert router.pins(A) == 0


def test_a_response_and_a_session_of_one_name_are_two_things(router: Router) -> None:
    router.record_response("x", C)
    router.record(session("x"), A)
    assert router.choose(session("x"), ALL, IDLE) == Choice(A, Decision.SESSION)
    assert router.choose(response("x"), ALL, IDLE) == Choice(C, Decision.PINNED)


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 1_000_000, "\0"])
def test_any_name_is_legal(router: Router, name: str) -> None:
    router.record(session(name), B)
    router.record_response(name, B)
    assert router.choose(session(name), ALL, IDLE) == Choice(B, Decision.SESSION)
