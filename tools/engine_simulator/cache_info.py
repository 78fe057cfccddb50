"""The labels of vllm:cache_config_info, through which vLLM tells how its KV cache is set up."""

from .flags import Settings
from .sizing import Ledger

_DEFAULTS = {
    "_block_size_resolved": "True",
    "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "float32",
    "num_cpu_blocks": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}
"""Labels that nothing here changes, with the values vLLM shows by default."""


def cache_labels(settings: Settings, ledger: Ledger) -> dict[str, str]:
    """All labels for one engine, but for `engine` itself."""
    block_size = str(settings.shape.block_size)
    return _DEFAULTS | {
        "block_size": block_size,
        "cache_dtype": settings.kv_cache_dtype,
        "effective_attention_block_size": block_size,
        "enable_prefix_caching": str(settings.prefix_caching),
        "gpu_memory_utilization": str(settings.gpu_memory_utilization),
        "kv_cache_max_concurrency": f"{ledger.max_concurrency:.2f}",
        "kv_cache_memory_bytes": str(ledger.bytes),
        "kv_cache_size_tokens": str(ledger.tokens),
        "mamba_cache_mode": "align" if settings.recurrent_state_cached else "none",
        "num_gpu_blocks": str(ledger.blocks),
        "num_gpu_blocks_override": str(settings.shape.block_override),
    }
