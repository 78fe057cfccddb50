"""The KV pool: blocks are shared, cached, found again whole, and evicted oldest first."""

from engine_simulator.kv_pool import KVPool, block_names
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

NAMES = [bytes([number]) for number in range(12)]


def test_names_depend_on_everything_before() -> None:
    first = block_names(b"a" * 16 + b"b" * 16, block_size=4)
    second = block_names(b"x" * 16 + b"b" * 16, block_size=4)
    assert len(first) == 2
    assert not set(first) & set(second)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_names_of_a_prefix_are_a_prefix_of_the_names(start: bytes, end: bytes) -> None:
    names = block_names(start, block_size=2)
    assert block_names(start + end, block_size=2)[: len(names)] == names
    assert len(names) == len(start) // 8, "a block that is not full has no name"


def fill(pool: KVPool, names: list[bytes]) -> None:
    """Compute blocks and let go of them."""
    assert pool.take(len(names))
    for name in names:
        pool.name(name)
    pool.release(names, 0)


def test_released_blocks_stay_until_they_are_needed() -> None:
    pool = KVPool(blocks=4, block_size=1)
    fill(pool, NAMES[:3])
    assert (pool.used, pool.cached, pool.available) == (0, 3, 4)
    assert pool.take(2)
    assert [pool.has(name) for name in NAMES[:3]] == [True, True, False], "a prefix loses its end first"


def test_the_least_recently_used_prefix_goes_first() -> None:
    pool = KVPool(blocks=4, block_size=1)
    fill(pool, NAMES[:2])
    fill(pool, NAMES[2:4])
    pool.hold(NAMES[:2])
    pool.release(NAMES[:2], 0)
    assert pool.take(2)
    assert [pool.has(name) for name in NAMES[:4]] == [True, True, False, False]


def test_a_shared_block_is_held_until_its_last_user_lets_go() -> None:
    pool = KVPool(blocks=2, block_size=1)
    fill(pool, NAMES[:1])
    pool.hold(NAMES[:1])
    pool.hold(NAMES[:1])
    assert pool.used == 1
    pool.release(NAMES[:1], 0)
    assert (pool.used, pool.cached) == (1, 0)
    assert not pool.take(2)
    assert pool.take(1)
    pool.release(NAMES[:1], 1)
    assert (pool.used, pool.cached) == (0, 1)


def test_a_block_computed_twice_is_kept_once() -> None:
    pool = KVPool(blocks=2, block_size=1)
    assert pool.take(2)
    pool.name(NAMES[0])
    pool.name(NAMES[0])
    assert (pool.used, pool.available) == (1, 1)


def test_what_is_kept_is_cached_unless_it_is_in_use() -> None:
    pool = KVPool(blocks=3, block_size=1)
    fill(pool, NAMES[:1])
    pool.hold(NAMES[:1])
    pool.keep(NAMES[0])
    pool.keep(NAMES[1])
    assert (pool.used, pool.cached) == (1, 1)


def test_whether_a_sequence_fits_counts_the_cached_blocks_it_starts_on() -> None:
    pool = KVPool(blocks=3, block_size=1)
    fill(pool, NAMES[:2])
    assert pool.fits(NAMES[:2], 1)
    assert not pool.fits(NAMES[:2], 2)
    assert pool.fits([], 3)


class PoolMachine(RuleBasedStateMachine):
    """Whatever sequences do, the pool is never overfull and never forgets a block that is in use."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = KVPool(blocks=5, block_size=1)
        self.held: list[bytes] = []
        self.unnamed = 0

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        room = self.pool.available
        assert self.pool.take(count) == (count <= room)
        self.unnamed += count if count <= room else 0

    @precondition(lambda self: self.unnamed > 0)
    @rule(name=st.sampled_from(NAMES))
    def name(self, name: bytes) -> None:
        self.pool.name(name)
        self.unnamed -= 1
        self.held.append(name)

    @rule(name=st.sampled_from(NAMES))
    def keep(self, name: bytes) -> None:
        self.pool.keep(name)

    @rule(name=st.sampled_from(NAMES))
    def hold_cached(self, name: bytes) -> None:
        if self.pool.has(name):
            self.pool.hold([name])
            self.held.append(name)

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self.pool.release([self.held.pop(0)], 0)

    @invariant()
    def counts_agree(self) -> None:
        assert self.pool.used == len(set(self.held)) + self.unnamed
        assert self.pool.used + self.pool.cached <= self.pool.blocks
        assert all(map(self.pool.has, self.held))


TestPoolMachine = PoolMachine.TestCase
