"""The concurrency sweep: `vllm bench serve` at one concurrency after the other, and what it measured, or a refusal."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from . import corpus


class SweepError(RuntimeError):
    """A run measured nothing that counts; the message is one line that says why."""


@dataclass(frozen=True)
class Plan:
    """What a sweep asks for. Lengths are tokens.

    Attributes:
        vllm: the program.
        tokenizer: folder or name of the model's tokenizer. The client resolves the served name by itself otherwise:
            an alias ends the run before its first request, with exit code 0 in some versions.
        prompts: requests at concurrency 1; higher ones get that many a stream.
        corpus: data set of code; None for random tokens.
        salt: makes prompts differ from those of earlier runs, which the engine still has in its prefix cache.
    """

    vllm: str
    url: str
    model: str
    tokenizer: str
    input_tokens: int
    output_tokens: int
    prompts: int
    corpus: Path | None
    salt: str


@dataclass(frozen=True)
class Point:
    """One concurrency: output tokens a second of all streams, medians and 99th percentiles in ms."""

    concurrency: int
    completed: int
    output_rate: float
    ttft: float
    ttft_p99: float
    tpot: float
    acceptance: float | None = None


def command(plan: Plan, concurrency: int, folder: Path) -> list[str]:
    """Return the command line of one run; it writes result.json into `folder`."""
    count = str(plan.prompts * concurrency)
    argv = [
        plan.vllm, "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
        "--base-url", plan.url, "--model", plan.model, "--tokenizer", plan.tokenizer, "--ignore-eos",
        "--max-concurrency", str(concurrency), "--num-prompts", count, "--percentile-metrics", "ttft,tpot,itl,e2el",
        "--save-result", "--result-dir", str(folder), "--result-filename", "result.json",
    ]  # fmt: skip
    if plan.corpus is None:
        # The random data set is a function of its seed: an unchanged one would send the prompts of the last run again.
        seed = str(crc32(f"{plan.salt} {concurrency}".encode()))
        length = ["--random-input-len", str(plan.input_tokens), "--random-output-len", str(plan.output_tokens)]
        return [*argv, "--dataset-name", "random", *length, "--seed", seed]
    data = folder / "corpus.jsonl"
    corpus.write(data, corpus.salted(plan.corpus, f"{plan.salt}-{concurrency}"))
    length = ["--custom-output-len", str(plan.output_tokens)]
    return [*argv, "--dataset-name", "custom", "--dataset-path", str(data), *length]


def run(plan: Plan, concurrency: int, folder: Path) -> Point:
    """Run one concurrency and return what it measured.

    Raises:
        SweepError: the program failed, or measured nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command(plan, concurrency, folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except OSError as error:
        raise SweepError(f"{plan.vllm} does not run ({error}): name vLLM's program with --vllm") from error
    (folder / "output.txt").write_text(done.stdout)
    last = next((line for line in reversed(done.stdout.splitlines()) if line.strip()), "no output")
    if done.returncode != 0:
        raise SweepError(f"concurrency {concurrency}: vllm bench serve ended with code {done.returncode}: {last}")
    return read(folder / "result.json", concurrency, last)


def read(path: Path, concurrency: int, last_line: str = "") -> Point:
    """Read a result of `vllm bench serve`, and refuse one that looks green and measured nothing.

    Raises:
        SweepError: no result, no completed request, failed ones, or no output token.
    """
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SweepError(f"concurrency {concurrency}: no result was written; its last line: {last_line}") from error
    completed, failed = int(result.get("completed") or 0), int(result.get("failed") or 0)
    if completed == 0 or not result.get("total_output_tokens"):
        raise SweepError(f"concurrency {concurrency}: nothing was measured ({completed} requests, no token)")
    if failed:
        raise SweepError(f"concurrency {concurrency}: {failed} of {completed + failed} requests failed")
    return Point(
        concurrency=concurrency,
        completed=completed,
        output_rate=result["output_throughput"],
        ttft=result["median_ttft_ms"],
        ttft_p99=result["p99_ttft_ms"],
        tpot=result["median_tpot_ms"],
    )


def rows(points: Sequence[Point]) -> list[list[str]]:
    """The points as cells of a table with HEAD."""
    return [
        [
            str(point.concurrency), str(point.completed), f"{point.output_rate:.1f}", f"{point.ttft:,.0f}",
            f"{point.ttft_p99:,.0f}", f"{point.tpot:.1f}",
            "-" if point.acceptance is None else f"{point.acceptance:.1%}",
        ]
        for point in points
    ]  # fmt: skip


HEAD = ("concurrency", "requests", "output tok/s", "TTFT p50 ms", "TTFT p99 ms", "TPOT p50 ms", "drafts accepted")
