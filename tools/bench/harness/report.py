"""Tables for people and JSON for programs."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .loops import Turn


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, aligned so that it also reads well in a terminal."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [_line([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]) for row in [head, *rows]]
    return "\n".join([lines[0], _line(["-" * width for width in widths]), *lines[1:]])


def turns_table(turns: Sequence[Turn]) -> str:
    """TTFT by family and turn number (median in ms where there are several), and what came from a cache."""
    families = sorted({turn.family for turn in turns})
    rows = []
    for family in families:
        whole = [turn for turn in turns if turn.family == family and not turn.error]
        later = [turn for turn in whole if turn.number > 1]
        shares = [turn.cached_share for turn in later if turn.cached_share is not None]
        rows.append([
            family, str(len(whole)), _ms(turn.ttft for turn in whole if turn.number == 1), _ms(t.ttft for t in later),
            f"{max((turn.ttft for turn in later), default=0) * 1e3:,.0f}",
            f"{median(turn.seconds for turn in whole):.1f}" if whole else "-",
            f"{median(shares):.0%}" if shares else "-",
            f"{sum(share >= 0.5 for share in shares)}/{len(shares)}" if shares else "-",
            ", ".join(sorted({turn.replica for turn in whole if turn.replica})) or "-",
            str(sum(bool(turn.error) for turn in turns if turn.family == family)),
        ])  # fmt: skip
    head = ["family", "turns", "first TTFT ms", "later TTFT ms", "worst ms", "turn s", "cached", "warm turns"]
    return table([*head, "replicas", "failed"], rows)


def write_json(path: Path, result: Any) -> None:
    """Write a result, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def _ms(seconds: Any) -> str:
    values = list(seconds)
    return f"{median(values) * 1e3:,.0f}" if values else "-"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
