"""The engine as a discrete model: continuous batching, chunked prefill, speculative decoding. Pure: no clock, no I/O.

One step is what vLLM's scheduler does in one: every running sequence first (a token and its drafts where it decodes, a
chunk where it is still in its prompt), then waiting ones while there are seats, tokens in the budget and blocks in the
pool. `begin_step` plans it and says how long it takes; `finish_step` applies it and returns what came out.
"""

from collections import deque
from dataclasses import dataclass, field

from . import card
from .kv_pool import KVPool
from .sequence import Sequence


@dataclass(frozen=True)
class EngineConfig:
    """What shapes a step.

    Attributes:
        max_num_seqs: seats in the batch.
        chunk: tokens that one step may compute, prompts and decoding together.
        depth: draft tokens per step and sequence; 0 is plain decoding.
        prefix_caching: whether a prompt may start on cached blocks.
        state_blocks: blocks that one snapshot of the recurrent state takes; 0 for a model that has attention only.
    """

    max_num_seqs: int
    chunk: int
    depth: int = 0
    prefix_caching: bool = True
    state_blocks: int = 0


@dataclass
class Counters:
    """What the engine has done since it started, in tokens unless named otherwise."""

    cache_queries: int = 0
    cache_hits: int = 0
    preemptions: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_by_position: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """The part of one sequence in a step: `tokens` to compute, as a piece of its prompt or as decoding with drafts."""

    sequence: Sequence
    tokens: int
    decodes: bool


@dataclass(frozen=True)
class Step:
    """A planned step: its parts and how long it takes, in seconds of model time."""

    work: tuple[Work, ...]
    seconds: float


@dataclass(frozen=True)
class Progress:
    """What a step did for one sequence: prompt tokens computed, output tokens made, whether it is complete."""

    sequence: Sequence
    prompt_tokens: int
    new_tokens: int
    finished: bool


