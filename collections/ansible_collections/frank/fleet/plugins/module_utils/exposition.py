"""Read Prometheus' text format: enough of it to show a few numbers on one screen."""

from __future__ import annotations

import math
import re

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Samples = list[tuple[str, dict[str, str], float]]


def parse(text: str) -> Samples:
    """Samples as (name, labels, value); lines that are none are left out."""
    found: Samples = []
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample:
            try:
                found.append((sample[1], dict(_LABEL.findall(sample[2] or "")), float(sample[3])))
            except ValueError:
                continue
    return found


def total(samples: Samples, *names: str, **labels: str) -> float | None:
    """Sum over the samples of the first of `names` that there is, with these labels; None if there are none.

    Several names are spellings of one metric, the present one first.
    """
    for name in names:
        values = [value for found, has, value in samples if found == name and labels.items() <= has.items()]
        if values:
            return sum(values)
    return None


def quantile(samples: Samples, name: str, share: float, **labels: str) -> float | None:
    """Upper bound (in the metric's unit) of the bucket that holds this share of a histogram; None if it is empty."""
    buckets: dict[float, float] = {}
    for found, has, value in samples:
        if found == f"{name}_bucket" and labels.items() <= has.items():
            bound = float(has["le"])
            buckets[bound] = buckets.get(bound, 0) + value
    count = buckets.get(math.inf, 0)
    if not count:
        return None
    return next(bound for bound in sorted(buckets) if buckets[bound] >= share * count)
