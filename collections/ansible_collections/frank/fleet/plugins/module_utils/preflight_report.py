"""What a preflight found: faults that stop a deploy, warnings that do not, and a table of what is sound."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import NamedTuple

WIDTH = 110


class Fault(NamedTuple):
    """One thing that must be put right before a deploy: each field is one sentence or less."""

    what: str
    where: str
    why: str
    fix: str


@dataclass
class Report:
    """Everything found on one host, in the order it was found."""

    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)

    def fault(self, what: str, where: str, why: str, fix: str) -> None:
        """Add a fault, unless it was found already by way of another engine."""
        if (found := Fault(what, where, why, fix)) not in self.faults:
            self.faults.append(found)

    def warn(self, text: str) -> None:
        """Add a warning once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def row(self, name: str, text: str) -> None:
        """Add a line to the table of what was looked at."""
        self.rows.append((name, text))


def text_of(report: Report, host: str) -> str:
    """The report to read: numbered faults, warnings, and the table where there is no fault."""
    if report.faults:
        blocks = [_fault(number, fault) for number, fault in enumerate(report.faults, 1)]
        heading = f"{host} is not ready: {_count(report.faults, 'fault')}. Nothing was changed."
    else:
        blocks = [_table(report.rows)] if report.rows else []
        heading = f"{host} is ready."
    if report.warnings:
        warnings = [_wrapped("- ", warning) for warning in report.warnings]
        stop = "stops" if len(warnings) == 1 else "stop"
        blocks.append("\n".join([f"{_count(warnings, 'warning')}, which {stop} nothing:", *warnings]))
    return "\n\n".join([heading, *blocks])


def _fault(number: int, fault: Fault) -> str:
    lines = [_wrapped(f"{number}. ", fault.what)]
    # The fix is a command to copy: it stays on one line.
    lines += [_wrapped(f"   {name + ':':<7}", getattr(fault, name)) for name in ("where", "why")]
    lines.append(f"   {'fix:':<7}{fault.fix}")
    return "\n".join(lines)


def _table(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(_wrapped(f"  {name:<{width}}", text) for name, text in rows)


def _wrapped(lead: str, text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(things: list, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