class Engine:
    """One engine.

    Args:
        config: limits of a step.
        pool: KV blocks, which must hold the longest sequence that is added.
    """

    def __init__(self, config: EngineConfig, pool: KVPool) -> None:
        self.config = config
        self.pool = pool
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self.counters = Counters(accepted_by_position=[0] * config.depth)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.running and not self.waiting

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence."""
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Forget a sequence, also in the middle of a step; one that has finished is no error."""
        if sequence in self.running:
            self.running.remove(sequence)
            sequence.release(self.pool)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def begin_step(self) -> Step | None:
        """Plan the next step; None if there is nothing to do."""
        work, budget, preempted = self._plan_running()
        if not preempted:
            work += self._plan_waiting(budget)
        return Step(tuple(work), step_seconds(work)) if work else None

    def finish_step(self, step: Step) -> list[Progress]:
        """Apply a planned step. Sequences that were aborted meanwhile are left out."""
        return [self._advance(work) for work in step.work if work.sequence in self.running]

    def _plan_running(self) -> tuple[list[Work], int, bool]:
        """Parts of the running sequences, the token budget that is left, and whether a sequence lost its blocks."""
        budget = self.config.chunk
        work: list[Work] = []
        preempted = False
        for sequence in list(self.running):
            if budget == 0:
                break
            if sequence not in self.running:
                continue  # preempted for one before it
            tokens = self._draft(sequence, budget) if sequence.decoding else self._piece(sequence, budget)
            while not sequence.grow(self.pool, sequence.computed + tokens):
                preempted = True
                victim = self.running[-1]
                self._preempt(victim)
                if victim is sequence:
                    break
            else:
                work.append(Work(sequence, tokens, sequence.decoding))
                budget -= tokens
        return work, budget, preempted

    def _plan_waiting(self, budget: int) -> list[Work]:
        """Parts of waiting sequences that get a seat now, in their order."""
        work: list[Work] = []
        while self.waiting and budget > 0 and len(self.running) < self.config.max_num_seqs:
            sequence = self.waiting[0]
            names = sequence.names(self.pool.block_size)
            hit = self._find_prefix(sequence) if self.config.prefix_caching else 0
            # The whole prompt must fit, not its first chunk alone: vLLM's default against thrashing.
            if not self.pool.fits(names[:hit], self.pool.blocks_for(sequence.length) - hit):
                break
            self.waiting.popleft()
            sequence.start(self.pool, hit)
            self.running.append(sequence)
            if sequence.preemptions == 0:
                self.counters.cache_queries += sequence.length
                self.counters.cache_hits += sequence.computed
                sequence.cached_tokens = sequence.computed
            tokens = self._piece(sequence, budget)
            sequence.grow(self.pool, sequence.computed + tokens)
            work.append(Work(sequence, tokens, decodes=False))
            budget -= tokens
        return work

    def _draft(self, sequence: Sequence, budget: int) -> int:
        """Tokens that a decoding sequence computes in this step: one and its drafts, not past the end of its answer."""
        return min(budget, 1 + self.config.depth, sequence.output_tokens - sequence.generated)

    def _piece(self, sequence: Sequence, budget: int) -> int:
        """Prompt tokens to compute in this step. A recurrent state can be kept at the end of a whole block only, so
        pieces end there, and the last whole block of a prompt ends a piece of its own."""
        left = sequence.length - sequence.computed
        size = self.pool.block_size
        piece = min(left, budget)
        if not (self.config.state_blocks and self.config.prefix_caching):
            return piece
        last_whole = sequence.length // size * size
        end = sequence.computed + piece
        if end < last_whole:
            return (end // size * size - sequence.computed) if end // size * size > sequence.computed else piece
        return last_whole - sequence.computed if sequence.computed < last_whole < end else piece

    def _find_prefix(self, sequence: Sequence) -> int:
        """Number of leading blocks that need no computing. The last token of a prompt is always computed."""
        names = sequence.names(self.pool.block_size)[: (sequence.length - 1) // self.pool.block_size]
        hit = next((i for i, name in enumerate(names) if not self.pool.has(name)), len(names))
        while hit and not all(map(self.pool.has, sequence.state_names(hit, self.config.state_blocks))):
            hit -= 1
        return hit

    def _preempt(self, sequence: Sequence) -> None:
        """Take the blocks from a running sequence; it starts over (on what is left in the cache) before all others."""
        self.running.remove(sequence)
        sequence.release(self.pool)
        sequence.preemptions += 1
        self.counters.preemptions += 1
        self.waiting.appendleft(sequence)

    def _advance(self, work: Work) -> Progress:
        sequence = work.sequence
        if work.decodes:
            new = self._decode(sequence, drafts=work.tokens - 1)
            sequence.computed += new
        else:
            sequence.computed += work.tokens
            new = 1 if sequence.computed == sequence.length else 0
        sequence.generated += new
        if self.config.prefix_caching and sequence.name_filled(self.pool):
            self._keep_state(sequence, sequence.named)
        finished = sequence.generated >= sequence.output_tokens
        if finished:
            self.running.remove(sequence)
            whole = sequence.named
            sequence.release(self.pool)
            self._keep_state(sequence, whole)
        return Progress(sequence, 0 if work.decodes else work.tokens, new, finished)

    def _keep_state(self, sequence: Sequence, whole_blocks: int) -> None:
        """Cache the recurrent state after that many blocks; without it a hybrid model can't start there again."""
        for name in sequence.state_names(whole_blocks, self.config.state_blocks):
            self.pool.keep(name)

    def _decode(self, sequence: Sequence, drafts: int) -> int:
        """Number of tokens that a decoding step lands: one, and the drafts accepted before the first refusal."""
        accepted = 0
        while accepted < drafts and sequence.random.random() < card.DRAFT_ACCEPTANCE:
            self.counters.accepted_by_position[accepted] += 1
            accepted += 1
        if drafts:
            self.counters.drafts += 1
            self.counters.draft_tokens += drafts
        return min(accepted + 1, sequence.output_tokens - sequence.generated)


def tokens_per_step(depth: int) -> float:
    """Mean tokens that a decoding step lands with `depth` drafts."""
    return float(sum(card.DRAFT_ACCEPTANCE**i for i in range(depth + 1)))


def step_seconds(work: list[Work]) -> float:
    """How long a step takes: its decoding and the prompt tokens it computes add up.

    The time of a decoding step does not depend on the depth (measured: 79 ms at depth 7, 80 ms at 5); it is the
    measured time per token times the mean tokens a step at the deployed depth.
    """
    streams = sum(part.decodes for part in work)
    seconds = card.PREFILL_STEP_OVERHEAD
    if streams:
        per_token = card.TPOT_ONE_STREAM + card.TPOT_PER_FURTHER_STREAM * (streams - 1)
        seconds = per_token * tokens_per_step(card.DEPLOYED_DEPTH)
    for part in work:
        if not part.decodes:
            middle = part.sequence.computed + part.tokens / 2
            rate = card.PREFILL_SECONDS_PER_TOKEN + card.PREFILL_SECONDS_PER_TOKEN_PER_POSITION * middle
            seconds += part.tokens * rate
    return seconds
