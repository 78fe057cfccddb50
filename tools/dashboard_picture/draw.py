"""A picture of the dashboard by matplotlib: same queries, titles, units, thresholds and places as in Grafana."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

from matplotlib import dates, pyplot, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .board import Panel, load
from .prometheus import Prometheus, Series

CELL = (0.62, 0.36)
"""Inches of a grid cell; Grafana's are 80 x 38 pixels on a wide screen."""
PAPER, PANEL, EDGE, INK, FAINT = "#111217", "#181b1f", "#2a2e35", "#d8d9da", "#8e8e8e"
LINES = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#f2495c", "#8ab8ff")
COLOURS = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}

Named = tuple[str, Series]


def draw(prometheus: Prometheus, start: float, end: float, interval: float, picture: Path) -> None:
    """Draw every panel over `start` to `end` (unix seconds); `interval` is the seconds between two scrapes."""
    panels = load(f"{4 * interval:.0f}s")
    columns, rows = 24, max(panel.place[1] + panel.place[3] for panel in panels)
    figure = pyplot.figure(figsize=(columns * CELL[0], rows * CELL[1]), facecolor=PAPER)
    for panel in panels:
        found = ask(prometheus, panel, start, end, interval)
        axes = _axes(figure, panel, columns, rows)
        if panel.kind == "row":
            axes.text(0, 0.35, f"⌄ {panel.title}", color=INK, fontsize=11, weight="bold")
        else:
            _PAINTERS[panel.kind](axes, panel, found)
            if panel.kind != "stat":
                _time(axes, start, end)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=100, facecolor=PAPER)
    pyplot.close(figure)


def ask(prometheus: Prometheus, panel: Panel, start: float, end: float, step: float) -> list[Named]:
    """Return the series of a panel with their names."""
    return [
        (target.named(series.labels), series)
        for target in panel.targets
        for series in (
            prometheus.instant(target.expr, end) if target.instant else prometheus.over(target.expr, start, end, step)
        )
    ]


