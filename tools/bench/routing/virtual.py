"""The same workloads on pure engines in virtual time, with the proxy's own router: exact and fast."""

import heapq
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.harness.endpoint import Message
from bench.harness.loops import Loop, Turn
from bench.harness.text import code_text
from engine_simulator.deployment import DEPLOYED_FLAGS, build_engine
from engine_simulator.engine import Engine, Step
from engine_simulator.flags import parse
from engine_simulator.sequence import Sequence as Generation
from engine_simulator.sizing import size_kv_cache
from engine_simulator.tokens import TOKEN_BYTES, chat_prompt, text_prompt
from routing_proxy.identity import identify

from .policies import Policy, Request

PATH = "/v1/chat/completions"


@dataclass
class _Out:
    """A request on its way."""

    loop: Loop
    number: int
    messages: list[Message]
    answer: str
    request: Request
    replica: str
    arrived: float
    first: float = 0.0


@dataclass
class VirtualFleet:
    """Engines behind a policy. `run` may be called once.

    Attributes:
        policy: who decides.
        cards: number of engines.
    """

    policy: Policy
    cards: int = 2
    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = parse(DEPLOYED_FLAGS, {})
        ledger = size_kv_cache(settings.shape)
        self.names = replica_names(self.cards)
        self._engines: dict[str, Engine] = {name: build_engine(settings, ledger) for name in self.names}
        self._out: dict[Generation, _Out] = {}
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._stepping: set[str] = set()
        self._followers: dict[str, list[Loop]] = {}

    def run(self, loops: Sequence[Loop]) -> list[Turn]:
        """Serve the loops and return their turns in the order they ended; times are seconds of model time."""
        for loop in loops:
            if loop.after:
                self._followers.setdefault(loop.after, []).append(loop)
            else:
                self._at(loop.start, self._starter(loop, loop.opening()))
        while self._events:
            now, _, act = heapq.heappop(self._events)
            act(now)
            # All that arrives at this moment is in the queue before an engine plans its next step.
            if not self._events or self._events[0][0] > now:
                self._begin_steps(now)
        return self.turns

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))

    def _starter(self, loop: Loop, messages: list[Message]) -> Callable[[float], None]:
        return lambda now: self._send(loop, 1, messages, now)

    def _send(self, loop: Loop, number: int, messages: list[Message], now: float) -> None:
        messages.append(loop.ask(number))
        prompt = chat_prompt(messages)
        body = json.dumps({"messages": messages}).encode()
        request = Request(identify("POST", PATH, None, body), prompt)
        replica = self.policy.choose(request, self.names)
        answer = code_text(f"answer {loop.name} {number}", loop.answer_tokens * TOKEN_BYTES)
        generation = Generation(prompt, text_prompt(answer))
        self._out[generation] = _Out(loop, number, messages, answer, request, replica, now)
        self._engines[replica].add(generation)

    def _begin_steps(self, now: float) -> None:
        for name, engine in self._engines.items():
            while name not in self._stepping and not engine.idle:
                step = engine.begin_step()
                if step is not None:
                    self._stepping.add(name)
                    self._at(now + step.seconds, self._finisher(name, step))

    def _finisher(self, name: str, step: Step) -> Callable[[float], None]:
        return lambda now: self._finish(name, step, now)

    def _finish(self, name: str, step: Step, now: float) -> None:
        self._stepping.discard(name)
        for part in self._engines[name].finish_step(step):
            out = self._out[part.sequence]
            if part.new_tokens and not out.first:
                out.first = now
                self.policy.first_token(out.request, out.replica)
            if part.finished:
                self._end(part.sequence, self._out.pop(part.sequence), now)

    def _end(self, generation: Generation, out: _Out, now: float) -> None:
        loop = out.loop
        self.policy.ended(out.request, out.replica)
        self.turns.append(Turn(
            loop.name, loop.family or loop.name, out.number, out.arrived, out.first - out.arrived, now - out.arrived,
            generation.prompt_tokens, generation.cached_tokens, generation.output_tokens, out.replica, "", "",
        ))  # fmt: skip
        out.messages.append({"role": "assistant", "content": out.answer})
        if out.number < loop.turns:
            self._send(loop, out.number + 1, out.messages, now)
            return
        for follower in self._followers.get(loop.name, ()):
            messages = list(out.messages) if follower.fork else follower.opening()
            self._at(max(now, follower.start), self._starter(follower, messages))


def replica_names(count: int) -> list[str]:
    """Names of `count` replicas, as the deployment names them."""
    return [f"frank-medium-{chr(97 + index)}" for index in range(count)]
