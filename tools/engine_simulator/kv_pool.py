"""The KV cache: a pool of equal blocks that running sequences and cached prefixes share. Pure.

A block that a sequence has filled is named by a digest over everything up to its end: equal prefixes have equal names.
When no running sequence uses a named block any more it stays as cache, and is taken again, oldest first, when blocks
are needed. Only whole blocks are found again. A block computed twice at the same time is kept once; vLLM keeps both.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from .tokens import TOKEN_BYTES

BlockName = bytes


def block_names(data: bytes, block_size: int) -> list[BlockName]:
    """Names of the whole blocks of `data` (TOKEN_BYTES bytes a token): each depends on everything before its end."""
    width = block_size * TOKEN_BYTES
    names = []
    name = b""
    for start in range(0, len(data) - width + 1, width):
        name = hashlib.blake2b(name + data[start : start + width], digest_size=16).digest()
        names.append(name)
    return names


class KVPool:
    """Blocks in three states: free, in use (by one or more sequences), cached (named, unused, in LRU order).

    Args:
        blocks: number of blocks.
        block_size: tokens in a block.
    """

    def __init__(self, blocks: int, block_size: int) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self._users: dict[BlockName, int] = {}
        self._cached: OrderedDict[BlockName, None] = OrderedDict()
        self._unnamed = 0

    @property
    def used(self) -> int:
        """Blocks that running sequences hold."""
        return len(self._users) + self._unnamed

    @property
    def cached(self) -> int:
        """Blocks that keep something nobody runs on."""
        return len(self._cached)

    @property
    def available(self) -> int:
        """Blocks that could be taken now: free ones, and cached ones that would be evicted for it."""
        return self.blocks - self.used

    def blocks_for(self, tokens: int) -> int:
        """Number of blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def has(self, name: BlockName) -> bool:
        """Whether a block of this name is in the pool."""
        return name in self._users or name in self._cached

    def fits(self, shared: Sequence[BlockName], more: int) -> bool:
        """Whether `more` blocks could be taken besides holding the named ones, all of which are in the pool."""
        return more <= self.available - sum(name in self._cached for name in shared)

    def hold(self, names: Sequence[BlockName]) -> None:
        """Use named blocks of the pool; each is held until it is released as often as it was held."""
        for name in names:
            self._cached.pop(name, None)
            self._users[name] = self._users.get(name, 0) + 1

    def take(self, count: int) -> bool:
        """Take blocks that have no name yet, evicting cached ones; all or none."""
        if count > self.available:
            return False
        self._unnamed += count
        self._evict()
        return True

    def name(self, name: BlockName) -> None:
        """Give a taken block its name. If the pool has that block already, it is held instead and this one is free."""
        self._unnamed -= 1
        self.hold([name])

    def release(self, names: Sequence[BlockName], unnamed: int) -> None:
        """Stop using blocks. The last named one becomes the oldest, so a prefix loses its end before its start."""
        self._unnamed -= unnamed
        for name in reversed(names):
            if self._users[name] > 1:
                self._users[name] -= 1
            else:
                del self._users[name]
                self._cached[name] = None

    def keep(self, name: BlockName) -> None:
        """Cache something in one block that nobody holds, as the newest; forgotten at once if all blocks are in use."""
        if name in self._users:
            return
        self._cached[name] = None
        self._cached.move_to_end(name)
        self._evict()

    def forget_cached(self) -> None:
        """Drop everything that is only cached."""
        self._cached.clear()

    def _evict(self) -> None:
        while self.used + len(self._cached) > self.blocks:
            self._cached.popitem(last=False)