def _axes(figure: Figure, panel: Panel, columns: int, rows: int) -> Axes:
    """Return the inner part of a panel's frame, below its title."""
    x, y, width, height = panel.place
    if panel.kind == "row":
        axes = figure.add_axes((0.006, 1 - (y + height) / rows, width / columns, height / rows))
        axes.axis("off")
        return axes
    gap = (0.08 / columns, 0.12 / rows)
    frame = figure.add_axes(
        (x / columns + gap[0], 1 - (y + height) / rows + gap[1], width / columns - 2 * gap[0],
         height / rows - 2 * gap[1])
    )  # fmt: skip
    frame.set(xticks=[], yticks=[], facecolor=PANEL)
    frame.tick_params(length=0)
    for side in frame.spines.values():
        side.set_color(EDGE)
    tall = height * CELL[1]
    frame.text(0.02, 1 - 0.12 / tall, panel.title, transform=frame.transAxes, va="top", color=INK, fontsize=9.5)
    box = frame.get_position()
    if panel.kind == "stat":
        axes = figure.add_axes((box.x0, box.y0, box.width, box.height * 0.8))
        axes.axis("off")
        return axes
    left = 0.155 if panel.kind == "timeseries" else 0.36
    bottom, top = 0.66 / tall, 0.4 / tall
    axes = figure.add_axes(
        (box.x0 + left * box.width, box.y0 + bottom * box.height, (0.97 - left) * box.width,
         (1 - bottom - top) * box.height)
    )  # fmt: skip
    axes.set_facecolor(PANEL)
    axes.tick_params(colors=FAINT, labelsize=7.5, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes


def _stat(axes: Axes, panel: Panel, found: Sequence[Named]) -> None:
    text, colour = panel.at_rest, FAINT
    if found:
        value = found[0][1].samples[-1][1]
        text = _value(value, panel.unit)
        colour = COLOURS[[name for low, name in panel.steps if low is None or value >= low][-1]]
    axes.text(0.5, 0.48, text, ha="center", va="center", color=colour, fontsize=25 if found else 13, weight="bold")


def _lines(axes: Axes, panel: Panel, found: Sequence[Named]) -> None:
    if not found:
        axes.text(0.5, 0.5, panel.at_rest, ha="center", va="center", color=FAINT, transform=axes.transAxes)
    top = 0.0
    floor: dict[float, float] = {}
    for number, (name, series) in enumerate(found):
        colour = LINES[number % len(LINES)]
        times, values = _with_gaps(series)
        if panel.stacked:
            below = [floor.get(when, 0.0) for when in times]
            values = [low + (0.0 if math.isnan(value) else value) for low, value in zip(below, values, strict=True)]
            floor.update(zip(times, values, strict=True))
            axes.fill_between(_days(times), below, values, color=colour, alpha=0.35, lw=0)
        elif len(found) <= 2:
            axes.fill_between(_days(times), 0, values, color=colour, alpha=0.12, lw=0)
        axes.plot(_days(times), values, color=colour, lw=1.3, label=name)
        top = max([top, *(value for value in values if not math.isnan(value))])
    limit = panel.limit
    if limit is not None and (panel.highest or limit <= 1.6 * top or top == 0):
        colour = COLOURS["red"] if panel.steps[0][1] == "red" else COLOURS[panel.steps[-1][1]]
        axes.axhline(limit, color=colour, lw=1, ls=(0, (6, 4)))
        top = max(top, limit)
    axes.set_ylim(0, panel.highest or 1.12 * top or 1)
    axes.grid(axis="both", color=EDGE, lw=0.6)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: _value(value, panel.unit))
    if found:
        axes.legend(
            loc="upper left", bbox_to_anchor=(-0.14, -0.12), ncols=4, frameon=False, fontsize=7.5, labelcolor=INK,
            handlelength=1.2, columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip


def _states(axes: Axes, _: Panel, found: Sequence[Named]) -> None:
    for row, (_name, series) in enumerate(found):
        step = min((after[0] - before[0] for before, after in itertools.pairwise(series.samples)), default=1.0)
        for value, colour in ((1.0, COLOURS["green"]), (0.0, COLOURS["red"])):
            spans = [(_day(when), _day(step)) for when, now in series.samples if now == value]
            axes.broken_barh(spans, (row - 0.38, 0.76), facecolors=colour, lw=0)
    axes.set_yticks(range(len(found)), [name for name, _series in found])
    axes.set_ylim(len(found) - 0.4, -0.6)


def _time(axes: Axes, start: float, end: float) -> None:
    axes.set_xlim(_day(start), _day(end))
    axes.xaxis.set_major_locator(dates.AutoDateLocator(minticks=3, maxticks=6))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))


def _with_gaps(series: Series) -> tuple[list[float], list[float]]:
    """Return times and values, with a NaN where samples are missing, so that no line is drawn across."""
    times, values = [when for when, _ in series.samples], [value for _, value in series.samples]
    steps = [after - before for before, after in itertools.pairwise(times)]
    usual = min(steps, default=0.0)
    for index in reversed([index for index, step in enumerate(steps) if step > 1.5 * usual]):
        times.insert(index + 1, times[index] + usual)
        values.insert(index + 1, math.nan)
    return times, values


def _day(when: float) -> float:
    return when / 86400


def _days(times: Sequence[float]) -> list[float]:
    return [_day(when) for when in times]


def _value(value: float, unit: str) -> str:
    """Show a value as Grafana does in these units."""
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit == "s":
        if value == 0:
            return "0 s"
        return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s" if value < 100 else f"{value / 60:.3g} min"
    text = f"{value / 1000:.3g} K" if value >= 1000 else f"{value:.3g}"
    return text + {"ops": " ops/s", "reqps": " req/s"}.get(unit, "")


_PAINTERS: dict[str, Callable[[Axes, Panel, Sequence[Named]], Any]] = {
    "stat": _stat,
    "timeseries": _lines,
    "state-timeline": _states,
}
