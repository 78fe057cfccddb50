"""The spec stamp and what the quoting filters refuse (what they carry is proved through Podman's generator)."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.filter import environment_lines, systemd_quote
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import is_managed, spec_of, stamp_spec

quote = systemd_quote.FilterModule().filters()["systemd_quote"]
lines = environment_lines.FilterModule().filters()["environment_lines"]

LABEL = "Label=io.frank-fleet.spec=@SPEC@\n"
UNIT = f"# Managed by frank-fleet\n[Container]\nImage=localhost/x:1\n{LABEL}"


def test_the_stamp_replaces_the_placeholder_and_can_be_read_back() -> None:
    stamped, spec = stamp_spec(UNIT), spec_of(stamp_spec(UNIT))
    assert spec and "@SPEC@" not in stamped and stamped == UNIT.replace("@SPEC@", spec)
    assert len(spec) == 16 and int(spec, 16) >= 0


def test_any_difference_changes_the_stamp() -> None:
    assert spec_of(stamp_spec(UNIT)) == spec_of(stamp_spec(UNIT))
    assert spec_of(stamp_spec(UNIT)) != spec_of(stamp_spec(UNIT + "Exec=x\n"))


@pytest.mark.parametrize(
    "unit",
    ["[Container]\n", UNIT + LABEL, UNIT + "# @SPEC@\n", UNIT.replace("Label=", "#Label="), "Environment=S=@SPEC@\n"],
)
def test_anything_but_one_placeholder_line_is_refused(unit: str) -> None:
    with pytest.raises(ValueError, match="exactly once"):
        stamp_spec(unit)


@pytest.mark.parametrize("unit", ["[Container]\n", UNIT.replace(LABEL, ""), UNIT + LABEL])
def test_a_unit_without_one_stamp_has_none(unit: str) -> None:
    assert spec_of(unit) is None


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
