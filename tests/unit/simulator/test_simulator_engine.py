"""The discrete engine: who gets a seat, what a step holds, what is found in the cache, who loses its blocks."""

import pytest
from engine_simulator.engine import Engine, EngineConfig, Step, step_seconds, tokens_per_step
from engine_simulator.kv_pool import KVPool
from engine_simulator.sequence import Sequence
from engine_simulator.tokens import Prompt
from engine_simulator.virtual_time import closed_loop, random_tokens


def make_engine(blocks: int = 100, block_size: int = 16, seats: int = 4, chunk: int = 64, **more: int | bool) -> Engine:
    """A small engine that decodes a token at a time."""
    return Engine(EngineConfig(max_num_seqs=seats, chunk=chunk, **more), KVPool(blocks, block_size))  # type: ignore[arg-type]


def make_sequence(prompt: int, answer: int, seed: int = 0) -> Sequence:
    """A sequence with a prompt of its own (or the same, for the same seed)."""
    return Sequence(random_tokens(prompt, seed), random_tokens(answer, seed + 1))


def step(engine: Engine) -> Step:
    """Plan a step and apply it."""
    planned = engine.begin_step()
    assert planned
    engine.finish_step(planned)
    return planned


def run(engine: Engine) -> list[Step]:
    """Step until nothing is left."""
    steps = []
    for _ in range(10_000):
        if engine.idle:
            return steps
        planned = engine.begin_step()
        if planned:
            engine.finish_step(planned)
            steps.append(planned)
    raise AssertionError("the engine makes no progress")


def test_a_prompt_is_computed_in_chunks_and_its_end_gives_the_first_token() -> None:
    engine = make_engine()
    sequence = make_sequence(prompt=150, answer=3)
    engine.add(sequence)
    steps = run(engine)
    assert [work.tokens for planned in steps for work in planned.work] == [64, 64, 22, 1, 1]
    assert sequence.generated == 3


def test_decoding_and_prefill_share_the_tokens_of_a_step() -> None:
    engine = make_engine(depth=7)
    first, second = make_sequence(10, 500), make_sequence(200, 1, seed=2)
    engine.add(first)
    step(engine)
    engine.add(second)
    planned = step(engine)
    assert [(work.sequence, work.tokens, work.decodes) for work in planned.work] == [
        (first, 8, True),
        (second, 56, False),
    ]


def test_there_are_only_so_many_seats() -> None:
    engine = make_engine(seats=2)
    for seed in range(3):
        engine.add(make_sequence(4, 4, seed * 2))
    step(engine)
    assert (len(engine.running), len(engine.waiting)) == (2, 1)
    run(engine)


def test_a_warm_prompt_starts_on_its_whole_blocks() -> None:
    engine = make_engine()
    for prompt, hit in ((160, 0), (160, 144), (100, 96), (15, 0)):
        sequence = Sequence(Prompt(random_tokens(160, 0).data[: prompt * 4]), random_tokens(1, 1))
        engine.add(sequence)
        run(engine)
        assert sequence.cached_tokens == hit, f"{prompt} tokens: the last one is always computed"
    assert engine.counters.cache_queries == 160 + 160 + 100 + 15
    assert engine.counters.cache_hits == 144 + 96


def test_without_prefix_caching_nothing_is_found() -> None:
    engine = make_engine(prefix_caching=False)
    for _ in range(2):
        sequence = make_sequence(160, 1)
        engine.add(sequence)
        run(engine)
        assert sequence.cached_tokens == 0
    assert engine.pool.cached == 0


def test_an_answer_is_cached_like_a_prompt() -> None:
    engine = make_engine()
    first = make_sequence(prompt=20, answer=60)
    engine.add(first)
    run(engine)
    following = Sequence(Prompt(random_tokens(20, 0).data + random_tokens(60, 1).data + bytes(80)), random_tokens(1, 9))
    engine.add(following)
    run(engine)
    assert following.cached_tokens == 64, "79 tokens are computed, the last of 80 is not"


def test_running_sequences_share_a_prefix() -> None:
    engine = make_engine()
    engine.add(make_sequence(160, 50))
    for _ in range(3):
        step(engine)
    used = engine.pool.used
    engine.add(make_sequence(160, 50))
    step(engine)
    assert engine.pool.used == used + 1, "ten blocks are shared; the first sequence has begun its eleventh"


def test_a_prompt_that_does_not_fit_beside_the_running_ones_waits() -> None:
    engine = make_engine(blocks=10)
    engine.add(make_sequence(80, 20))
    engine.add(make_sequence(100, 20, seed=2))
    step(engine)
    assert (len(engine.running), len(engine.waiting)) == (1, 1)
    run(engine)
    assert engine.counters.preemptions == 0


