"""Two vLLM servers on the CPU, one core each, with the tiny model."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from bench.proxy_overhead.processes import Child, ChildError, free_ports

MODEL = "frank-medium"
NAMES = ("frank-medium-a", "frank-medium-b")
BOOT_TIMEOUT = 300.0
"""Seconds for one start; 23 to 40 on an idle machine."""
CONTEXT = 16_384
BLOCK_TOKENS, BLOCKS = 32, 900
"""A pool of 28,800 tokens: with room for every conversation on every replica, no policy would differ from another."""

HERE = Path(__file__).parent


def make_model(python: Path, folder: Path) -> None:
    """Make the model once; raise ChildError if that fails."""
    if (folder / "config.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [python, HERE / "model.py", folder], env=_environment(0), capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise ChildError(f"the model was not made: {made.stderr.strip().splitlines()[-1:]}")


class Engines:
    """The two servers, started one after the other: together they would compile at the same time on the same cores."""

    def __init__(self, venv: Path, model: Path, scratch: Path) -> None:
        self._vllm = venv / "bin" / "vllm"
        self._model = model
        self._scratch = scratch
        self._children: list[Child] = []
        self.ports: Mapping[str, int] = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))

    def start(self) -> None:
        """Start both; raise ChildError if one does not listen in time."""
        for core, (name, port) in enumerate(self.ports.items()):
            argv = [
                str(self._vllm), "serve", str(self._model), "--served-model-name", MODEL, "--host", "127.0.0.1",
                "--port", str(port), "--max-model-len", str(CONTEXT), "--max-num-seqs", "4", "--dtype", "bfloat16",
                "--enforce-eager", "--block-size", str(BLOCK_TOKENS), "--num-gpu-blocks-override", str(BLOCKS),
                "--enable-prefix-caching", "--enable-prompt-tokens-details",
            ]  # fmt: skip
            child = Child(name, argv, _environment(core), self._scratch / f"{name}.log")
            self._children.append(child)
            child.wait_listening(port, BOOT_TIMEOUT)

    def stop(self) -> None:
        """End both with everything below them."""
        for child in self._children:
            child.stop()

    async def forget(self) -> None:
        """Empty both prefix caches, so that every policy starts cold (a route of vLLM's developer mode)."""
        async with aiohttp.ClientSession() as session:
            for port in self.ports.values():
                async with session.post(f"http://127.0.0.1:{port}/reset_prefix_cache") as response:
                    response.raise_for_status()


def _environment(core: int) -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        **os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": str(core % cores), "VLLM_SERVER_DEV_MODE": "1",
    }  # fmt: skip
