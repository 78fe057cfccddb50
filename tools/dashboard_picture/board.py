"""The dashboard's file as the picture and the tests read it: its panels and the queries that Grafana sends."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet_dashboard.__main__ import FILE


@dataclass(frozen=True)
class Target:
    """One query of a panel."""

    expr: str
    legend: str
    instant: bool

    def named(self, labels: Mapping[str, str]) -> str:
        """Return the legend of a series."""
        return re.sub(r"{{\s*(\w+)\s*}}", lambda match: labels.get(match[1], ""), self.legend).strip()


@dataclass(frozen=True)
class Panel:
    """One panel; `place` is x, y, width and height in grid cells, `steps` are lowest values and colours."""

    title: str
    kind: str
    place: tuple[int, int, int, int]
    unit: str
    steps: list[tuple[float | None, str]]
    at_rest: str
    targets: list[Target]
    stacked: bool
    highest: float | None

    @property
    def limit(self) -> float | None:
        """The value of the dashed line; None for no line."""
        return next((value for value, _ in reversed(self.steps) if value is not None), None)


def load(rate_interval: str) -> list[Panel]:
    """Return every panel, headings included, for all fleets and replicas; `rate_interval` is such as "20s"."""
    return [_panel(panel, rate_interval) for panel in json.loads(FILE.read_text())["panels"]]


def fill_in(expression: str, rate_interval: str, fleet: str = ".+", replica: str = ".*") -> str:
    """Put values in place of the dashboard's variables."""
    values = {"$__rate_interval": rate_interval, "$fleet": fleet, "$replica": replica}
    for name, value in values.items():
        expression = expression.replace(name, value)
    return expression


def _panel(panel: Mapping[str, Any], rate_interval: str) -> Panel:
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    custom, grid = defaults.get("custom", {}), panel["gridPos"]
    return Panel(
        panel["title"],
        panel["type"],
        (grid["x"], grid["y"], grid["w"], grid["h"]),
        defaults.get("unit", ""),
        [(step["value"], step["color"]) for step in defaults.get("thresholds", {}).get("steps", [])],
        defaults.get("noValue", ""),
        [
            Target(fill_in(target["expr"], rate_interval), target["legendFormat"], bool(target.get("instant")))
            for target in panel.get("targets", [])
        ],
        custom.get("stacking", {}).get("mode") == "normal",
        defaults.get("max"),
    )