def test_a_pool_that_runs_dry_takes_the_blocks_of_the_youngest() -> None:
    engine = make_engine(blocks=10)
    old, young = make_sequence(64, 90), make_sequence(64, 90, seed=2)
    engine.add(old)
    engine.add(young)
    run(engine)
    assert engine.counters.preemptions == young.preemptions > 0
    assert old.preemptions == 0
    assert (old.generated, young.generated) == (90, 90)
    assert engine.pool.used == 0


def test_the_longest_sequence_fits_alone() -> None:
    engine = make_engine(blocks=10, depth=3)
    sequence = make_sequence(100, 60)
    engine.add(sequence)
    run(engine)
    assert (sequence.generated, sequence.preemptions) == (60, 0)


def test_who_lost_its_blocks_is_next() -> None:
    engine = make_engine(blocks=10)
    old, young, newcomer = (make_sequence(64, 90, seed) for seed in (0, 2, 4))
    for sequence in (old, young, newcomer):
        engine.add(sequence)
    while not engine.counters.preemptions:
        step(engine)
    assert list(engine.waiting) == [young, newcomer]


@pytest.mark.parametrize("when", ["waiting", "planned", "running"])
def test_an_aborted_sequence_leaves_nothing(when: str) -> None:
    engine = make_engine()
    sequence = make_sequence(200, 10)
    engine.add(sequence)
    planned = engine.begin_step() if when != "waiting" else None
    if planned and when == "running":
        engine.finish_step(planned)
    engine.abort(sequence)
    if planned and when == "planned":
        assert engine.finish_step(planned) == []
    engine.abort(sequence)
    assert engine.idle
    assert engine.pool.used == 0


def test_drafts_land_several_tokens_a_step_and_are_counted() -> None:
    engine = make_engine(depth=7, blocks=1000)
    engine.add(make_sequence(10, 4000))
    steps = run(engine)
    counters = engine.counters
    assert counters.drafts == len(steps) - 1
    assert 7 * (counters.drafts - 3) < counters.draft_tokens <= 7 * counters.drafts, "fewer at the end of the answer"
    assert 3999 / counters.drafts == pytest.approx(tokens_per_step(7), rel=0.05)
    assert counters.accepted_by_position == sorted(counters.accepted_by_position, reverse=True)


def test_without_drafts_a_step_lands_one_token() -> None:
    assert tokens_per_step(0) == 1
    engine = make_engine()
    engine.add(make_sequence(10, 40))
    assert len(run(engine)) == 40


def test_the_same_request_takes_the_same_steps() -> None:
    first, second = (run_lengths(make_engine(depth=7)) for _ in range(2))
    assert first == second


def run_lengths(engine: Engine) -> list[float]:
    """How long each step of a fixed load takes."""
    for seed in range(3):
        engine.add(make_sequence(50, 50, seed * 2))
    return [planned.seconds for planned in run(engine)]


def test_a_hybrid_model_starts_only_where_its_state_was_kept() -> None:
    engine = make_engine(block_size=16, chunk=64, state_blocks=2)
    data = random_tokens(250, 0).data
    engine.add(Sequence(Prompt(data), random_tokens(1, 1)))
    steps = run(engine)
    assert [work.tokens for planned in steps for work in planned.work] == [64, 64, 64, 48, 10]
    for prompt, hit in ((250, 240), (200, 192), (150, 128), (60, 0)):
        sequence = Sequence(Prompt(data[: prompt * 4]), random_tokens(1, 2))
        engine.add(sequence)
        planned = engine.begin_step()
        assert planned and sequence.cached_tokens == hit
        engine.abort(sequence)


def test_snapshots_make_two_large_families_evict_each_other() -> None:
    """Measured: one card holds the caches of two 50k families, or one cache and a live sequence, but not both."""

    def hits(state_blocks: int) -> int:
        config = EngineConfig(max_num_seqs=4, chunk=8192, depth=7, state_blocks=state_blocks)
        engine = Engine(config, KVPool(74, 1648))
        families = [random_tokens(50_000, seed).data for seed in (1, 2)]
        found = 0
        for turn in range(3):
            for family, data in enumerate(families):
                families[family] = data + random_tokens(1500, 10 * turn + family).data
                prompt = Prompt(families[family])
                [timing] = closed_loop([engine], [Sequence(prompt, random_tokens(300, 99))], concurrency=1)
                found += timing.cached_tokens > 0
        return found

    assert hits(state_blocks=2) == 0
    assert hits(state_blocks=0) == 4


def test_time_of_a_step() -> None:
    engine = make_engine(chunk=8192, depth=7, blocks=1000)
    engine.add(make_sequence(1000, 100))
    prefill = step(engine).seconds
    alone = step(engine).seconds
    engine.add(make_sequence(1000, 100, seed=2))
    both = step(engine).seconds
    assert both == pytest.approx(alone + prefill - 0.02), "prefill and decoding add up, the overhead is for idle steps"
    assert step(engine).seconds > alone, "a larger batch is slower"
    assert alone == pytest.approx(0.0236 * tokens_per_step(7))
    assert step_seconds([]) == pytest.approx(0.02)
