"""`python -m bench.harness corpus|sweep|turns|soak|plot`: the command line."""

import asyncio
import json
import sys
from collections.abc import Sequence

from . import plots
from .arguments import Arguments, parse
from .corpus import CorpusError, build, write
from .endpoint import EndpointError
from .measure import soak, sweep, turns
from .report import write_json
from .sweep import SweepError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one harness; return 0, 1 if requests failed or nothing was measured, 2 if it could not run."""
    arguments = parse(argv)
    try:
        return _RUN[arguments.harness](arguments)
    except SweepError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except (EndpointError, CorpusError, plots.PlotError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def _corpus(arguments: Arguments) -> int:
    prompts = build(arguments.source, arguments.prompts, arguments.characters, arguments.seed)
    write(arguments.out, prompts)
    print(f"{arguments.out}: {len(prompts)} prompts of {arguments.characters} characters from {arguments.source}")
    return 0


def _plot(arguments: Arguments) -> int:
    for path in arguments.results:
        try:
            result = json.loads(path.read_text())
        except ValueError as error:
            raise plots.PlotError(f"{path} is not JSON: {error}") from error
        print(plots.plot(result, path.with_suffix(f".{arguments.format}")))
    return 0


def _measured(arguments: Arguments) -> int:
    harness = {"sweep": sweep, "turns": turns, "soak": soak}[arguments.harness]
    result = asyncio.run(harness(arguments))
    if arguments.json:
        write_json(arguments.json, result)
        print(f"written to {arguments.json}", file=sys.stderr)
    failed = [turn for turn in result.get("turns", ()) if turn["error"]]
    if failed:
        print(f"bench: {len(failed)} requests failed, the first with: {failed[0]['error']}", file=sys.stderr)
    return 1 if failed else 0


_RUN = {"corpus": _corpus, "plot": _plot, "sweep": _measured, "turns": _measured, "soak": _measured}

if __name__ == "__main__":
    sys.exit(main())
