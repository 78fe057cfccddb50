"""A fixture for tests of changes under traffic, and its figures at the end of the run; import both in a conftest."""

from collections.abc import Iterator
from typing import Any

import pytest
from load import Load, Outcome

_figures: list[str] = []


@pytest.fixture
def traffic(host: Any, request: pytest.FixtureRequest) -> Iterator[Outcome]:
    """People chat while the test runs; afterwards none of them may have lost anything."""
    endpoint = f"http://{host.ansible.get_variables()['ansible_host']}:7770"
    with Load(endpoint) as outcome:
        yield outcome
    _figures.append(f"figure: {request.node.originalname}: {outcome}")
    assert outcome.sent > 0 and outcome.streams > 0, "there was no traffic to lose"
    assert (outcome.failed, outcome.cut) == ([], []), outcome


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what clients saw."""
    terminalreporter.section("what clients saw")
    for line in _figures:
        terminalreporter.write_line(line)
