"""The command line's arguments, with the traps of each harness in its help."""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

Arguments = argparse.Namespace

CORPUS = """Cuts prompts from the sources below a folder and writes them for the sweep (--corpus).

Trap: the corpus decides the token rate. Drafts of a speculative decoder are accepted by content: on two R9700 random
text had 34 to 43 percent accepted, at the same step time as code. Compare step time (TPOT) between corpora, and token
rates only on the same corpus."""

SWEEP = """Runs `vllm bench serve` at one concurrency after the other.

Traps:
- The client needs --tokenizer, a folder or name that exists where it runs. Without it the served alias is looked up on
  the model hub and the run ends before its first request, looking green. So it is required here.
- A repeated prompt is served from the prefix cache. Each run has a salt of its own (--salt repeats one on purpose).
- A run without output tokens, or with failed requests, is refused (exit code 1) and not written.
- Through a proxy, N streams are N/replicas on each card.
- vLLM reads a --corpus with pandas, which its image may not have: pip install pandas (part of vllm[bench]).
- Output is forced to its full length (--ignore-eos), so answers are not what a user would get."""

TURNS = """Measures time to first token of agent loops: each turn sends the whole conversation again.

Traps:
- An even number of families asked in a fixed order is pinned by a bare counter, by accident. So the order changes each
  round; --in-order keeps it.
- With room for all conversations on all replicas, every policy looks the same. Size --families x --context to the pools
  (122,636 tokens a card on the R9700), not to what is quick.
- Contexts are sized by this endpoint's own tokens (one probe request measures characters a token).
- Hits come in whole blocks (1648 tokens on the deployed hybrid model): a prompt shorter than a block never hits.
- The column `cached` needs an engine with --enable-prompt-tokens-details; without it only TTFT tells.
- Medians hide one cold turn in three; look at the worst column too."""

SOAK = """Keeps families of agent loops going at the same time for a while, and watches the engines' KV pools.

Traps:
- KV use counts the blocks of running requests only: a full prefix cache shows as 0. Reuse shows in `cached`.
- Engines are asked directly (--engines), since the proxy's /metrics are its own.
- Three families of 80k, 50k and 50k are more than two cards hold: turns trade against each other, nothing fails.
- What counts as an error is an answer that is not whole; a slow one is a result.
- Few turns of a large family fit into a few minutes: run 13 minutes or more before comparing two settings."""


def parse(argv: Sequence[str] | None = None) -> Arguments:
    """Read the command line; the attributes are those of the chosen harness, named in `harness`."""
    parser = argparse.ArgumentParser(prog="python -m bench.harness", description=__doc__)
    commands = parser.add_subparsers(dest="harness", required=True)
    corpus = _command(commands, "corpus", "build prompts of code", CORPUS)
    corpus.add_argument("--source", type=Path, default=Path(), help="folder of sources (the current one)")
    corpus.add_argument("--out", type=Path, required=True, help="file to write, .jsonl")
    corpus.add_argument("--prompts", type=_positive, default=16)
    corpus.add_argument("--characters", type=_positive, default=4000, help="length of each (4000, about 1k tokens)")
    corpus.add_argument("--seed", type=int, default=0)
    _sweep(_measuring(commands, "sweep", "vllm bench serve by concurrency", SWEEP))
    turns = _measuring(commands, "turns", "first token of agent loops, turn by turn", TURNS)
    turns.add_argument("--families", type=_positive, default=2)
    turns.add_argument("--context", type=_positive, default=30_000, help="tokens of each family's document (30000)")
    turns.add_argument("--turns", type=_positive, default=4)
    turns.add_argument("--in-order", action="store_true", help="ask the families in the same order each round")
    _loop_flags(turns)
    soak = _measuring(commands, "soak", "families of agent loops at the same time", SOAK)
    soak.add_argument(
        "--families", type=_families, default=_families("heavy=80000,medium-1=50000,medium-2=50000"),
        metavar="NAME=TOKENS,...", help="documents (heavy=80000,medium-1=50000,medium-2=50000)",
    )  # fmt: skip
    soak.add_argument("--minutes", type=float, default=13.0, help="no turn starts later than that (13)")
    soak.add_argument("--interval", type=float, default=2.0, help="seconds between two looks at the engines (2)")
    _loop_flags(soak)
    plot = _command(commands, "plot", "draw results", "Draws JSON results; needs matplotlib.")
    plot.add_argument("results", nargs="+", type=Path, metavar="FILE.json")
    plot.add_argument("--format", choices=["png", "svg"], default="png")
    return parser.parse_args(argv)


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, short: str, text: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=short, description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def _measuring(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, short: str, text: str
) -> argparse.ArgumentParser:
    """A command that sends requests."""
    parser = _command(commands, name, short, text)
    parser.add_argument("--endpoint", default="http://127.0.0.1:7770", help="with or without /v1 (port 7770 here)")
    parser.add_argument("--model", default="", help="served name (the endpoint's first)")
    parser.add_argument("--engines", nargs="*", default=[], metavar="URL", help="engines whose /metrics are read")
    parser.add_argument("--salt", default=f"{time.time_ns():x}", help="makes prompts new; a fixed one repeats a run")
    parser.add_argument("--json", type=Path, help="write the result there, for `plot`")
    parser.set_defaults(api_key=os.environ.get("OPENAI_API_KEY", ""))
    parser.epilog = "A key for the endpoint is taken from OPENAI_API_KEY."
    return parser


def _sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokenizer", required=True, help="the model's tokenizer: a folder or a name on the hub")
    parser.add_argument("--vllm", default="vllm", help="vLLM's program (vllm on PATH)")
    parser.add_argument("--concurrency", nargs="+", type=_positive, default=[1, 4, 8])
    parser.add_argument("--input-tokens", type=_positive, default=1024, help="of random prompts (1024)")
    parser.add_argument("--output-tokens", type=_positive, default=512)
    parser.add_argument("--prompts", type=_positive, default=4, help="requests a stream (4)")
    parser.add_argument("--corpus", type=Path, help="prompts made by the harness `corpus` in place of random ones")


def _loop_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--question", type=_positive, default=400, help="tokens that each turn adds (400)")
    parser.add_argument("--answer", type=_positive, default=64, help="most tokens of an answer (64)")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _families(text: str) -> dict[str, int]:
    try:
        return {name: _positive(tokens) for name, _, tokens in (part.partition("=") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=TOKENS,NAME=TOKENS") from None
