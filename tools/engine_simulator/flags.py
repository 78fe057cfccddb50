"""The command line: vLLM's own, as far as a deployment uses it, and the simulator's few."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from . import card
from .faults import Faults
from .sizing import Shape


@dataclass(frozen=True)
class Settings:
    """The command line, checked. Attributes are named after their flags; times are seconds."""

    model: str
    host: str
    port: int
    served_model_names: tuple[str, ...]
    shape: Shape
    max_num_seqs: int
    prefix_caching: bool
    recurrent_state_cached: bool
    kv_cache_dtype: str
    depth: int
    gpu_memory_utilization: float
    api_keys: frozenset[str]
    max_queued: int | None
    shutdown_timeout: float
    keep_alive: float
    cached_tokens_in_usage: bool
    auto_tools: bool
    tool_parser: str | None
    request_id_headers: bool
    sse_keep_alive: float
    time_scale: float
    boot_seconds: float
    boot_error: str | None
    faults: Faults
    fault_route: bool


# Flags of vLLM that change nothing here. A flag in none of these lists is refused, as vLLM refuses it.
_IGNORED_SWITCHES = (
    "async-scheduling", "chunked-prefill", "disable-access-log-for-endpoints", "disable-custom-all-reduce",
    "disable-hybrid-kv-cache-manager", "disable-log-stats", "disable-uvicorn-access-log", "enable-chunked-prefill",
    "enable-expert-parallel", "enable-force-include-usage", "enable-log-outputs", "enable-log-requests",
    "enable-server-load-tracking", "enable-sleep-mode", "enforce-eager", "fail-on-environ-validation",
    "language-model-only", "scheduler-reserve-full-isl", "skip-mm-profiling", "skip-tokenizer-init",
    "trust-remote-code", "trust-request-chat-template",
)  # fmt: skip
_IGNORED_VALUES = (
    "attention-backend", "chat-template", "chat-template-content-format", "compilation-config", "data-parallel-size",
    "default-chat-template-kwargs", "distributed-executor-backend", "download-dir", "dtype", "generation-config",
    "hf-overrides", "limit-mm-per-prompt", "load-format", "long-prefill-token-threshold",
    "mamba-block-size", "mamba-cache-dtype", "max-logprobs", "max-num-partial-prefills", "mm-processor-kwargs",
    "optimization-level", "override-generation-config", "pipeline-parallel-size", "prefix-caching-hash-algo",
    "quantization", "reasoning-parser", "response-role", "revision", "root-path", "scheduling-policy", "seed",
    "stream-interval", "swap-space", "tokenizer", "tokenizer-mode", "uvicorn-log-level",
)  # fmt: skip

BOOT_ERRORS = {
    "no-device": "RuntimeError: No CUDA GPUs are available (hipErrorNoDevice)",
    "pcie-atomics": "HIP failure: 'the operation cannot be performed in the present state'",
    "weights": "ValueError: Attempted to load weight (torch.Size([5120])) into parameter (torch.Size([2560]))",
    "stale-cache": "RuntimeError: GEMM with N=0: the compile cache belongs to another set of knobs",
    "out-of-memory": "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.16 GiB.",
}
"""Ways a start fails that no shape explains, by the name that --sim-boot-error takes."""


class _Parser(argparse.ArgumentParser):
    """Takes `--flag_name` for `--flag-name`, as vLLM does."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args([_dashed(arg) for arg in args or []], namespace)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.format_usage()}{self.prog}: error: {message}\n")


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the command line (without the program's name).

    Raises:
        SystemExit: 2 after one line that says what is wrong.
    """
    arguments = list(arguments)
    if arguments[:1] == ["serve"]:
        arguments = arguments[1:]
    parser = _build_parser(environment)
    values = parser.parse_args(arguments)
    if values.time_scale < 0:
        parser.error("argument --time-scale: must be 0 or more")
    if values.sim_boot_error not in {None, *BOOT_ERRORS}:  # argparse does not check what comes from the environment
        parser.error(f"argument --sim-boot-error: choose from {', '.join(sorted(BOOT_ERRORS))}")
    try:
        faults = msgspec.json.decode(values.sim_faults, type=Faults)
    except msgspec.DecodeError as error:
        parser.error(f"argument --sim-faults: {error}")
    try:
        keep_alive = float(environment.get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "5"))
    except ValueError as error:
        parser.error(f"VLLM_HTTP_TIMEOUT_KEEP_ALIVE: {error}")
    model = values.model or values.model_tag or "frank-medium"
    boot_seconds = values.sim_boot_seconds
    return Settings(
        model=model,
        host=values.host or "0.0.0.0",
        port=values.port,
        served_model_names=tuple(values.served_model_name or [model]),
        shape=Shape(
            max_model_len=values.max_model_len,
            chunk=values.max_num_batched_tokens,
            kv_memory=values.kv_cache_memory,
            block_size=values.block_size or _default_block_size(values.mamba_ssm_cache_dtype),
            block_override=values.num_gpu_blocks_override,
            tensor_parallel=values.tensor_parallel_size,
            pcie_atomics=values.sim_pcie_atomics,
        ),
        max_num_seqs=values.max_num_seqs,
        # vLLM leaves prefix caching off for a hybrid model unless it is asked for.
        prefix_caching=bool(values.enable_prefix_caching),
        recurrent_state_cached=values.mamba_cache_mode == "align",
        kv_cache_dtype=values.kv_cache_dtype,
        depth=values.speculative_config,
        gpu_memory_utilization=values.gpu_memory_utilization,
        api_keys=frozenset(values.api_key or filter(None, [environment.get("VLLM_API_KEY")])),
        max_queued=values.max_num_queued_reqs,
        shutdown_timeout=values.shutdown_timeout,
        keep_alive=keep_alive,
        cached_tokens_in_usage=bool(values.enable_prompt_tokens_details),
        auto_tools=bool(values.enable_auto_tool_choice),
        tool_parser=values.tool_call_parser,
        request_id_headers=bool(values.enable_request_id_headers),
        sse_keep_alive=values.sse_keep_alive_interval,
        time_scale=values.time_scale,
        boot_seconds=card.BOOT_SECONDS * values.time_scale if boot_seconds is None else boot_seconds,
        boot_error=values.sim_boot_error,
        faults=faults,
        fault_route=values.sim_fault_route,
    )


def _build_parser(environment: Mapping[str, str]) -> _Parser:
    parser = _Parser(
        prog="engine_simulator",
        usage="%(prog)s [serve] MODEL [flag ...]",
        description="A stand-in for `vllm serve` on one Radeon R9700: its flags and answers, modelled time, no GPU.",
        allow_abbrev=False,
    )
    parser.add_argument("model_tag", nargs="?", metavar="MODEL", help="model path; only its name is used")
    _add_engine_flags(parser.add_argument_group("vLLM"))
    _add_simulator_flags(parser.add_argument_group("simulator"), environment)
    for name in _IGNORED_SWITCHES:
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=argparse.SUPPRESS)
    for name in _IGNORED_VALUES:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser


def _add_engine_flags(group: argparse._ArgumentGroup) -> None:
    switch: Any = argparse.BooleanOptionalAction
    group.add_argument("--model")
    group.add_argument("--host")
    group.add_argument("--port", type=int, default=8000)
    group.add_argument("--served-model-name", nargs="+")
    group.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    group.add_argument("--max-model-len", type=int, default=card.MODEL_MAX_LEN)
    group.add_argument("--max-num-seqs", type=int, default=256)
    group.add_argument("--max-num-batched-tokens", type=int, default=8192)
    group.add_argument("--gpu-memory-utilization", type=float, default=0.92)
    group.add_argument("--kv-cache-memory", "--kv-cache-memory-bytes", type=int, help="bytes; 0 profiles the shape")
    group.add_argument("--block-size", type=int)
    group.add_argument("--num-gpu-blocks-override", type=int)
    group.add_argument("--enable-prefix-caching", action=switch)
    group.add_argument("--mamba-cache-mode", choices=["none", "all", "align"], default="none")
    group.add_argument("--mamba-ssm-cache-dtype", default="auto")
    group.add_argument("--kv-cache-dtype", default="auto")
    group.add_argument("--speculative-config", type=_draft_depth, default=0, metavar="JSON")
    group.add_argument("--enable-auto-tool-choice", action=switch)
    group.add_argument("--tool-call-parser")
    group.add_argument("--enable-prompt-tokens-details", action=switch)
    group.add_argument("--enable-request-id-headers", action=switch)
    group.add_argument("--sse-keep-alive-interval", type=float, default=0.0)
    group.add_argument("--max-num-queued-reqs", type=int)
    group.add_argument("--shutdown-timeout", type=float, default=0.0)
    group.add_argument("--api-key", nargs="+")


def _add_simulator_flags(group: argparse._ArgumentGroup, environment: Mapping[str, str]) -> None:
    get = environment.get
    group.add_argument(
        "--time-scale", type=float, default=get("SIM_TIME_SCALE", "1"),
        help="wall seconds per second of model time: 0.05 is 20 times faster [SIM_TIME_SCALE]",
    )  # fmt: skip
    group.add_argument(
        "--sim-boot-seconds", type=float, default=get("SIM_BOOT_SECONDS"),
        help=f"wall seconds until the port opens; {card.BOOT_SECONDS:.0f} x time scale if unset [SIM_BOOT_SECONDS]",
    )  # fmt: skip
    group.add_argument(
        "--sim-boot-error", choices=sorted(BOOT_ERRORS), default=get("SIM_BOOT_ERROR"),
        help="fail at the end of the start, with the engine's words [SIM_BOOT_ERROR]",
    )  # fmt: skip
    group.add_argument(
        "--sim-pcie-atomics", action="store_true", default=get("SIM_PCIE_ATOMICS") == "1",
        help="let two cards run collectives, so that --tensor-parallel-size 2 starts [SIM_PCIE_ATOMICS=1]",
    )  # fmt: skip
    group.add_argument(
        "--sim-faults", metavar="JSON", default=get("SIM_FAULTS", "{}"),
        help='faults from the start on, as {"die_after_tokens": 100} [SIM_FAULTS]',
    )  # fmt: skip
    group.add_argument(
        "--sim-fault-route", action="store_true", default=get("SIM_FAULT_ROUTE") == "1",
        help="serve GET and POST /sim/faults, which read and set faults while it runs [SIM_FAULT_ROUTE=1]",
    )  # fmt: skip


def _draft_depth(text: str) -> int:
    """Draft tokens per step in a --speculative-config."""
    try:
        return int(json.loads(text)["num_speculative_tokens"])
    except (ValueError, TypeError, KeyError):
        raise argparse.ArgumentTypeError(f"not JSON with num_speculative_tokens: {text!r}") from None


def _default_block_size(state_dtype: str) -> int:
    return card.BLOCK_SIZE_FP16_STATE if state_dtype == "float16" else card.BLOCK_SIZE_FP32_STATE


def _dashed(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value
