"""Which address a host gets."""

import pytest
from test_host.common import ToolError
from test_host.network import choose_address


def test_first_host_gets_the_lowest_address_after_the_outer_machine() -> None:
    assert choose_address(None, []) == "10.203.77.2"


def test_a_gap_is_filled_before_the_end_is_extended() -> None:
    assert choose_address(None, ["10.203.77.2", "10.203.77.4"]) == "10.203.77.3"


def test_addresses_are_compared_as_numbers_not_as_text() -> None:
    taken = [f"10.203.77.{last}" for last in range(2, 10)]
    assert choose_address(None, taken) == "10.203.77.10"


def test_a_wanted_address_is_given() -> None:
    assert choose_address("10.203.77.200", ["10.203.77.2"]) == "10.203.77.200"


@pytest.mark.parametrize("wanted", ["10.203.77.0", "10.203.77.1", "10.203.77.255", "10.203.78.2", "host", ""])
def test_an_address_that_no_host_can_have_is_refused(wanted: str) -> None:
    with pytest.raises(ToolError, match=r"use 10\.203\.77\.2 to 10\.203\.77\.254"):
        choose_address(wanted, [])


def test_a_taken_address_is_refused() -> None:
    with pytest.raises(ToolError, match="belongs to another host"):
        choose_address("10.203.77.2", ["10.203.77.2"])


def test_a_full_subnet_says_so() -> None:
    taken = [f"10.203.77.{last}" for last in range(2, 255)]
    with pytest.raises(ToolError, match="no free address"):
        choose_address(None, taken)
