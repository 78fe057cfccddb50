"""Every role declares what it takes, with the defaults it has, and its README says the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


def load(path: Path):
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_specs_and_defaults_agree(role):
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    declared = {name: option.get("default") for name, option in options.items() if not option.get("required")}
    assert declared == load(role / "defaults/main.yml")


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_variables_carry_the_name_of_their_role(role):
    names = list(load(role / "defaults/main.yml"))
    variables = role / "vars/main.yml"
    if variables.exists():
        names += load(variables)
    assert [name for name in names if not name.lstrip("_").startswith(f"{role.name}_")] == []


def test_readmes_are_up_to_date():
    subprocess.run([sys.executable, ROOT / "tools/role_readmes", "--check"], check=True)


def documented(kind: str, names: list[str]) -> dict:
    """Return what ansible-doc knows of these plugins or roles, by name."""
    command = [Path(sys.executable).with_name("ansible-doc"), "--json", "--type", kind, *names]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("kind", ["module", "filter", "lookup"])
def test_every_plugin_is_documented(kind):
    folder = ROOT / "collections/ansible_collections/frank/fleet/plugins" / ("modules" if kind == "module" else kind)
    names = [f"frank.fleet.{path.stem}" for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    found = documented(kind, names)
    assert sorted(found) == names
    for name, entry in found.items():
        assert entry["doc"]["short_description"] and entry["examples"] and entry["return"], name


def test_every_role_is_documented():
    names = [role.name for role in ROLES]
    found = documented("role", names)
    assert sorted(found) == names
    for name, entry in found.items():
        assert entry["entry_points"]["main"]["short_description"], name
