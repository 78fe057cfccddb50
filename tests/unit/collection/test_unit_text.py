"""The spec stamp and what the quoting filters refuse (what they carry is proved through Podman's generator)."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.filter import environment_lines, spec_of, stamp_spec, systemd_quote
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import is_managed

stamp = stamp_spec.FilterModule().filters()["stamp_spec"]
read = spec_of.FilterModule().filters()["spec_of"]
quote = systemd_quote.FilterModule().filters()["systemd_quote"]
lines = environment_lines.FilterModule().filters()["environment_lines"]

LABEL = "Label=io.frank-fleet.spec=@SPEC@\n"
UNIT = f"# Managed by frank-fleet\n[Container]\nImage=localhost/x:1\n{LABEL}"


def test_the_stamp_replaces_the_placeholder_and_can_be_read_back() -> None:
    stamped = stamp(UNIT)
    assert "@SPEC@" not in stamped and stamped == UNIT.replace("@SPEC@", read(stamped))
    assert len(read(stamped)) == 16 and int(read(stamped), 16) >= 0


def test_the_same_unit_has_the_same_stamp_whatever_the_order_of_inputs() -> None:
    assert stamp(UNIT, {"a": "1", "b": "2"}) == stamp(UNIT, {"b": "2", "a": "1"})
    assert stamp(UNIT) == stamp(UNIT, {}) == stamp(UNIT, None)


@pytest.mark.parametrize(
    ("unit", "inputs"),
    [(UNIT + "Exec=x\n", {"a": "1"}), (UNIT, {"a": "2"}), (UNIT, {"b": "1"}), (UNIT, {"a": "1", "b": "1"}), (UNIT, {})],
)
def test_any_difference_changes_the_stamp(unit: str, inputs: dict[str, str]) -> None:
    assert read(stamp(unit, inputs)) != read(stamp(UNIT, {"a": "1"}))


@pytest.mark.parametrize(
    "unit",
    ["[Container]\n", UNIT + LABEL, UNIT + "# @SPEC@\n", UNIT.replace("Label=", "#Label="), "Environment=S=@SPEC@\n"],
)
def test_anything_but_one_placeholder_line_is_refused(unit: str) -> None:
    with pytest.raises(AnsibleFilterError, match="exactly once"):
        stamp(unit)


def test_inputs_that_cannot_be_hashed_are_refused() -> None:
    with pytest.raises(AnsibleFilterError):
        stamp(UNIT, {"a": object()})


@pytest.mark.parametrize("unit", ["[Container]\n", UNIT, UNIT.replace("@SPEC@", "")])
def test_reading_an_unstamped_unit_is_refused(unit: str) -> None:
    with pytest.raises(AnsibleFilterError, match="stamp_spec first"):
        read(unit)


@pytest.mark.parametrize(
    ("text", "ours"),
    [(UNIT, True), ("[Container]\n# Managed by frank-fleet: edit the inventory\n", True), ("[Container]\n", False),
     ("Environment=A=# Managed by frank-fleet\n", False)],
)  # fmt: skip
def test_the_marker_is_a_comment_line(text: str, ours: bool) -> None:
    assert is_managed(text) is ours


@pytest.mark.parametrize(
    ("value", "word"),
    [("plain", "plain"), (7771, "7771"), (0, "0"), (0.98, "0.98"), ("a b", '"a b"'), ("50%", "50%%"), ("$x", "$$x")],
)
def test_words_stay_readable(value: Any, word: str) -> None:
    assert quote(value) == word


@pytest.mark.parametrize("value", ["\0", "\x80", "\ud800", "\ufdd0", "\uffff", "\U0001fffe"])
def test_characters_that_systemd_cannot_carry_are_refused(value: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"U\+"):
        quote(f"a{value}b")


@pytest.mark.parametrize("value", [True, None, [], {}, b"a"])
def test_values_without_one_spelling_are_refused(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="cannot quote"):
        quote(value)


def test_environment_lines_are_sorted() -> None:
    assert (
        lines({"PORT": 7771, "A": "x y", "KV_MEM": 0})
        == 'Environment="A=x y"\nEnvironment=KV_MEM=0\nEnvironment=PORT=7771'
    )
    assert lines({}) == ""


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "Ä", 3])
def test_names_that_are_no_variables_are_refused(name: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="environment variable"):
        lines({name: "x"})


@pytest.mark.parametrize("value", [True, None])
def test_environment_values_without_one_spelling_are_refused(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="cannot quote"):
        lines({"A": value})
