"""Ask a running Prometheus whether it has taken a configuration."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

from ansible_collections.frank.fleet.plugins.module_utils.http import OPENER

TIMEOUT_SECONDS = 5
PAUSE_SECONDS = 0.5
#: Seconds by which the time of a file and that of a reload may differ: both are rounded.
ROUNDING = 1.0


class Prometheus:
    """The API of one Prometheus, and what must be found there: alerts by name, targets by address."""

    def __init__(self, url: str, alerts: list[str], targets: list[str]):
        self._url, self._alerts, self._targets = url.rstrip("/"), alerts, targets

    def missing(self, since: float) -> str | None:
        """What Prometheus does not have since a reload at `since` (unix time), None if it has all."""
        try:
            stale = reload_missing(self._url, "prometheus", since)
            if stale:
                return stale
            groups = json.loads(self._get("/api/v1/rules"))["data"]["groups"]
            known = {rule["name"] for group in groups for rule in group["rules"]}
            active = json.loads(self._get("/api/v1/targets?state=active"))["data"]["activeTargets"]
            addresses = {target["discoveredLabels"]["__address__"] for target in active}
        except (OSError, ValueError, KeyError, TypeError) as error:
            return _unexpected(self._url, error)
        lacking = [*sorted(set(self._alerts) - known), *sorted(set(self._targets) - addresses)]
        return f"it does not have {', '.join(lacking)}" if lacking else None

    def wait(self, since: float, seconds: float) -> str | None:
        """Wait until nothing is missing; returns what still is at the end."""
        return _last_of(lambda: self.missing(since), seconds)

    def _get(self, path: str) -> bytes:
        return _get(f"{self._url}{path}")


def reload_missing(url: str, program: str, since: float) -> str | None:
    """Why `program` (prometheus or alertmanager) does not run with files of `since` (unix time), None if it does."""
    try:
        metrics = _get(f"{url.rstrip('/')}/metrics").decode()
        if _metric(metrics, f"{program}_config_last_reload_successful") != 1:
            return "its last reload failed (see its log)"
        if _metric(metrics, f"{program}_config_last_reload_success_timestamp_seconds") < since - ROUNDING:
            return "it has not reloaded since the files were written"
    except (OSError, ValueError) as error:
        return _unexpected(url, error)
    return None


def wait_for_reload(url: str, program: str, since: float, seconds: float) -> str | None:
    """Wait until `program` runs with files of `since`; returns what is wrong at the end."""
    return _last_of(lambda: reload_missing(url, program, since), seconds)


def _last_of(look: Callable[[], str | None], seconds: float) -> str | None:
    deadline = time.monotonic() + seconds
    while True:
        missing = look()
        if missing is None or time.monotonic() > deadline:
            return missing
        time.sleep(PAUSE_SECONDS)


def _get(url: str) -> bytes:
    with OPENER.open(url, timeout=TIMEOUT_SECONDS) as response:
        return bytes(response.read())


def _unexpected(url: str, error: Exception) -> str:
    return f"{url} does not answer as expected: {getattr(error, 'reason', error)!r}"


def _metric(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    if not found:
        raise ValueError(f"no metric {name}")
    return float(found[1])
