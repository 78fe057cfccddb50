"""Runs the pure engine in real time and hands each request what the engine made for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass

from .engine import Engine, Progress
from .errors import ENGINE_DEAD
from .faults import Faults
from .metrics import Metrics
from .sequence import Sequence

_LARGEST_LAG = 0.1
"""Wall seconds the model may be late before it stops catching up (a busy machine, a suspended process)."""


class EngineDead(Exception):
    """The engine died while a request was in it."""

    def __init__(self) -> None:
        super().__init__(ENGINE_DEAD)


@dataclass(frozen=True)
class Event:
    """Tokens `start` to before `end` of answer number `index` are there; the last one carries its `finish_reason`."""

    index: int
    start: int
    end: int
    finish_reason: str | None


@dataclass
class _Tracked:
    """One sequence of a generation and its times, in seconds of the monotonic clock."""

    generation: "Generation"
    index: int
    finish_reason: str
    arrived: float
    seated: float | None = None
    first_token: float | None = None
    last_token: float = 0.0


class Generation:
    """The answers to one request, which may be several. Iterate over it for events; close it to abort what is left.

    Args:
        runner: whose engine works on it.
        sequences: one for each answer.
        finish_reasons: what ends each answer when it is complete.
        max_tokens: the greatest length asked for, for the metrics.
    """

    def __init__(
        self, runner: "Runner", sequences: Items[Sequence], finish_reasons: Items[str], max_tokens: int
    ) -> None:
        self.sequences = sequences
        self.finish_reasons = finish_reasons
        self.max_tokens = max_tokens
        self.queue: asyncio.Queue[Event | EngineDead] = asyncio.Queue()
        self._runner = runner
        self._unfinished = len(sequences)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield events until every answer is complete.

        Raises:
            EngineDead: the engine died.
        """
        while self._unfinished:
            event = await self.queue.get()
            if isinstance(event, EngineDead):
                raise event
            if event.finish_reason is not None:
                self._unfinished -= 1
            yield event

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that needed no computing."""
        return sum(sequence.cached_tokens for sequence in self.sequences)

    def close(self) -> None:
        """Take what is unfinished out of the engine."""
        self._runner.abort(self.sequences)


class Runner:
    """Steps an engine while it has work; sleeps otherwise.

    Args:
        engine: the model.
        metrics: where to record what happens.
        faults: what is wrong at present; may change at any time (call `wake` then).
        time_scale: wall seconds per second of model time.
        die: called once, with the faults, when the engine dies.
    """

    def __init__(
        self, engine: Engine, metrics: Metrics, faults: Faults, time_scale: float, die: Callable[[Faults], None]
    ) -> None:
        self.engine = engine
        self.metrics = metrics
        self.faults = faults
        self.dead = False
        self._time_scale = time_scale
        self._die = die
        self._live: dict[Sequence, _Tracked] = {}
        self._work = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def submit(self, generation: Generation) -> None:
        """Queue the sequences of a generation."""
        now = time.monotonic()
        for index, sequence in enumerate(generation.sequences):
            self._live[sequence] = _Tracked(generation, index, generation.finish_reasons[index], now)
            self.engine.add(sequence)
        self._empty.clear()
        self.metrics.update_gauges(self.engine)
        self.wake()

    def abort(self, sequences: Items[Sequence]) -> None:
        """Take sequences out of the engine; those that have finished are no error."""
        for sequence in sequences:
            if self._live.pop(sequence, None):
                self.engine.abort(sequence)
        self._settle()

    def abort_all(self) -> None:
        """End every answer where it is, with finish reason "abort"."""
        for sequence, tracked in list(self._live.items()):
            tracked.generation.queue.put_nowait(Event(tracked.index, sequence.generated, sequence.generated, "abort"))
        self.abort(list(self._live))

    def wake(self) -> None:
        """Look at the faults and the queue again."""
        if self.faults.die_after_tokens is not None and self.faults.die_after_tokens <= 0:
            self.die()
        self._work.set()

    def die(self) -> None:
        """The engine is dead from now on; every request in it ends in EngineDead."""
        if self.dead:
            return
        self.dead = True
        for tracked in self._live.values():
            tracked.generation.queue.put_nowait(EngineDead())
        self.abort(list(self._live))
        self._die(self.faults)

    async def wait_empty(self) -> None:
        """Wait until the engine has nothing to do."""
        await self._empty.wait()

    async def run(self) -> None:
        """Step until cancelled."""
        loop = asyncio.get_running_loop()
        deadline = 0.0
        while True:
            if self._blocked:
                await self._wait_for_work()
                deadline = 0.0
            step = self.engine.begin_step()
            self._mark_seated()
            if step is None:
                await asyncio.sleep(0)
                continue  # all that ran lost their blocks: the next plan starts them again
            # A step starts where the last one ended, not when this task woke up, so that timer slack does not add up.
            now = loop.time()
            deadline = (deadline if deadline > now - _LARGEST_LAG else now) + step.seconds * self._time_scale
            await asyncio.sleep(max(0.0, deadline - now))
            if self.faults.hang:
                await self._wait_for_work()
            self._deliver(self.engine.finish_step(step))

    @property
    def _blocked(self) -> bool:
        return self.dead or self.faults.hang or self.engine.idle

    async def _wait_for_work(self) -> None:
        while self._blocked:
            self._work.clear()
            await self._work.wait()

    def _mark_seated(self) -> None:
        now = time.monotonic()
        for sequence in self.engine.running:
            tracked = self._live.get(sequence)
            if tracked and tracked.seated is None:
                tracked.seated = now
        self.metrics.count_engine(self.engine)
        self.metrics.update_gauges(self.engine)

    def _deliver(self, progress: list[Progress]) -> None:
        now = time.monotonic()
        made = 0
        for part in progress:
            sequence = part.sequence
            tracked = self._live.get(sequence)
            if tracked is None:
                continue
            made += part.new_tokens
            if part.new_tokens:
                self._record_tokens(sequence, tracked, part.new_tokens, now)
                reason = tracked.finish_reason if part.finished else None
                event = Event(tracked.index, sequence.generated - part.new_tokens, sequence.generated, reason)
                tracked.generation.queue.put_nowait(event)
            if part.finished:
                self._record_finish(sequence, tracked)
                del self._live[sequence]
        self.metrics.histogram["iteration_tokens_total"].observe(made + sum(part.prompt_tokens for part in progress))
        self.metrics.count_engine(self.engine)
        self._settle()
        if self.faults.die_after_tokens is not None:
            self.faults.die_after_tokens -= made
            self.wake()

    def _settle(self) -> None:
        self.metrics.update_gauges(self.engine)
        if not self._live:
            self._empty.set()

    def _record_tokens(self, sequence: Sequence, tracked: _Tracked, new: int, now: float) -> None:
        metrics = self.metrics
        metrics.counter["generation_tokens"].inc(new)
        if tracked.first_token is None:
            tracked.first_token = now
            metrics.histogram["time_to_first_token_seconds"].observe(now - tracked.arrived)
            computed = sequence.prompt_tokens - sequence.cached_tokens
            metrics.counter["prompt_tokens"].inc(sequence.prompt_tokens)
            metrics.counter["prompt_tokens_cached"].inc(sequence.cached_tokens)
            metrics.labelled["prompt_tokens_by_source", "local_compute"].inc(computed)
            metrics.labelled["prompt_tokens_by_source", "local_cache_hit"].inc(sequence.cached_tokens)
        else:
            metrics.histogram["inter_token_latency_seconds"].observe(now - tracked.last_token)
        tracked.last_token = now

    def _record_finish(self, sequence: Sequence, tracked: _Tracked) -> None:
        seated, first, last = tracked.seated or tracked.arrived, tracked.first_token or 0.0, tracked.last_token
        generated = sequence.generated
        self.metrics.labelled["request_success", tracked.finish_reason].inc()
        values = {
            "request_prompt_tokens": sequence.prompt_tokens,
            "request_generation_tokens": generated,
            "request_max_num_generation_tokens": generated,
            "request_params_n": len(tracked.generation.sequences),
            "request_params_max_tokens": tracked.generation.max_tokens,
            "request_time_per_output_token_seconds": (last - first) / max(1, generated - 1),
            "e2e_request_latency_seconds": last - tracked.arrived,
            "request_queue_time_seconds": seated - tracked.arrived,
            "request_inference_time_seconds": last - seated,
            "request_prefill_time_seconds": first - seated,
            "request_decode_time_seconds": last - first,
            "request_num_preemptions": sequence.preemptions,
            "request_prefill_kv_computed_tokens": sequence.prompt_tokens - sequence.cached_tokens,
        }
        for name, value in values.items():
            self.metrics.histogram[name].observe(value)
