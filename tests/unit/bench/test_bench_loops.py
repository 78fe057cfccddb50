"""Agent loops: what they send, in which order, and when they end."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from bench.harness.endpoint import Answer, Client, Message
from bench.harness.loops import Loop, Turn, run, run_rounds


class Script:
    """A client that answers by `reply` and keeps what it was sent."""

    def __init__(self, reply: Callable[[list[Message]], Answer] | None = None) -> None:
        self.sent: list[list[Message]] = []
        self.together = self.most_together = 0
        self.together_by_length: dict[int, int] = {}
        self._reply = reply or (lambda messages: Answer(0.1, 0.2, text=f"answer {len(messages)}"))

    async def ask(self, messages: list[Message], max_tokens: int) -> Answer:
        self.sent.append(list(messages))
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        length = len(messages)
        self.together_by_length[length] = max(self.together_by_length.get(length, 0), self.together)
        await asyncio.sleep(0)
        self.together -= 1
        return self._reply(messages)


def hold(script: Script, loops: Sequence[Loop]) -> list[Turn]:
    return asyncio.run(run(cast(Client, script), loops))


def test_each_turn_sends_the_whole_conversation_again() -> None:
    script = Script()
    turns = hold(script, [Loop("a", system="be brief", document="DOC", turns=3)])
    assert [turn.number for turn in turns] == [1, 2, 3]
    assert [len(messages) for messages in script.sent] == [2, 4, 6]
    assert script.sent[2][:3] == [*script.sent[0], {"role": "assistant", "content": "answer 2"}]
    assert script.sent[0][1]["content"].startswith("DOC")
    assert sum(message["content"].count("DOC") for message in script.sent[2]) == 1


def test_a_fork_goes_on_with_its_parents_transcript_and_a_follower_starts_anew() -> None:
    script = Script()
    loops = [Loop("parent", turns=2), Loop("fork", after="parent", fork=True), Loop("next", after="parent")]
    turns = hold(script, loops)
    assert [turn.loop for turn in turns][:2] == ["parent", "parent"]
    fork, follower = script.sent[2:]
    assert fork[:3] == script.sent[1]
    assert len(fork) == 5
    assert len(follower) == 1


def test_a_loop_that_follows_a_later_one_is_refused() -> None:
    with pytest.raises(ValueError, match="follows b"):
        hold(Script(), [Loop("a", after="b"), Loop("b")])


def test_loops_run_at_the_same_time_and_end_at_their_first_failure() -> None:
    broken = Script(lambda messages: Answer(0.1, 0.1, error="cut") if len(messages) > 2 else Answer(0.1, 0.1))
    turns = hold(broken, [Loop("a", turns=9), Loop("b", turns=9)])
    assert broken.most_together == 2
    assert sorted((turn.loop, turn.number, turn.error) for turn in turns) == [
        ("a", 1, ""), ("a", 2, "cut"), ("b", 1, ""), ("b", 2, "cut"),
    ]  # fmt: skip


def test_no_turn_starts_after_the_end() -> None:
    assert hold(Script(), [Loop("a", turns=5, until=-1.0)]) == []


def test_rounds_change_their_order_so_that_no_counter_pins_by_accident() -> None:
    turns = asyncio.run(
        run_rounds(cast(Client, Script()), [Loop("a", turns=12), Loop("b", turns=12)], random.Random(1))
    )
    rounds = [tuple(turn.loop for turn in turns[at : at + 2]) for at in range(0, 24, 2)]
    assert set(rounds) == {("a", "b"), ("b", "a")}
    assert [turn.number for turn in turns] == [number for number in range(1, 13) for _ in range(2)]


def test_only_the_first_round_is_a_burst() -> None:
    script = Script()
    loops = [Loop(name, turns=2) for name in "abc"]
    asyncio.run(run_rounds(cast(Client, script), loops, random.Random(1), burst=True))
    assert script.together_by_length == {1: 3, 3: 1}
    alone = Script()
    asyncio.run(run_rounds(cast(Client, alone), loops, random.Random(1)))
    assert alone.most_together == 1
