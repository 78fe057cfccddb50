"""Every scenario through promtool: exactly the expected alerts fire at each of its minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
from rules import causes, load, service
from rules.scenario import Scenario, run

SCENARIOS = [*service.SCENARIOS, *load.SCENARIOS, *causes.SCENARIOS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_exactly_these_alerts_fire(scenario: Scenario, promtool: list[str], tmp_path: Path):
    found = run(promtool, scenario, tmp_path)
    assert not found, found
