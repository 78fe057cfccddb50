"""What one card measured: every constant of the model, with its source.

"Measured" below means the deployment this project comes from, September 2026: Qwen3.8-27B in MXFP4 with the DFlash2-FP8
drafter at depth 7, one replica on each of two AMD Radeon AI PRO R9700 (32 GB), both behind the proxy. docs/simulator.md
sets those figures beside the model's. Times are seconds of model time; the server multiplies them by --time-scale.
"""

GIB = 2**30

# --- prefill
# Measured: 32,768 prompt tokens in 11.8 s (2.8k tok/s), a 15k prompt in 5.99 s (2.5k), 50k with its answer in 22.3 s.
# No straight line fits them; a rate that falls slowly with the depth of the context fits all within 10 %.
PREFILL_SECONDS_PER_TOKEN = 1 / 2700
"""Cost of a prompt token at the start of the context."""
PREFILL_SECONDS_PER_TOKEN_PER_POSITION = 1.2e-9
"""What each token already in the context adds to that: 2.7k tok/s at the start, 2.5k tok/s on average over 50k."""
PREFILL_STEP_OVERHEAD = 0.02
"""Cost of a step that decodes nothing: what keeps small steps from being free. Chosen, not measured."""

# --- decode
# Measured with `vllm bench serve` through the proxy, so half of the streams on each card: TPOT 23.6 ms at 1 stream,
# 25.3 at 4 (2 a card) and 28.8 at 8 (4 a card). The last two include waiting for the prefills of the neighbours (0.8
# and 2.3 ms a token with 1k prompts and 512-token answers), which the model adds by itself; a straight line is left.
TPOT_ONE_STREAM = 0.0236
"""Mean time per output token of a card that decodes a single sequence."""
TPOT_PER_FURTHER_STREAM = 0.0012
"""What each further sequence in the batch adds to it."""

DEPLOYED_DEPTH = 7
"""Draft tokens per step (SPEC) that the figures above were measured with."""
DRAFT_ACCEPTANCE = 0.762
"""Chance that a draft token is accepted if the one before it was.

Measured: 43.1, 34.2 and 39.0 % of seven drafts accepted, 3.7 tokens a step on average, which this chance gives.
It also gives the measured ratio between depth 5 and 7 (3.41 against 3.86 tokens a step on code).
"""

# --- KV cache
MODEL_MAX_LEN = 262_144
"""Context length of the checkpoint: what vLLM serves when --max-model-len is left out."""
KV_POOL_BYTES = int(5.44 * GIB)
"""Measured: KV memory left at MAXLEN 114688, CHUNK 8192, profiled (KV_MEM 0)."""
KV_POOL_TOKENS = 122_636
"""Measured: `GPU KV cache size: 122,636 tokens` for the same shape."""
KV_BYTES_PER_TOKEN = KV_POOL_BYTES / KV_POOL_TOKENS

KV_AVAILABLE_BY_MAXLEN = ((114_688, 5.44), (131_072, 5.22), (262_144, 5.14))
"""Measured: GiB left for KV at CHUNK 8192, by MAXLEN."""
KV_AVAILABLE_BY_CHUNK = ((4_096, 4.16), (8_192, 5.44), (16_384, 4.22))
"""Measured: GiB left for KV at MAXLEN 114688, by CHUNK. Not monotonic: 8192 is a sweet spot."""
KV_NEEDED_BY_MAXLEN = ((0, 0.0), (114_688, 5.21), (131_072, 5.58), (262_144, 9.61))
"""Measured: GiB that one request of MAXLEN tokens needs (the first pair is the origin, not a measurement)."""
KV_NEEDED_AT_SMALLEST_CHUNK = 5.0
"""Measured: GiB that MAXLEN 114688 needs at CHUNK 4096; at 8192 and above it is 5.21."""

CARD_GIB = 31.86
"""Memory of the card as torch sees it."""
OOM_REQUESTED, OOM_FREE_MIB, OOM_HELD_GIB = "2.16 GiB", 116, 29.34
"""Measured: the allocation that fails when --kv-cache-memory is left out."""

BLOCK_SIZE_FP32_STATE = 1648
"""Tokens in a KV block of the deployed hybrid model, whose recurrent state is fp32."""
BLOCK_SIZE_FP16_STATE = 880
"""The same with --mamba-ssm-cache-dtype float16."""

# --- start
BOOT_SECONDS = 150.0
"""Measured: restarting a stopped replica with a warm compile cache."""
