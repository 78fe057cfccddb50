"""What a scenario of the rules is, and its run by promtool."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from rules.series import Series

ROOT = Path(__file__).parents[2]
RULES = ROOT / "roles/prometheus_rules/files/frank-fleet.rules.yml"

#: The kinds of case, in the order of the table in docs/observability.md.
CASES = {
    "fires": "what it is for",
    "silent": "just short of that",
    "absent": "no series at all",
    "reset": "counters begin anew",
    "idle": "no traffic",
    "engines": "several engines in a target",
    "names": "old and new metric names",
    "roll": "a planned roll",
    "one cause": "another alert explains it",
}
ALL = "all"


@dataclass(frozen=True)
class Scenario:
    """Series, and which alerts fire at which minute: exactly these, written "FleetTargetDown frank-medium-a"."""

    name: str
    #: Alert (or ALL) to cases, separated by commas.
    covers: dict[str, str]
    series: Series
    firing: dict[float, set[str]]
    #: PromQL expression -> its value at the last minute, for recording rules.
    values: dict[str, float] = field(default_factory=dict)

    def cases(self) -> set[tuple[str, str]]:
        """Return pairs of alert and case."""
        return {(alert, case.strip()) for alert, cases in self.covers.items() for case in cases.split(",")}


def labels_of(alert: str) -> str:
    """Return the labels of "FleetX", "FleetX fleet" or "FleetX fleet replica", as promtool expects samples."""
    pairs = zip(("alertname", "fleet", "replica"), alert.split(), strict=False)
    return "{" + ", ".join(f'{key}="{value}"' for key, value in pairs if value != "-") + "}"


def promtool_test(scenario: Scenario) -> dict[str, object]:
    """Return the scenario as promtool's own test file."""
    tests = [
        {
            "expr": 'count by (alertname, fleet, replica) (ALERTS{alertstate="firing"})',
            "eval_time": f"{round(minute * 60)}s",
            "exp_samples": [{"labels": labels_of(alert), "value": 1} for alert in sorted(alerts)],
        }
        for minute, alerts in scenario.firing.items()
    ]
    last = max(scenario.firing)
    tests += [
        {"expr": expr, "eval_time": f"{round(last * 60)}s", "exp_samples": [{"labels": "{}", "value": value}]}
        for expr, value in scenario.values.items()
    ]
    series = [{"series": name, "values": samples} for name, samples in scenario.series.items()]
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": "30s",
        "group_eval_order": [group["name"] for group in yaml.safe_load(RULES.read_text())["groups"]],
        "tests": [{"name": scenario.name, "interval": "15s", "input_series": series, "promql_expr_test": tests}],
    }


def run(promtool: list[str], scenario: Scenario, folder: Path) -> str:
    """Run the scenario; return what promtool has against it, or nothing."""
    file = folder / "scenario.test.yml"
    file.write_text(yaml.safe_dump(promtool_test(scenario), sort_keys=False))
    done = subprocess.run([*promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
