"""What an engine's messages mean."""

from __future__ import annotations

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.engine_messages import capacity, explain

# As measured on one R9700 with MAXLEN=114688 and CHUNK=16384.
KV = (
    "(EngineCore pid=61) ValueError: To serve at least one request with the model's max seq len (114688), 5.21 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (4.22 GiB). Based on the available memory, ..."
)


def test_a_kv_cache_that_is_too_small_is_explained_with_its_numbers() -> None:
    meaning = explain(KV)
    assert meaning is not None
    assert "MAXLEN=114688 needs 5.21 GiB and this card has 4.22 GiB" in meaning
    assert "to about 92160" in meaning  # 114688 * 4.22 / 5.21 = 92894, down to whole 1024s


@pytest.mark.parametrize(
    ("log", "part"),
    [
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.16 GiB.", "KV_MEM is blank"),
        ("RuntimeError: hipErrorNoDevice: no ROCm-capable device is detected", "sees no GPU"),
        ("RuntimeError: No CUDA GPUs are available", "sees no GPU"),
        ("HIP failure: 'the operation cannot be performed in the present state'", "TP=1"),
        (":1:rocvirtual.cpp :4208:  Pcie atomics not enabled, hostcall not supported", "atomics"),
        ("Attempted to load weight (torch.Size([1, 2])) into parameter", "rewritten MTP head"),
        ("OSError: /models/Qwen does not exist", "SNAP and DRAFTER"),
        ("Repo id must be in the form 'repo_name': '/models/Qwen'. Use `repo_type`", "SNAP and DRAFTER"),
        ("OSError: [Errno 98] Address already in use", "ss -ltnp"),
        ("Error: localhost/radiance-vllm:0.9.3: image not known", "image_retag"),
        ("assertion failed: GEMM with N=0", "compile cache"),
    ],
)
def test_known_messages(log: str, part: str) -> None:
    assert part in (explain(f"INFO fine\n{log}\nEngine core initialization failed.") or "")


def test_the_most_telling_message_wins() -> None:
    assert "KV cache is too small" in (explain(f"torch.OutOfMemoryError\n{KV}") or "")


@pytest.mark.parametrize(
    "log",
    [
        "",
        "INFO: Uvicorn running on http://0.0.0.0:7771",
        "current platform does not support native MXFP4/MXFP6",
        "CUDA_VISIBLE_DEVICES on ROCm is deprecated",
        "Auto-prefetch is disabled",
        "GPU KV cache size: 122,636 tokens",
        "loading /models/Qwen3.8-27B-Uncensored-MXFP4-awq",
    ],
)
def test_harmless_lines_mean_nothing(log: str) -> None:
    assert explain(log) is None


def test_the_ledger_of_the_last_start_is_read() -> None:
    log = "GPU KV cache size: 1 tokens\nGPU KV cache size: 122,636 tokens\n"
    assert capacity(log) == {"kv_cache_tokens": 122636.0}
    line = "Maximum concurrency for 114,688 tokens per request: 1.07x"
    assert capacity(log + line) == {"kv_cache_tokens": 122636.0, "max_concurrency": 1.07}
    assert capacity("") == {}
