"""Pictures of results: TTFT by turn and family, KV use over time, latency against concurrency, policies."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

_COLUMNS = 4


class PlotError(RuntimeError):
    """Nothing can be drawn; the message is one line that says why."""


def plot(result: Mapping[str, Any], target: Path) -> Path:
    """Draw a harness's JSON result into `target` (its suffix says how: .png, .svg) and return it.

    Raises:
        PlotError: not a result of a harness, or matplotlib is missing.
    """
    draw = {"turns": _turns, "soak": _soak, "sweep": _sweep}.get(str(result.get("harness")))
    if draw is None:
        raise PlotError("not a result of sweep, turns or soak")
    figure = draw(_pyplot(), result)
    return save(figure, target)


def save(figure: Any, target: Path) -> Path:
    """Write a figure, with its folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(target, dpi=120)
    _pyplot().close(figure)
    return target


def policies(figures: Mapping[str, Mapping[str, float]], title: str, unit: str, target: Path) -> Path:
    """Draw bars: one group for each workload, one bar for each policy, and return `target`."""
    pyplot = _pyplot()
    names = sorted({policy for row in figures.values() for policy in row})
    rows = -(-len(figures) // _COLUMNS)
    columns = -(-len(figures) // rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=(2.8 * columns, 3.2 * rows), squeeze=False)
    for axis in axes.flat[len(figures) :]:
        axis.remove()
    for axis, (workload, row) in zip(axes.flat, figures.items(), strict=False):
        bars = axis.bar(
            names, [row.get(name, 0.0) for name in names], color=[f"C{index}" for index in range(len(names))]
        )
        axis.bar_label(bars, fmt="%.3g", fontsize=8)
        axis.margins(y=0.15)
        axis.set_title(workload, fontsize=9)
        axis.tick_params(axis="x", rotation=25)
    figure.supylabel(unit, fontsize=9)
    figure.suptitle(title)
    return save(figure, target)


def turns_over_time(runs: Sequence[Mapping[str, Any]], time_scale: float, target: Path) -> Path:
    """Draw how long each turn took and when it began: one panel for each run (a policy's turns); return `target`."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(1, len(runs), figsize=(4 * len(runs), 3.4), sharey=True, squeeze=False)
    for axis, run in zip(axes[0], runs, strict=True):
        for family, turns in _by(run["turns"], "family").items():
            began = [turn["started"] / time_scale for turn in turns]
            took = [turn["seconds"] / time_scale for turn in turns]
            axis.plot(began, took, marker="o", ms=4, label=family)
        axis.set(title=f"{run['workload']}: {run['policy']}", xlabel="began, s")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("time of the turn, s")
    axes[0][0].legend(fontsize=8)
    return save(figure, target)


def _pyplot() -> Any:
    """matplotlib, imported here because only plots need it: a host that measures has no use for it."""
    try:
        import_module("matplotlib").use("Agg")
    except ImportError as error:
        raise PlotError("matplotlib is missing: pip install -r requirements-bench.txt") from error
    return import_module("matplotlib.pyplot")


def _turns(pyplot: Any, result: Mapping[str, Any]) -> Any:
    figure, axis = pyplot.subplots(figsize=(7, 4))
    for family, turns in _by(result["turns"], "family").items():
        numbers = sorted({turn["number"] for turn in turns})
        waits = [median(turn["ttft"] for turn in turns if turn["number"] == number) for number in numbers]
        axis.plot(numbers, waits, marker="o", label=family)
    axis.set(xlabel="turn", ylabel="time to first token, s", title="First token by turn", yscale="log")
    axis.set_xticks(sorted({turn["number"] for turn in result["turns"]}))
    axis.legend()
    axis.grid(alpha=0.3)
    return figure


def _soak(pyplot: Any, result: Mapping[str, Any]) -> Any:
    figure, axes = pyplot.subplots(2, 1, figsize=(8, 6), sharex=True)
    for family, turns in _by(result["turns"], "family").items():
        axes[0].plot([t["started"] for t in turns], [t["ttft"] for t in turns], marker=".", ls="", label=family)
    axes[0].set(ylabel="time to first token, s", title="Turns of the soak", yscale="log")
    axes[0].legend(fontsize=8)
    for engine, samples in _by(result["samples"], "engine").items():
        axes[1].plot([s["at"] for s in samples], [100 * s["kv_use"] for s in samples], label=engine)
    axes[1].set(xlabel="seconds", ylabel="KV pool in use by requests, %", ylim=(0, 105))
    if result["samples"]:
        axes[1].legend(fontsize=8)
    for axis in axes:
        axis.grid(alpha=0.3)
    return figure


def _sweep(pyplot: Any, result: Mapping[str, Any]) -> Any:
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.4))
    points = result["points"]
    for axis, (key, label) in zip(
        axes, (("output_rate", "output tokens/s"), ("ttft", "TTFT p50, ms"), ("tpot", "TPOT p50, ms")), strict=True
    ):
        axis.plot([p["concurrency"] for p in points], [p[key] for p in points], marker="o")
        axis.set(xlabel="concurrency", title=label, ylim=(0, None))
        axis.grid(alpha=0.3)
    return figure


def _by(entries: Sequence[Mapping[str, Any]], key: str) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(entry[key], []).append(entry)
    return groups
