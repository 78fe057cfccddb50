"""KV sizing: the measured capacity, and the measured refusals with their numbers."""

import pytest
from engine_simulator.sizing import Shape, ShapeRefused, size_kv_cache

DEPLOYED = {"max_model_len": 114_688, "chunk": 8192, "kv_memory": 0, "block_size": 1648}


def make_shape(**changes: int | bool | None) -> Shape:
    """The deployed shape with changes."""
    return Shape(**(DEPLOYED | changes))  # type: ignore[arg-type]


def test_the_deployed_shape() -> None:
    ledger = size_kv_cache(make_shape())
    assert ledger.tokens == 122_636
    assert f"{ledger.max_concurrency:.2f}" == "1.07"
    assert ledger.blocks == 122_636 // 1648


@pytest.mark.parametrize(
    ("max_model_len", "chunk", "needed", "available"),
    [
        (262_144, 8192, "9.61", "5.14"),
        (131_072, 8192, "5.58", "5.22"),
        (114_688, 16_384, "5.21", "4.22"),
        (114_688, 4096, "5.00", "4.16"),
    ],
)
def test_measured_refusals(max_model_len: int, chunk: int, needed: str, available: str) -> None:
    with pytest.raises(ShapeRefused) as refusal:
        size_kv_cache(make_shape(max_model_len=max_model_len, chunk=chunk))
    assert (
        f"To serve at least one request with the model's max seq len ({max_model_len}), {needed} GiB KV cache is "
        f"needed, which is larger than the available KV cache memory ({available} GiB)"
    ) in str(refusal.value)


def test_a_flag_left_out_is_out_of_memory() -> None:
    with pytest.raises(ShapeRefused, match=r"torch\.OutOfMemoryError.*2\.16 GiB.*116\.00 MiB.*29\.34 GiB"):
        size_kv_cache(make_shape(kv_memory=None))


def test_a_pin_for_two_cards_is_out_of_memory_on_one() -> None:
    with pytest.raises(ShapeRefused, match=r"OutOfMemoryError.*17\.29 GiB"):
        size_kv_cache(make_shape(kv_memory=18_563_072_000))


def test_a_smaller_pin_is_taken_literally() -> None:
    ledger = size_kv_cache(make_shape(max_model_len=32_768, kv_memory=2 * 2**30))
    assert ledger.bytes == 2 * 2**30
    assert ledger.tokens == pytest.approx(122_636 * 2 / 5.44, rel=0.001)


def test_a_number_of_blocks_overrides_the_memory() -> None:
    ledger = size_kv_cache(make_shape(max_model_len=16_384, kv_memory=None, block_size=32, block_override=1024))
    assert (ledger.blocks, ledger.tokens) == (1024, pytest.approx(32_768, abs=1))
    with pytest.raises(ShapeRefused, match="max seq len"):
        size_kv_cache(make_shape(max_model_len=65_536, block_size=32, block_override=1024))


def test_two_cards_need_atomics() -> None:
    target = {"max_model_len": 262_144, "kv_memory": 18_563_072_000, "tensor_parallel": 2}
    with pytest.raises(ShapeRefused, match="Pcie atomics not enabled"):
        size_kv_cache(make_shape(**target))
    assert size_kv_cache(make_shape(**target, pcie_atomics=True)).max_concurrency > 1


def test_between_and_outside_the_measured_shapes() -> None:
    assert size_kv_cache(make_shape(max_model_len=8192, chunk=2048)).tokens < 122_636
    assert size_kv_cache(make_shape(max_model_len=8192)).tokens == 122_636
    assert size_kv_cache(make_shape(max_model_len=100_000, chunk=8000)).tokens > 110_000


def test_the_longest_request_has_blocks_enough() -> None:
    ledger = size_kv_cache(make_shape(max_model_len=16_384, block_size=1648, block_override=10))
    assert ledger.blocks * 1648 >= 16_384
