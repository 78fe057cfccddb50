"""Which scenario covers which alert in which case; `python -m rules.coverage` (in tests/) rewrites the docs' table."""

from __future__ import annotations

import re
from typing import Any

import yaml
from rules import causes, load, service
from rules.scenario import ALL, CASES, ROOT, RULES, Scenario

DOC = ROOT / "docs/observability.md"
MARKS = ("<!-- rule by case: begin -->\n", "<!-- rule by case: end -->\n")
SCENARIOS: list[Scenario] = [*service.SCENARIOS, *load.SCENARIOS, *causes.SCENARIOS]
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule
}
RECORDED: dict[str, str] = {
    rule["record"]: rule["expr"] for group in GROUPS for rule in group["rules"] if "record" in rule
}


def expression(alert: str) -> str:
    """Return what an alert evaluates, with its recording rules written out and without the alerts that explain it."""
    text = re.sub(r"ALERTS\s*\{[^}]*\}", "", ALERTS[alert]["expr"])
    for name, expr in RECORDED.items():
        text = text.replace(name, expr)
    return text


def wanted(alert: str) -> set[str]:
    """Return the cases that an alert needs a scenario of, read off its expression."""
    expr = expression(alert)
    cases = {"fires", "silent", "absent", "idle", "roll"}
    if re.search(r"\b(rate|increase|changes)\(", expr):
        cases.add("reset")
    if "vllm:" in expr:
        cases.add("engines")
    if "vllm:gpu_" in expr:
        cases.add("names")
    if "ALERTS" in ALERTS[alert]["expr"] or "unless on (fleet, replica) routing_proxy_replica_up" in expr:
        cases.add("one cause")
    return cases


def covered() -> dict[str, dict[str, int]]:
    """Return alert -> case -> number of scenarios."""
    count = {alert: dict.fromkeys(CASES, 0) for alert in ALERTS}
    for scenario in SCENARIOS:
        for alert, case in scenario.cases():
            for one in ALERTS if alert == ALL else [alert]:
                count[one][case] += 1
    return count


def table() -> str:
    """Return the table: how many scenarios cover a case, or a dash where it does not apply."""
    lines = [f"| alert | {' | '.join(CASES)} |", "|---" * (len(CASES) + 1) + "|"]
    for alert, cases in covered().items():
        cells = [str(cases[case]) if cases[case] or case in wanted(alert) else "-" for case in CASES]
        lines.append(f"| [{alert}](#{alert.lower()}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(text: str) -> str:
    """Return the page with the table in its place."""
    head, rest = text.split(MARKS[0])
    return f"{head}{MARKS[0]}\n{table()}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


if __name__ == "__main__":
    DOC.write_text(written(DOC.read_text()))
