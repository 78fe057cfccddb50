"""The state of one replica and its progress, without sockets or clocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_proxy.progress import Progress
from routing_proxy.replicas import FAILED_CHECKS, Replica, State


def serving() -> Replica:
    replica = Replica("frank-medium-a", 0.0)
    replica.check_passed(1.0)
    return replica


def shown(replica: Replica) -> str:
    return replica.state.value


def test_a_new_replica_is_down_until_it_is_checked() -> None:
    replica = Replica("frank-medium-a", 0.0)
    assert (replica.state, replica.reason) == (State.DOWN, "not checked yet")
    assert replica.check_passed(1.0)
    assert (replica.state, replica.reason, replica.since) == (State.UP, "", 1.0)


def test_only_bad_answers_in_a_row_demote() -> None:
    replica = serving()
    for now in range(10):
        for _ in range(FAILED_CHECKS - 1):
            assert not replica.check_failed("timed out", True, now)
        assert not replica.check_passed(now)
    for _ in range(FAILED_CHECKS - 1):
        assert not replica.check_failed("timed out", True, 20.0)
    assert replica.check_failed("timed out", True, 21.0)
    assert (replica.state, replica.reason, replica.since) == (State.DOWN, "timed out", 21.0)
    assert replica.check_passed(22.0)


def test_a_failed_connection_demotes_at_once_and_later_failures_keep_since() -> None:
    replica = serving()
    assert replica.connect_failed("connection refused", 2.0)
    assert not replica.check_failed("timed out", True, 3.0)
    assert (replica.state, replica.reason, replica.since) == (State.DOWN, "timed out", 2.0)


def test_what_keeps_requests_away_longest_is_shown() -> None:
    replica = serving()
    replica.stall("no step", 2.0)
    assert (replica.state, replica.reason) == (State.STALLED, "no step")
    replica.drain(True, 3.0)
    assert replica.state is State.DRAINING
    replica.connect_failed("connection refused", 4.0)
    assert (replica.state, replica.reason) == (State.DOWN, "connection refused, draining")
    replica.check_passed(5.0)
    assert shown(replica) == "draining"
    replica.drain(False, 6.0)
    assert shown(replica) == "stalled"
    replica.stall("", 7.0)
    assert (replica.state, replica.since) == (State.UP, 7.0)


@pytest.mark.parametrize(
    ("prepare", "badness"),
    [
        (lambda replica: replica.stall("no step", 2.0), 0),
        (lambda replica: [replica.check_failed("/health answered 500", True, 2.0) for _ in range(3)], 1),
        (lambda replica: [replica.check_failed("connection refused", False, 2.0) for _ in range(3)], None),
        (lambda replica: replica.connect_failed("connection refused", 2.0), None),
        (lambda replica: replica.drain(True, 2.0), None),
    ],
)
def test_the_least_bad_is_what_may_still_serve(prepare: object, badness: int | None) -> None:
    replica = serving()
    assert callable(prepare)
    prepare(replica)
    assert replica.badness() == badness


@given(
    st.lists(
        st.tuples(st.sampled_from(["pass", "fail", "connect", "drain", "undrain", "stall", "move"]), st.booleans())
    )
)
def test_a_change_is_reported_exactly_when_the_state_changes(events: list[tuple[str, bool]]) -> None:
    replica = Replica("frank-medium-a", 0.0)
    for now, (event, reachable) in enumerate(events, 1):
        before = replica.state
        observe, *seen = {
            "pass": (replica.check_passed,),
            "fail": (replica.check_failed, "bad", reachable),
            "connect": (replica.connect_failed, "refused"),
            "drain": (replica.drain, True),
            "undrain": (replica.drain, False),
            "stall": (replica.stall, "hung"),
            "move": (replica.stall, ""),
        }[event]
        changed = observe(*seen, now)
        assert changed == (replica.state is not before)
        assert (replica.since == now) == changed
        assert (replica.reason == "") == (replica.state is State.UP)


class TestProgress:
    def test_bytes_are_progress(self) -> None:
        progress = Progress(120)
        progress.moved(100)
        assert not progress.is_stalled(219)
        assert progress.is_stalled(220)
        progress.moved(220)
        assert not progress.is_stalled(221)

    def test_the_first_count_of_a_silence_is_no_step_and_a_changed_one_is(self) -> None:
        progress = Progress(120)
        assert progress.is_silent(30)
        progress.counted(7, 30)
        progress.counted(7, 60)
        assert progress.is_stalled(120)
        progress.counted(8, 121)
        assert not progress.is_stalled(121)

    def test_counts_of_an_earlier_silence_do_not_matter(self) -> None:
        progress = Progress(120)
        assert progress.is_silent(30)
        progress.counted(7, 30)
        progress.moved(40)
        assert not progress.is_silent(50)
        assert progress.is_silent(70)
        progress.counted(9, 70)
        assert progress.is_stalled(160)

    def test_a_counter_that_can_not_be_read_is_no_step(self) -> None:
        progress = Progress(120)
        assert progress.is_silent(30)
        for now in range(30, 120, 5):
            progress.counted(None, now)
        assert progress.is_stalled(120)
