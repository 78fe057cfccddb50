"""One sequence in the engine: its tokens, the blocks it holds, how far it is. Pure."""

import random

from .kv_pool import BlockName, KVPool, block_names
from .tokens import Prompt


class Sequence:
    """A prompt and the answer it will get.

    Args:
        prompt: the tokenized prompt.
        output: the answer's tokens, known beforehand because the simulator invents them.
    """

    def __init__(self, prompt: Prompt, output: Prompt) -> None:
        self.prompt_tokens = prompt.tokens
        self.output_tokens = output.tokens
        self.computed = 0
        self.generated = 0
        self.cached_tokens = 0
        self.preemptions = 0
        self.named = 0
        self.random = random.Random(prompt.digest)
        self._data = prompt.data + output.data
        self._names: list[BlockName] | None = None
        self._unnamed = 0

    @property
    def length(self) -> int:
        """Tokens known so far: the prompt and what was generated."""
        return self.prompt_tokens + self.generated

    @property
    def decoding(self) -> bool:
        """Whether only the newest token is left to compute."""
        return self.generated > 0 and self.length - self.computed == 1

    def names(self, block_size: int) -> list[BlockName]:
        """Names of all whole blocks, those of the coming answer included."""
        if self._names is None:
            self._names = block_names(self._data, block_size)
        return self._names

    def state_names(self, blocks: int, parts: int) -> list[BlockName]:
        """Names of the snapshot of the recurrent state after the first `blocks` blocks, which takes `parts` blocks."""
        if self._names is None or blocks == 0:
            return []
        return [self._names[blocks - 1] + bytes([part]) for part in range(parts)]

    def start(self, pool: KVPool, hit: int) -> None:
        """Take a seat, on `hit` blocks that the pool has already."""
        pool.hold(self.names(pool.block_size)[:hit])
        self.named = hit
        self.computed = hit * pool.block_size

    def grow(self, pool: KVPool, tokens: int) -> bool:
        """Take blocks until `tokens` tokens have a place; False, and nothing taken, if the pool has too few."""
        more = pool.blocks_for(tokens) - self.named - self._unnamed
        if more > 0 and not pool.take(more):
            return False
        self._unnamed += max(0, more)
        return True

    def name_filled(self, pool: KVPool) -> bool:
        """Name the blocks that are full by now, so that others find them; whether there were any."""
        names = self.names(pool.block_size)
        filled = self.computed // pool.block_size
        new = names[self.named : filled]
        for name in new:
            pool.name(name)
        self._unnamed -= len(new)
        self.named = max(self.named, filled)
        return bool(new)

    def release(self, pool: KVPool) -> None:
        """Give all blocks back and forget what was computed."""
        pool.release(self.names(pool.block_size)[: self.named], self._unnamed)
        self.named = self._unnamed = self.computed = 0
