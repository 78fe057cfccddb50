"""Traffic through the endpoint, for the tests of this scenario."""

from traffic import pytest_terminal_summary, traffic

__all__ = ["pytest_terminal_summary", "traffic"]
