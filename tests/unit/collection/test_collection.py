"""The collection as a whole: documentation that Ansible can show, and code for the target's Python."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[3]
COLLECTION = PROJECT / "collections/ansible_collections/frank/fleet"
ON_TARGET = sorted([*COLLECTION.glob("plugins/modules/*.py"), *COLLECTION.glob("plugins/module_utils/*.py")])
PLUGINS = sorted(path for kind in ("modules", "filter", "lookup") for path in COLLECTION.glob(f"plugins/{kind}/*.py"))


def variable(path: Path, name: str) -> str | None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return str(ast.literal_eval(node.value))
    return None


def parameters(path: Path) -> dict[str, Any]:
    """The documented options of a plugin."""
    documentation = variable(path, "DOCUMENTATION")
    assert documentation, f"{path.name} has no DOCUMENTATION"
    options: dict[str, Any] = yaml.safe_load(documentation).get("options") or {}
    return options


class SpecSeenError(Exception):
    """Carries the argument_spec that a module hands to Ansible."""


def argument_spec(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The argument_spec of a module."""

    def capture(argument_spec: dict[str, Any], **_: Any) -> None:
        raise SpecSeenError(argument_spec)

    module = importlib.import_module(f"ansible_collections.frank.fleet.plugins.modules.{path.stem}")
    monkeypatch.setattr(module, "AnsibleModule", capture)
    with pytest.raises(SpecSeenError) as seen:
        module.main()
    spec: dict[str, Any] = seen.value.args[0]
    return spec


def assert_same(spec: dict[str, Any], documented: dict[str, Any], where: str) -> None:
    """Options agree in name, type, default, choices and what they hold."""
    assert set(spec) == set(documented), where
    for name, option in spec.items():
        for key, usual in (
            ("type", "str"),
            ("default", None),
            ("choices", None),
            ("elements", None),
            ("required", False),
        ):
            assert option.get(key, usual) == documented[name].get(key, usual), f"{where}{name}: {key}"
        assert_same(option.get("options", {}), documented[name].get("suboptions", {}), f"{where}{name}.")


def test_every_plugin_is_looked_at() -> None:
    assert len(PLUGINS) >= 10 and len(ON_TARGET) >= 15


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_plugin_is_documented_under_its_own_name(path: Path) -> None:
    document = yaml.safe_load(variable(path, "DOCUMENTATION") or "")
    assert document.get("module", document.get("name")) == path.stem
    assert document["short_description"] and not document["short_description"].endswith(".")
    for section in ("EXAMPLES", "RETURN"):
        yaml.safe_load(variable(path, section) or pytest.fail(f"{path.name} has no {section}"))


@pytest.mark.parametrize("path", sorted(COLLECTION.glob("plugins/modules/*.py")), ids=lambda path: path.stem)
def test_documented_options_are_the_options(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(argument_spec(path, monkeypatch), parameters(path), "")


@pytest.mark.parametrize("path", ON_TARGET, ids=lambda path: path.stem)
def test_code_for_the_target_is_python_3_9_and_needs_only_its_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert future, "annotations such as 'str | None' need 'from __future__ import annotations' on Python 3.9"
    for node in ast.walk(tree):
        for name in imported(node):
            top = name.split(".")[0]
            ours = name.startswith(("ansible.module_utils", "ansible_collections.frank.fleet.plugins.module_utils"))
            assert ours or top in sys.stdlib_module_names, f"{path.name} imports {name}"


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


@pytest.mark.parametrize("kind", ["module", "filter", "lookup"])
def test_ansible_doc_shows_every_plugin(kind: str) -> None:
    folder = {"module": "modules"}.get(kind, kind)
    names = [f"frank.fleet.{path.stem}" for path in sorted(COLLECTION.glob(f"plugins/{folder}/*.py"))]
    command = [str(Path(sys.executable).with_name("ansible-doc")), "--json", "--type", kind, *names]
    finished = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    shown = json.loads(finished.stdout)
    assert sorted(shown) == names and all(entry["doc"]["description"] for entry in shown.values())
    assert not finished.stderr, finished.stderr
