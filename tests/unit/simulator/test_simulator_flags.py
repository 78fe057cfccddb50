"""The command line: vLLM's own, the simulator's few, and one clear line for what is wrong."""

import pytest
from engine_simulator.flags import Settings, parse
from sim_process import PATIENCE, spawn

REPLICA = [
    "serve", "/models/Qwen3.8-27B-Uncensored-MXFP4-awq", "--served-model-name", "frank-medium",
    "--host", "0.0.0.0", "--port", "7771", "--tensor-parallel-size", "1", "--max-model-len", "114688",
    "--max-num-seqs", "4", "--max-num-batched-tokens", "8192", "--gpu-memory-utilization", "0.98",
    "--kv-cache-memory", "0", "--kv-cache-dtype", "fp8", "--attention-backend", "R4D", "--no-async-scheduling",
    "--enable-prefix-caching", "--mamba-cache-mode", "align", "--enable-auto-tool-choice",
    "--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3",
    "--override-generation-config", '{"temperature":0.7,"top_p":0.95,"top_k":20}',
    "--chat-template", "/opt/template.jinja",
    "--speculative-config", '{"method":"dflash","model":"/models/d","num_speculative_tokens":7}',
]  # fmt: skip


def parse_with(*flags: str, **environment: str) -> Settings:
    """Read flags in an environment of its own."""
    return parse(["model", "--kv-cache-memory", "0", *flags], environment)


def test_the_deployed_command_line() -> None:
    settings = parse(REPLICA, {})
    shape = settings.shape
    assert settings.model == "/models/Qwen3.8-27B-Uncensored-MXFP4-awq"
    assert settings.served_model_names == ("frank-medium",)
    assert (settings.host, settings.port, settings.max_num_seqs, settings.depth) == ("0.0.0.0", 7771, 4, 7)
    assert (shape.max_model_len, shape.chunk, shape.kv_memory, shape.block_size) == (114_688, 8192, 0, 1648)
    assert settings.prefix_caching and settings.recurrent_state_cached and settings.auto_tools
    assert settings.keep_alive == 5
    assert settings.boot_seconds == 150


def test_zero_and_left_out_are_different() -> None:
    assert parse(["m", "--kv-cache-memory", "0"], {}).shape.kv_memory == 0
    assert parse(["m"], {}).shape.kv_memory is None


def test_what_vllm_leaves_off_is_off() -> None:
    settings = parse_with()
    assert not settings.prefix_caching
    assert settings.depth == 0
    assert settings.shape.max_model_len == 262_144
    assert not settings.fault_route


def test_spellings() -> None:
    assert parse_with("--max_num_seqs=3").max_num_seqs == 3
    assert parse_with("--kv-cache-memory-bytes", "5").shape.kv_memory == 5
    assert parse_with("--no-enable-prefix-caching").prefix_caching is False
    assert parse_with("--served-model-name", "a", "b").served_model_names == ("a", "b")
    assert parse_with("--mamba-ssm-cache-dtype", "float16").shape.block_size == 880


def test_the_environment_sets_what_is_the_simulators_own() -> None:
    settings = parse_with(
        SIM_TIME_SCALE="0.05", SIM_BOOT_SECONDS="2", SIM_FAULTS='{"hang": true}', SIM_FAULT_ROUTE="1",
        SIM_BOOT_ERROR="no-device", SIM_PCIE_ATOMICS="1", VLLM_HTTP_TIMEOUT_KEEP_ALIVE="7", VLLM_API_KEY="k",
    )  # fmt: skip
    assert (settings.time_scale, settings.boot_seconds, settings.boot_error) == (0.05, 2, "no-device")
    assert settings.faults.hang and settings.fault_route and settings.shape.pcie_atomics
    assert (settings.keep_alive, settings.api_keys) == (7, {"k"})
    assert parse_with("--time-scale", "0.5", SIM_TIME_SCALE="0.05").time_scale == 0.5


def test_boot_time_is_scaled_unless_given() -> None:
    assert parse_with("--time-scale", "0.1").boot_seconds == pytest.approx(15)
    assert parse_with("--time-scale", "0.1", "--sim-boot-seconds", "0").boot_seconds == 0


@pytest.mark.parametrize(
    ("flags", "environment", "named"),
    [
        (["--no-such-flag"], {}, "--no-such-flag"),
        (["--max-model", "4096"], {}, "--max-model"),
        (["--port", "x"], {}, "--port"),
        (["--speculative-config", "{"], {}, "--speculative-config"),
        (["--time-scale", "-1"], {}, "--time-scale"),
        (["--sim-faults", '{"typo": 1}'], {}, "typo"),
        ([], {"SIM_TIME_SCALE": "fast"}, "--time-scale"),
        ([], {"SIM_BOOT_ERROR": "bad"}, "--sim-boot-error"),
        ([], {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "long"}, "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"),
    ],
)
def test_what_is_wrong_is_named(
    flags: list[str], environment: dict[str, str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse_with(*flags, **environment)
    assert stop.value.code == 2
    assert named in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        (["m", "--kv-cache-memory", "0"], 1, "9.61 GiB KV cache is needed"),
        (["m", "--max-model-len", "114688"], 1, "pass --kv-cache-memory 0"),
        (["m", "--sim-boot-error", "no-device"], 1, "hipErrorNoDevice"),
        (["m", "--no-such-flag"], 2, "unrecognized arguments: --no-such-flag"),
    ],
)
def test_a_start_that_fails_says_why(flags: list[str], code: int, text: str) -> None:
    process = spawn(*flags, "--sim-boot-seconds", "0")
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert text in output
    assert "Traceback" not in output


def test_the_ledger_is_in_the_log() -> None:
    process = spawn(*REPLICA, "--port", "0", "--sim-boot-seconds", "0")
    try:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(3)]
    finally:
        process.kill()
        process.communicate()
    assert "GPU KV cache size: 122,636 tokens" in lines[1]
    assert "Maximum concurrency for 114,688 tokens per request: 1.07x" in lines[2]
