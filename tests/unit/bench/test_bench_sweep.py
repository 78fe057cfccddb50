"""The sweep: what it asks of `vllm bench serve`, and which of its runs it refuses."""

import json
import sys
from pathlib import Path

import pytest
from bench.harness.arguments import parse
from bench.harness.corpus import write
from bench.harness.sweep import Plan, SweepError, command, read, run

GOOD = {
    "completed": 8, "failed": 0, "total_output_tokens": 4096, "output_throughput": 147.6, "median_ttft_ms": 471.0,
    "p99_ttft_ms": 900.0, "median_tpot_ms": 25.3,
}  # fmt: skip


def plan(vllm: str = "vllm", corpus: Path | None = None, salt: str = "s") -> Plan:
    return Plan(vllm, "http://127.0.0.1:7770", "frank-medium", "/models/m", 1024, 512, 4, corpus, salt)


def program(folder: Path, body: str) -> str:
    """A stand-in for vLLM's program; `target` is the file that it should write."""
    path = folder / "vllm"
    path.write_text(
        f"#!{sys.executable}\nimport json, pathlib, sys\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('--result-dir') + 1], 'result.json')\n" + body
    )
    path.chmod(0o755)
    return str(path)


def option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_the_tokenizer_is_demanded_and_handed_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(["sweep"])
    assert refused.value.code == 2
    assert "--tokenizer" in capsys.readouterr().err
    argv = command(plan(), 4, tmp_path)
    assert option(argv, "--tokenizer") == "/models/m"
    assert option(argv, "--endpoint") == "/v1/chat/completions"  # without it the chat backend fails
    assert (option(argv, "--max-concurrency"), option(argv, "--num-prompts")) == ("4", "16")


def test_no_two_runs_send_the_same_random_prompts(tmp_path: Path) -> None:
    seeds = [
        option(command(plan(salt=salt), concurrency, tmp_path), "--seed")
        for salt in ("a", "b")
        for concurrency in (1, 4)
    ]
    assert len(set(seeds)) == 4
    assert seeds[0] == option(command(plan(salt="a"), 1, tmp_path), "--seed")


def test_a_corpus_is_salted_for_each_concurrency(tmp_path: Path) -> None:
    write(tmp_path / "code.jsonl", ["def f(): ..."])
    sent = []
    for concurrency in (1, 4):
        argv = command(plan(corpus=tmp_path / "code.jsonl"), concurrency, tmp_path)
        assert option(argv, "--dataset-name") == "custom"
        sent.append(json.loads(Path(option(argv, "--dataset-path")).read_text())["prompt"])
    assert sent[0] != sent[1]
    assert all(prompt.endswith("def f(): ...") for prompt in sent)


def test_a_good_run_is_read(tmp_path: Path) -> None:
    point = run(plan(program(tmp_path, f"target.write_text({json.dumps(GOOD)!r})")), 4, tmp_path / "4")
    assert (point.concurrency, point.output_rate, point.ttft, point.tpot) == (4, 147.6, 471.0, 25.3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"completed": 0}, "nothing was measured"),
        ({"total_output_tokens": 0}, "nothing was measured"),
        ({"failed": 2}, "2 of 10 requests failed"),
    ],
)
def test_a_green_run_that_measured_nothing_is_refused(tmp_path: Path, change: dict[str, int], says: str) -> None:
    (tmp_path / "result.json").write_text(json.dumps(GOOD | change))
    with pytest.raises(SweepError, match=says):
        read(tmp_path / "result.json", 4)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print('not a valid model identifier')", "no result was written.*not a valid model identifier"),
        ("print('boom'); sys.exit(3)", "ended with code 3: boom"),
    ],
)
def test_a_run_without_a_result_is_refused_with_its_last_words(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(SweepError, match=says):
        run(plan(program(tmp_path, body)), 1, tmp_path / "1")


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="name vLLM's program with --vllm"):
        run(plan(str(tmp_path / "nothing")), 1, tmp_path / "1")
