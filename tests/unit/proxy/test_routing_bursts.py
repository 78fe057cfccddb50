"""Bursts and turns, from the bytes of the requests on: a burst is spread, and every later turn goes home."""

import json
import random
from collections import Counter
from typing import Any

import pytest
from routing_proxy.identity import Identity, identify
from routing_proxy.routing import Decision, Router

NAMES = ("replica-a", "replica-b", "replica-c")
SHARED = "You are an agent with these rules. " * 900  # 30 kB
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class Fleet:
    """A router, the requests in flight at its replicas, and who got how many."""

    def __init__(self, replicas: int, policy: str = "adaptive") -> None:
        self.names = NAMES[:replicas]
        self.router = Router(policy, self.names)
        self.in_flight: Counter[str] = Counter()

    def send(self, identity: Identity) -> tuple[str, Decision]:
        """Begin a request."""
        choice = self.router.choose(identity, self.names, self.in_flight)
        assert choice is not None
        self.router.record(identity, choice.replica)
        self.in_flight[choice.replica] += 1
        return choice.replica, choice.decision


def chat(messages: list[dict[str, Any]]) -> Identity:
    return identify("POST", CHAT, None, json.dumps({"messages": messages}).encode())


def opening(system: str, question: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


def answered(messages: list[dict[str, Any]], question: str) -> list[dict[str, Any]]:
    return [*messages, {"role": "assistant", "content": f"Well, {question}"}, {"role": "user", "content": question}]


def assert_even(counts: Counter[str], replicas: int) -> None:
    assert len(counts) == replicas
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("system", [SHARED, "Be brief."], ids=["30 kB", "short"])
@pytest.mark.parametrize("concurrent", [True, False], ids=["at once", "one by one"])
def test_a_burst_is_spread_evenly_and_all_later_turns_are_pinned(replicas: int, system: str, concurrent: bool) -> None:
    fleet = Fleet(replicas)
    order = random.Random(1)
    conversations = {number: opening(system, f"Question {number}") for number in range(16)}
    home = {}
    for number, messages in conversations.items():
        home[number], decision = fleet.send(chat(messages))
        assert decision == Decision.SPREAD
        if not concurrent:
            fleet.in_flight.clear()
    assert_even(Counter(home.values()), replicas)

    for round_ in range(5):
        numbers = order.sample(sorted(conversations), k=16)
        for number in numbers:
            conversations[number] = answered(conversations[number], f"and {round_}?")
            assert fleet.send(chat(conversations[number])) == (home[number], Decision.PINNED)
            fleet.in_flight.subtract({home[number]: order.randint(0, 1)})


@pytest.mark.parametrize("replicas", [2, 3])
def test_identical_members_of_a_burst_are_spread(replicas: int) -> None:
    fleet = Fleet(replicas)
    burst = [fleet.send(chat(opening(SHARED, "Write a poem."))) for _ in range(16)]
    assert_even(Counter(replica for replica, _ in burst), replicas)
    assert {decision for _, decision in burst} == {Decision.SPREAD}


@pytest.mark.parametrize("replicas", [2, 3])
def test_a_burst_of_prompts_with_one_template_is_spread_and_each_may_grow(replicas: int) -> None:
    def prompt(text: str) -> Identity:
        return identify("POST", COMPLETIONS, None, json.dumps({"prompt": text}).encode())

    fleet = Fleet(replicas)
    prompts = [f"{SHARED}\nQuestion {number}: {'why ' * (20 + 5 * number)}" for number in range(16)]
    burst = [fleet.send(prompt(text)) for text in prompts]
    assert_even(Counter(replica for replica, _ in burst), replicas)
    for text, (replica, _) in zip(prompts, burst, strict=True):
        assert fleet.send(prompt(f"{text}\nAnswer: because.\nAnd then? {'x' * 100}")) == (replica, Decision.PINNED)


def test_forks_of_one_long_conversation_stay_with_it() -> None:
    fleet = Fleet(3)
    fleet.send(chat(opening("Be brief.", "another one")))
    base = opening("Be brief.", "Here is a document.")
    home, _ = fleet.send(chat(base))
    for number in range(100):
        base = answered(base, f"page {number}")
        fleet.send(chat(base))
    forks = [fleet.send(chat(answered(base, f"fork {number}"))) for number in range(16)]
    assert set(forks) == {(home, Decision.PINNED)}


def test_affinity_fails_as_it_was_measured() -> None:
    fleet = Fleet(2, "affinity")
    assert len({fleet.send(chat(opening(SHARED, f"Question {number}"))) for number in range(16)}) == 1
    short = opening("Be brief.", "q")
    seen = set()
    for number in range(16):
        seen.add(fleet.send(chat(short))[0])
        short = answered(short, str(number))
    assert len(seen) == 2
