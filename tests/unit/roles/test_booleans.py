"""`-e llm_rollback=false` is the word "false", which Jinja takes for true and Ansible refuses as a condition."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[3]
CONDITIONS = {"when", "that", "until", "failed_when", "changed_when"}
FILES = sorted([*PROJECT.glob("roles/*/tasks/*.yml"), *PROJECT.glob("playbooks/*.yml")])


def booleans() -> set[str]:
    """Names of variables that are booleans: of the roles' options, and of the inventory and plays."""
    found = set()
    for path in PROJECT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found |= {name for name, option in entry.get("options", {}).items() if option["type"] == "bool"}
    for path in PROJECT.glob("inventory/group_vars/**/*.yml"):
        found |= {name for name, value in (yaml.safe_load(path.read_text()) or {}).items() if isinstance(value, bool)}
    for path in PROJECT.glob("playbooks/*.yml"):
        for play in yaml.safe_load(path.read_text()):
            found |= {name for name, value in play.get("vars", {}).items() if isinstance(value, bool)}
    return found


def conditions(node: Any) -> Iterator[str]:
    """Every condition of a file's tasks."""
    if isinstance(node, list):
        for entry in node:
            yield from conditions(entry)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in CONDITIONS:
                yield from map(str, value if isinstance(value, list) else [value])
            else:
                yield from conditions(value)


def test_there_are_some():
    assert {"quadlet_units_rollback", "llm_allow_outage", "verify_from_here"} <= booleans()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_conditions_take_words_for_what_they_say(path: Path):
    names = "|".join(sorted(booleans()))
    for condition in conditions(yaml.safe_load(path.read_text())):
        assert not re.search(rf"\b({names})\b(?! \| bool)", condition), condition
