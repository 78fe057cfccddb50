"""From a command line to an engine, and the command line of the deployment that was measured. Pure."""

from .engine import Engine, EngineConfig
from .flags import Settings
from .kv_pool import KVPool
from .sizing import Ledger

STATE_SNAPSHOT_TOKENS = 3406
"""KV memory of one cached snapshot of the recurrent state, in tokens; see docs/simulator.md, "The hybrid cache".

Inferred: the deployed engine reports nine groups of layers and 202 blocks for a request of 114,688 tokens, so a block
is worth 568 tokens; a snapshot takes one in each of the six groups that have a recurrent state.
"""

DEPLOYED_FLAGS = (
    "--max-model-len=114688", "--max-num-seqs=4", "--max-num-batched-tokens=8192", "--kv-cache-memory=0",
    "--gpu-memory-utilization=0.98", '--speculative-config={"method": "dflash", "num_speculative_tokens": 7}',
    "--enable-prefix-caching", "--mamba-cache-mode=align",
)  # fmt: skip
"""What a replica of the measured deployment is started with, as far as it shapes the model."""


def build_engine(settings: Settings, ledger: Ledger) -> Engine:
    """An idle engine with an empty cache."""
    block_size = settings.shape.block_size
    state_blocks = max(1, round(STATE_SNAPSHOT_TOKENS / block_size)) if settings.recurrent_state_cached else 0
    config = EngineConfig(
        max_num_seqs=settings.max_num_seqs,
        chunk=settings.shape.chunk,
        depth=settings.depth,
        prefix_caching=settings.prefix_caching,
        state_blocks=state_blocks,
    )
    return Engine(config, KVPool(ledger.blocks, block_size))
