"""The routing policies, one rule a test."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from routing_proxy.identity import Identity
from routing_proxy.routing import Choice, Decision, Router, Snapshot

A, B, C = "replica-a", "replica-b", "replica-c"
IDLE: Mapping[str, int] = {}


def turn(*messages: str, session: str | None = None, prefix: str | None = None) -> Identity:
    """A conversation of user and assistant messages in turns; each boundary spells what is before it."""
    boundaries = tuple("/".join(messages[:end]).encode() for end in range(1, len(messages) + 1))
    window = prefix.encode() if prefix else None
    return Identity(session, None, boundaries, boundaries[0], window, len(messages) > 2)


def serve(
    router: Router, identity: Identity, serving: Sequence[str] = (A, B), load: Mapping[str, int] = IDLE
) -> Choice:
    """Choose and record, as the proxy does."""
    choice = router.choose(identity, serving, load)
    assert choice is not None
    router.record(identity, choice.replica)
    return choice


def adaptive(*replicas: str, max_records: int = 1000) -> Router:
    return Router("adaptive", replicas or (A, B), max_records)


# Spread


def test_fresh_conversations_alternate_at_concurrency_one() -> None:
    router = adaptive()
    assert [serve(router, turn(f"q{i}")) for i in range(4)] == [
        Choice(A, Decision.SPREAD),
        Choice(B, Decision.SPREAD),
        Choice(A, Decision.SPREAD),
        Choice(B, Decision.SPREAD),
    ]


def test_the_replica_with_fewest_requests_in_flight_comes_first() -> None:
    router = adaptive(A, B, C)
    assert serve(router, turn("q1"), (A, B, C), {A: 2, B: 1, C: 3}).replica == B
    assert serve(router, turn("q2"), (A, B, C), {A: 2, B: 2, C: 2}).replica == A
    assert serve(router, turn("q3"), (A, B, C), {A: 2, C: 2}).replica == B


def test_equals_take_turns_whatever_was_pinned_meanwhile() -> None:
    router = adaptive()
    serve(router, turn("q"))
    for end in range(3, 20, 2):
        serve(router, turn("q", *map(str, range(end - 1))))
    assert serve(router, turn("other")).replica == B


def test_what_cannot_be_identified_is_spread_and_not_recorded() -> None:
    router = adaptive()
    picked = Counter(serve(router, Identity()).replica for _ in range(10))
    assert picked == {A: 5, B: 5}
    assert router.pins(A) == router.pins(B) == 0


@pytest.mark.parametrize("policy", ["adaptive", "roundrobin"])
def test_requests_between_the_chats_do_not_take_their_turns(policy: str) -> None:
    router = Router(policy, (A, B))
    chats, others = set(), set()
    for number in range(4):
        others.add(serve(router, Identity()).replica)
        chats.add(serve(router, turn(f"q{number}")).replica)
    assert chats == others == {A, B}


def test_nobody_serves() -> None:
    assert adaptive().choose(turn("q"), (), IDLE) is None


def test_identical_requests_are_spread() -> None:
    router = adaptive()
    assert [serve(router, turn("same")).decision for _ in range(4)] == [Decision.SPREAD] * 4


# Continuations


def test_a_continuation_goes_where_its_prefix_was_served_however_busy() -> None:
    router = adaptive()
    serve(router, turn("p"))
    home = serve(router, turn("q")).replica
    assert serve(router, turn("q", "a", "r"), load={home: 50}) == Choice(home, Decision.PINNED)
    assert serve(router, turn("q", "a", "r", "b", "s")) == Choice(home, Decision.PINNED)


def test_the_longest_prefix_on_record_wins() -> None:
    router = adaptive()
    router.record(turn("q"), A)
    router.record(turn("q", "a", "r"), B)
    assert serve(router, turn("q", "a", "r", "b", "s")).replica == B
    assert serve(router, turn("q", "x", "r")).replica == A


def test_a_whole_list_on_record_does_not_pin_itself() -> None:
    router = adaptive()
    serve(router, turn("p"))
    router.record(turn("q"), A)
    assert serve(router, turn("q")) == Choice(B, Decision.SPREAD)


def test_an_edited_last_message_and_forks_stay_with_the_prefix() -> None:
    router = adaptive()
    serve(router, turn("p"))
    home = serve(router, turn("doc")).replica
    serve(router, turn("doc", "a", "q1"))
    assert {serve(router, turn("doc", "a", f"q{i}")).replica for i in range(2, 20)} == {home}


def test_a_later_user_message_without_an_answer_is_no_history() -> None:
    router = adaptive()
    picked = [serve(router, turn("doc", f"q{i}")) for i in range(4)]
    assert [choice.replica for choice in picked] == [A, B, A, B]


@pytest.mark.parametrize("replicas", [(A, B), (A, B, C)])
def test_history_that_nobody_remembers_lands_on_one_replica_by_its_root(replicas: tuple[str, ...]) -> None:
    homes = {}
    for root in map(str, range(60)):
        choices = {serve(adaptive(*replicas), turn(root, "a", f"q{i}"), replicas) for i in range(5)}
        assert len(choices) == 1
        (homes[root],) = choices
    assert {choice.decision for choice in homes.values()} == {Decision.PINNED}
    assert {choice.replica for choice in homes.values()} == set(replicas)
    for root, choice in homes.items():  # one replica less moves only what it had
        left = tuple(replica for replica in replicas if replica != C)
        if choice.replica in left:
            assert serve(adaptive(*left), turn(root, "a", "q"), left) == choice


# Failover and restart


def test_a_pinned_conversation_fails_over_to_the_least_loaded_and_stays_there() -> None:
    router = adaptive(A, B, C)
    router.record(turn("q"), A)
    assert serve(router, turn("q", "a", "r"), (B, C), {B: 2, C: 1}) == Choice(C, Decision.FAILOVER)
    assert serve(router, turn("q", "a", "r", "b", "s"), (A, B, C)) == Choice(C, Decision.PINNED)


def test_a_restarted_replicas_conversations_are_forgotten() -> None:
    router = adaptive()
    router.record(turn("q"), A)
    router.record(turn("p"), B)
    router.forget(A)
    assert (router.pins(A), router.pins(B)) == (0, 1)
    assert router.choose(turn("q", "a"), (A, B), {A: 1}) == Choice(B, Decision.SPREAD)
    assert router.choose(turn("p", "a"), (A, B), {B: 1}) == Choice(B, Decision.PINNED)


def test_a_prefix_of_two_joined_conversations_belongs_to_the_first_one() -> None:
    router = adaptive()
    router.record(turn("a"), A)
    router.record(turn("b"), B)
    assert serve(router, turn("b", "x", "a")).replica == B


# Bounds and counts


def test_the_longest_unused_conversation_is_forgotten_first() -> None:
    router = adaptive(max_records=2)
    router.record(turn("old"), A)
    router.record(turn("new"), A)
    assert router.choose(turn("old", "a"), (A, B), IDLE) == Choice(A, Decision.PINNED)  # used again
    router.record(turn("newest"), A)
    assert router.pins(A) == 2
    assert router.choose(turn("old", "a"), (A, B), {A: 1}) == Choice(A, Decision.PINNED)
    assert router.choose(turn("new", "a"), (A, B), {A: 1}) == Choice(B, Decision.SPREAD)


def test_pins_count_conversations_not_turns() -> None:
    router = adaptive()
    for identity in (turn("q"), turn("q", "a", "r"), turn("q", "a", "x"), turn("p"), turn("s", session="s1")):
        router.record(identity, A)
    router.record(turn("another agent of the session", session="s1"), A)
    router.record(Identity("s2"), A)
    assert router.pins(A) == 4
    router.record(turn("p"), B)
    assert (router.pins(A), router.pins(B)) == (3, 1)


def test_the_revision_changes_with_the_records_alone() -> None:
    router = adaptive()
    before = router.revision
    router.choose(turn("q"), (A, B), IDLE)
    router.record(Identity(), A)
    router.forget(A)
    assert router.revision == before
    for change in (
        lambda: router.record(turn("q"), A),
        lambda: router.record_response("resp_1", A),
        lambda: router.forget(A),
        lambda: router.load(Snapshot([(b"k", A, b"c")], [])),
    ):
        change()
        assert router.revision != before
        before = router.revision


# The other policies


def test_roundrobin_is_the_counter_alone() -> None:
    router = Router("roundrobin", (A, B))
    picked = [serve(router, turn("q", *"ar" * i, session="s", prefix="x"), load={A: 9}) for i in range(6)]
    assert picked == [Choice(A, Decision.SPREAD), Choice(B, Decision.SPREAD)] * 3


def test_roundrobin_takes_the_turns_of_chats_for_requests_that_were_not_read() -> None:
    router = Router("roundrobin", (A, B))
    chats, others = set(), set()
    for _ in range(4):
        others.add(serve(router, Identity()).replica)
        chats.add(serve(router, Identity(asks=True)).replica)
    assert chats == others == {A, B} and router.pins(A) == router.pins(B) == 0


def test_affinity_sends_a_burst_with_one_prefix_to_one_replica() -> None:
    router = Router("affinity", (A, B))
    burst = {serve(router, turn(f"q{i}", prefix="system")) for i in range(16)}
    assert len(burst) == 1
    assert burst.pop().decision == Decision.PINNED
    assert {serve(router, turn("q", prefix=str(i))).replica for i in range(16)} == {A, B}


def test_affinity_does_not_pin_turns_whose_prefix_differs() -> None:
    router = Router("affinity", (A, B))
    assert {serve(router, turn("q", *map(str, range(i)), prefix=str(i))).replica for i in range(16)} == {A, B}


def test_affinity_spreads_what_has_no_prefix() -> None:
    router = Router("affinity", (A, B))
    assert [serve(router, Identity()) for _ in range(2)] == [Choice(A, Decision.SPREAD), Choice(B, Decision.SPREAD)]


def test_an_unknown_policy_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match=r"'random'.*adaptive, roundrobin, affinity"):
        Router("random", (A, B))
