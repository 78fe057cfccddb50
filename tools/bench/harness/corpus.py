"""The code corpus: prompts cut from real sources, for `vllm bench serve --dataset-name custom`."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = frozenset({".c", ".cpp", ".go", ".h", ".java", ".js", ".md", ".py", ".rs", ".sh", ".ts", ".yaml", ".yml"})
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "build", "dist", "target"})
_TASKS = (
    "Continue this file in the same style:", "Find the bug that is most likely to bite here, and fix it:",
    "Rewrite this so that it is easier to test:", "Write tests for what this does:",
)  # fmt: skip


class CorpusError(RuntimeError):
    """No corpus can be made; the message is one line that says why."""


def sources(folder: Path) -> Iterator[Path]:
    """Yield the source files below a folder, in a stable order; hidden and generated folders are left out."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part in _SKIPPED for part in parts)
        if path.suffix in SUFFIXES and not hidden and path.is_file():
            yield path


def build(folder: Path, count: int, characters: int, seed: int) -> list[str]:
    """Return `count` prompts of about `characters` characters of code each, no two alike.

    Raises:
        CorpusError: the sources are too small for that many different prompts.
    """
    text = "".join(f"\n# {path.relative_to(folder)}\n{path.read_text(errors='replace')}" for path in sources(folder))
    if len(text) < count * characters:
        raise CorpusError(
            f"{folder} holds {len(text):,} characters of sources, {count} prompts of {characters:,} need "
            f"{count * characters:,}: name a larger --source, or ask for fewer or shorter prompts"
        )
    rng = random.Random(seed)
    starts = [index * len(text) // count for index in range(count)]
    rng.shuffle(starts)
    return [f"{rng.choice(_TASKS)}\n\n{text[start : start + characters]}" for start in starts]


def write(path: Path, prompts: list[str]) -> None:
    """Write prompts as vLLM's custom data set: one JSON object with `prompt` a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))


def salted(path: Path, salt: str) -> list[str]:
    """Read such a file and put `salt` before every prompt, so that none starts like one of an earlier run.

    Raises:
        CorpusError: not such a file, or an empty one.
    """
    try:
        prompts = [json.loads(line)["prompt"] for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{path} is not a corpus of this harness: {error!r}") from error
    if not prompts:
        raise CorpusError(f"{path} holds no prompt")
    return [f"# run {salt}, prompt {number}\n{prompt}" for number, prompt in enumerate(prompts)]
