"""The three harnesses that send requests. Each prints a table and returns what is written as JSON."""

import asyncio
import contextlib
import random
import sys
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import metrics
from . import sweep as vllm_bench
from .arguments import Arguments
from .endpoint import Client, connect
from .loops import Loop, Turn, run, run_rounds
from .report import table, turns_table
from .text import code_text

Result = dict[str, Any]


async def turns(arguments: Arguments) -> Result:
    """Time to first token of agent loops, turn by turn; raise EndpointError."""
    async with _connected(arguments) as client:
        per_token = await client.characters_per_token()
        loops = [
            _loop(f"family-{number + 1}", arguments.context, arguments, per_token, arguments.turns)
            for number in range(arguments.families)
        ]
        order: random.Random = _InOrder() if arguments.in_order else random.Random(arguments.salt)
        done = await run_rounds(client, loops, order, on_turn=_show)
    print(turns_table(done))
    return _result(client, arguments, per_token) | {"turns": [asdict(turn) for turn in done]}


async def soak(arguments: Arguments) -> Result:
    """Families of agent loops at the same time, and the engines' KV pools meanwhile; raise EndpointError."""
    samples: list[metrics.Sample] = []
    async with _connected(arguments) as client:
        per_token = await client.characters_per_token()
        loops = [
            replace(_loop(name, tokens, arguments, per_token, sys.maxsize), until=60 * arguments.minutes)
            for name, tokens in arguments.families.items()
        ]
        watching = asyncio.create_task(metrics.watch(arguments.engines, arguments.interval, samples))
        try:
            done = await run(client, loops, _show)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    print(turns_table(done))
    if samples:
        print(f"\n{_kv_table(samples)}")
    result = _result(client, arguments, per_token)
    return result | {"turns": [asdict(turn) for turn in done], "samples": [asdict(sample) for sample in samples]}


async def sweep(arguments: Arguments) -> Result:
    """`vllm bench serve` by concurrency; raise EndpointError, SweepError or CorpusError."""
    async with _connected(arguments) as client:
        plan = vllm_bench.Plan(
            arguments.vllm, client.endpoint.url, client.endpoint.model, arguments.tokenizer, arguments.input_tokens,
            arguments.output_tokens, arguments.prompts, arguments.corpus, arguments.salt,
        )  # fmt: skip
    points = []
    names = (metrics.DRAFTED, metrics.ACCEPTED)
    with TemporaryDirectory(prefix="bench-sweep-") as folder:
        for concurrency in arguments.concurrency:
            print(f"  concurrency {concurrency} ...", file=sys.stderr)
            before = await metrics.totals(arguments.engines, names)
            point = await asyncio.to_thread(vllm_bench.run, plan, concurrency, Path(folder) / str(concurrency))
            after = await metrics.totals(arguments.engines, names)
            drafted, accepted = (after[name] - before[name] for name in names)
            points.append(replace(point, acceptance=accepted / drafted if drafted > 0 else None))
    print(table(vllm_bench.HEAD, vllm_bench.rows(points)))
    return _result(client, arguments, 0.0) | {"points": [asdict(point) for point in points]}


class _InOrder(random.Random):
    """Leaves every order as it is."""

    def shuffle(self, x: Any) -> None:
        """Do nothing."""


def _connected(arguments: Arguments) -> contextlib.AbstractAsyncContextManager[Client]:
    return connect(arguments.endpoint, arguments.model, arguments.api_key)


def _loop(name: str, tokens: int, arguments: Arguments, per_token: float, turns: int) -> Loop:
    """One family whose document and questions are `tokens` and --question tokens of this endpoint's."""
    salted = f"{name} {arguments.salt}"
    return Loop(
        salted, name, document=code_text(salted, round(tokens * per_token)), turns=turns,
        question=round(arguments.question * per_token), answer_tokens=arguments.answer,
    )  # fmt: skip


def _result(client: Client, arguments: Arguments, per_token: float) -> Result:
    hidden = ("api_key", "json", "harness")
    settings = {key: value if isinstance(value, int | float | list | dict) else str(value)
                for key, value in vars(arguments).items() if key not in hidden}  # fmt: skip
    return {
        "harness": arguments.harness, "endpoint": client.endpoint.url, "model": client.endpoint.model,
        "characters_per_token": per_token, "settings": settings,
    }  # fmt: skip


def _show(turn: Turn) -> None:
    cached = "" if turn.cached_tokens is None else f", {turn.cached_tokens:,} cached"
    end = f"FAILED: {turn.error}" if turn.error else f"{turn.seconds:.1f} s"
    print(
        f"  {turn.started:7.1f} s  {turn.family} turn {turn.number}: first token {turn.ttft * 1e3:,.0f} ms, {end}, "
        f"{turn.prompt_tokens:,} tokens{cached} {turn.replica} {turn.decision}",
        file=sys.stderr,
    )


def _kv_table(samples: list[metrics.Sample]) -> str:
    rows = []
    for engine in sorted({sample.engine for sample in samples}):
        own = [sample for sample in samples if sample.engine == engine]
        use = [sample.kv_use for sample in own]
        full = sum(value > 0.9 for value in use) / len(use)
        waiting = max(sample.waiting for sample in own)
        rows.append([engine, f"{sum(use) / len(use):.0%}", f"{max(use):.0%}", f"{full:.0%}", f"{waiting:.0f}"])
    return table(["engine", "KV use, mean", "most", "time above 90 %", "most waiting"], rows)
