"""Agent loops: conversations that send their whole history again with each turn, and what each turn cost.

Every workload here is a list of loops: a cold burst is sixteen loops of one turn, a soak is loops without an end.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .endpoint import Client, Message
from .text import code_text


@dataclass(frozen=True)
class Loop:
    """One conversation. Lengths are characters, times wall seconds since the run began.

    Attributes:
        name: unique; prompts of loops with other names have nothing in common but `system` and `document`.
        family: groups loops in a report.
        system: system prompt, the same text for loops that share one; empty for none.
        document: what the first user message starts with.
        turns: how many; with `until`, at most.
        question: length of what each turn adds.
        answer_tokens: most that an answer may have.
        after: the loop that must have ended before this one starts.
        fork: start from the transcript of `after`, as a subagent does.
        start: when the first turn is sent.
        until: no turn is sent later than that.
    """

    name: str
    family: str = ""
    system: str = ""
    document: str = ""
    turns: int = 1
    question: int = 400
    answer_tokens: int = 64
    after: str = ""
    fork: bool = False
    start: float = 0.0
    until: float = float("inf")

    def opening(self) -> list[Message]:
        """The messages before the first turn."""
        return [{"role": "system", "content": self.system}] if self.system else []

    def ask(self, number: int) -> Message:
        """The user's message of turn `number`, counted from 1."""
        content = code_text(f"{self.name} {number}", self.question) + f"\nReview step {number} of {self.name}."
        first = number == 1 and not self.fork
        return {"role": "user", "content": self.document + content if first and self.document else content}


@dataclass(frozen=True)
class Turn:
    """One request of a loop and its answer. Times are seconds; `started` counts from the beginning of the run."""

    loop: str
    family: str
    number: int
    started: float
    ttft: float
    seconds: float
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    replica: str
    decision: str
    error: str

    @property
    def cached_share(self) -> float | None:
        """Part of the prompt that came from the cache; None if the engine does not tell."""
        return None if self.cached_tokens is None else self.cached_tokens / max(1, self.prompt_tokens)


async def run(client: Client, loops: Sequence[Loop], on_turn: Callable[[Turn], None] | None = None) -> list[Turn]:
    """Run all loops at once (each after the one it names) and return their turns in the order they ended.

    A loop ends at its first failed turn: what an agent would send next is not known. ValueError for a loop that
    follows one that is not before it in `loops`.
    """
    began = time.monotonic()
    turns: list[Turn] = []
    transcripts: dict[str, asyncio.Future[list[Message]]] = {}
    for loop in loops:
        if loop.after and loop.after not in transcripts:
            raise ValueError(f"loop {loop.name} follows {loop.after}, which is not before it")
        transcripts[loop.name] = asyncio.get_running_loop().create_future()

    def note(turn: Turn) -> None:
        turns.append(turn)
        if on_turn:
            on_turn(turn)

    async def hold(loop: Loop) -> None:
        messages = loop.opening()
        try:
            if loop.after:
                inherited = await transcripts[loop.after]
                messages = list(inherited) if loop.fork else messages
            await asyncio.sleep(max(0.0, began + loop.start - time.monotonic()))
            await _converse(client, loop, messages, began, note)
        finally:
            transcripts[loop.name].set_result(messages)

    async with asyncio.TaskGroup() as tasks:
        for loop in loops:
            tasks.create_task(hold(loop))
    return turns


async def _converse(
    client: Client, loop: Loop, messages: list[Message], began: float, note: Callable[[Turn], None]
) -> None:
    """Hold one conversation, adding to `messages`."""
    for number in range(1, loop.turns + 1):
        started = time.monotonic() - began
        if started > loop.until:
            return
        turn = await _take_turn(client, loop, number, messages, started)
        note(turn)
        if turn.error:
            return


async def _take_turn(client: Client, loop: Loop, number: int, messages: list[Message], started: float) -> Turn:
    """Send one turn; add it and its answer to `messages`."""
    messages.append(loop.ask(number))
    answer = await client.ask(messages, loop.answer_tokens)
    messages.append({"role": "assistant", "content": answer.text})
    return Turn(
        loop.name, loop.family or loop.name, number, started, answer.ttft, answer.seconds, answer.prompt_tokens,
        answer.cached_tokens, answer.output_tokens, answer.replica, answer.decision, answer.error,
    )  # fmt: skip


async def run_rounds(
    client: Client, loops: Sequence[Loop], rng: random.Random, burst: bool = False,
    on_turn: Callable[[Turn], None] | None = None,
) -> list[Turn]:  # fmt: skip
    """Run the loops turn by turn, one request at a time, each round in another order, and return the turns.

    The order must change: with an even number of loops in a fixed one, a bare counter pins each to a replica by
    accident. `burst` sends the first turns all at once. `start`, `until`, `after` and `fork` are ignored; a loop ends
    at its first failed turn.
    """
    began = time.monotonic()
    turns: list[Turn] = []
    transcripts = {loop.name: loop.opening() for loop in loops}

    async def take(loop: Loop, number: int) -> None:
        turns.append(await _take_turn(client, loop, number, transcripts[loop.name], time.monotonic() - began))
        if on_turn:
            on_turn(turns[-1])

    for number in range(1, max(loop.turns for loop in loops) + 1):
        failed = {turn.loop for turn in turns if turn.error}
        order = [loop for loop in loops if number <= loop.turns and loop.name not in failed]
        rng.shuffle(order)
        if number == 1 and burst:
            await asyncio.gather(*(take(loop, number) for loop in order))
        else:
            for loop in order:
                await take(loop, number)
    return turns
