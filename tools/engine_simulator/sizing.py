"""KV-cache sizing: what a shape (MAXLEN, CHUNK, KV_MEM, TP) leaves for KV, or why the engine refuses it. Pure."""

import itertools
from dataclasses import dataclass

from . import card


class ShapeRefused(Exception):
    """The engine would not start with this shape; the text is the engine's own last words."""


@dataclass(frozen=True)
class Shape:
    """The knobs that decide how much memory is left for KV.

    Attributes:
        max_model_len: tokens of the longest request (MAXLEN).
        chunk: tokens of one prefill step (CHUNK).
        kv_memory: bytes to use for KV; 0 means "profile this shape", None that the flag was left out (KV_MEM).
        block_size: tokens in a KV block.
        block_override: number of KV blocks, whatever the memory (`--num-gpu-blocks-override`).
        tensor_parallel: cards that share the model (TP).
        pcie_atomics: whether two cards can run a collective on this host.
    """

    max_model_len: int
    chunk: int
    kv_memory: int | None
    block_size: int
    block_override: int | None = None
    tensor_parallel: int = 1
    pcie_atomics: bool = False


@dataclass(frozen=True)
class Ledger:
    """The capacity an engine reports when it starts: `tokens` in the pool, in whole `blocks`, of `bytes` in all."""

    tokens: int
    blocks: int
    bytes: int
    max_concurrency: float


def size_kv_cache(shape: Shape) -> Ledger:
    """Return the KV capacity of a shape.

    Raises:
        ShapeRefused: the shape needs more memory than the card has left, or a collective that this host cannot run.
    """
    if shape.tensor_parallel > 1 and not shape.pcie_atomics:
        raise ShapeRefused(
            "[FATAL ERROR]: HIP failure: 'the operation cannot be performed in the present state'\n"
            ":1:rocvirtual.cpp :4208:  Pcie atomics not enabled, hostcall not supported"
        )
    bytes_per_token = card.KV_BYTES_PER_TOKEN / shape.tensor_parallel
    available = _available_bytes(shape, bytes_per_token)
    needed = _needed_bytes(shape)
    if needed > available:
        raise ShapeRefused(
            "ValueError: To serve at least one request with the model's max seq len "
            f"({shape.max_model_len}), {_gib(needed)} GiB KV cache is needed, which is larger than the available "
            f"KV cache memory ({_gib(available)} GiB). Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine."
        )
    tokens = int(available / bytes_per_token)
    return Ledger(
        tokens=tokens,
        # The longest request must fit even if the last block is not full.
        blocks=max(-(-shape.max_model_len // shape.block_size), tokens // shape.block_size),
        bytes=int(available),
        max_concurrency=tokens / shape.max_model_len,
    )


def _available_bytes(shape: Shape, bytes_per_token: float) -> float:
    """Bytes left for KV, or ShapeRefused where taking them runs the card out of memory."""
    if shape.block_override is not None:
        return shape.block_override * shape.block_size * bytes_per_token
    if shape.kv_memory is None:
        raise ShapeRefused(_out_of_memory(card.OOM_REQUESTED))
    at_chunk = _interpolate(card.KV_AVAILABLE_BY_CHUNK, shape.chunk)
    at_length = _interpolate(card.KV_AVAILABLE_BY_MAXLEN, shape.max_model_len)
    profiled = (at_chunk + at_length) * card.GIB - card.KV_POOL_BYTES
    if shape.kv_memory == 0:
        return profiled
    # A pin for two cards is not checked: how much memory a half model leaves was not measured on this host.
    if shape.tensor_parallel == 1 and shape.kv_memory > profiled + card.OOM_FREE_MIB * 2**20:
        raise ShapeRefused(_out_of_memory(f"{_gib(shape.kv_memory)} GiB"))
    return float(shape.kv_memory)


def _needed_bytes(shape: Shape) -> float:
    """Bytes that one request of the greatest length needs on each card."""
    needed = _interpolate(card.KV_NEEDED_BY_MAXLEN, shape.max_model_len)
    if shape.block_override is not None:
        return shape.max_model_len * card.KV_BYTES_PER_TOKEN / shape.tensor_parallel
    smallest_chunk, chunk = card.KV_AVAILABLE_BY_CHUNK[0][0], card.KV_AVAILABLE_BY_CHUNK[1][0]
    at_smallest = card.KV_NEEDED_AT_SMALLEST_CHUNK / _interpolate(card.KV_NEEDED_BY_MAXLEN, 114_688)
    ratio = _interpolate(((smallest_chunk, at_smallest), (chunk, 1.0)), shape.chunk)
    return needed * ratio * card.GIB / shape.tensor_parallel


def _interpolate(points: tuple[tuple[int, float], ...], x: float) -> float:
    """Straight lines between measured points, flat outside them."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def _gib(size: float) -> str:
    return f"{size / card.GIB:.2f}"


def _out_of_memory(requested: str) -> str:
    return (
        f"torch.OutOfMemoryError: HIP out of memory. Tried to allocate {requested}. GPU 0 has a total capacity of "
        f"{card.CARD_GIB} GiB of which {card.OOM_FREE_MIB}.00 MiB is free. Of the allocated memory "
        f"{card.OOM_HELD_GIB} GiB is allocated by PyTorch."
    )
