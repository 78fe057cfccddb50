"""Warn when an engine's shape was measured not to fit the card's memory.

All figures were measured on a Radeon AI PRO R9700 (32 GB) with TP=1, KV_MEM=0 (the engine profiles the shape),
GPU_UTIL 0.98 and the Qwen3.8-27B MXFP4 checkpoint with its DFlash2 drafter, vllm-radiance 0.9.3. The prefill arena
grows with CHUNK and shares the card with the KV cache, but not monotonically: 8192 leaves more than 4096 and 16384.
"""

from __future__ import annotations

from typing import NamedTuple

R9700 = "1002:7551"


class Measurement(NamedTuple):
    """One start of the engine: GiB of KV cache that the context needs and that the card had left."""

    max_len: int
    chunk: int
    need: float
    available: float

    @property
    def fits(self) -> bool:
        """Return whether the engine started."""
        return self.available >= self.need


MEASURED = (
    Measurement(max_len=114688, chunk=8192, need=5.21, available=5.44),  # 122,636 tokens of KV cache
    Measurement(max_len=131072, chunk=8192, need=5.58, available=5.22),
    Measurement(max_len=262144, chunk=8192, need=9.61, available=5.14),
    Measurement(max_len=114688, chunk=16384, need=5.21, available=4.22),
    Measurement(max_len=114688, chunk=4096, need=5.0, available=4.16),
)
_BEST = max((m for m in MEASURED if m.fits), key=lambda m: m.max_len)


def budget_warnings(card: str, max_len: int, chunk: int, tensor_parallel: int = 1, kv_mem: int = 0) -> list[str]:
    """Return what was measured against this shape: no line when it fits or when nobody measured it.

    `card` is the PCI id (`1002:7551`), `max_len` and `chunk` are tokens, `kv_mem` is bytes. A context longer than one
    that was refused needs more still, so it is refused with it; shorter ones and other values of CHUNK are unmeasured.
    """
    if card.lower() != R9700 or tensor_parallel != 1 or kv_mem != 0:
        return []
    refused = [m for m in MEASURED if m.chunk == chunk and m.max_len <= max_len and not m.fits]
    if not refused:
        return []
    worst = max(refused, key=lambda m: m.max_len)
    return [
        f"MAXLEN={max_len} with CHUNK={chunk} does not fit one card: measured on an R9700, MAXLEN={worst.max_len} "
        f"needs {worst.need} GiB of KV cache and CHUNK={chunk} left {worst.available} GiB, so the engine refuses to "
        f"start; MAXLEN={_BEST.max_len} with CHUNK={_BEST.chunk} was measured to fit "
        f"({_BEST.need} GiB needed, {_BEST.available} GiB left)"
    ]
