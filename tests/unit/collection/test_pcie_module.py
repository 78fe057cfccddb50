"""The module end to end, its documentation, and the Python it must run on."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.frank.fleet.plugins.filter.pcie_report import FilterModule
from ansible_collections.frank.fleet.plugins.modules import pcie_atomics_info
from fixtures.pcie import trees

PROJECT = Path(__file__).parents[3]
PLUGINS = PROJECT / "collections/ansible_collections/frank/fleet/plugins"
FIXTURES = PROJECT / "tests/fixtures/pcie"


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    """Run the module in check mode and return its JSON."""
    arguments = {**{k: str(v) for k, v in options.items()}, "_ansible_check_mode": True}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        pcie_atomics_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_captured_tree_with_its_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = run(capsys, root=trees.build(trees.AM5, tmp_path))
    assert result["changed"] is False
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:0b:00.0": "missing"}
    assert [s["source"] for s in result["gpus"][1]["sources"]] == ["kfd", "config", "kernel_log"]


def test_a_tree_with_lspci_text_hears_all_four_sources(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trees.build(trees.AM5, tmp_path)
    (tmp_path / "lspci.txt").write_text((FIXTURES / "am5.txt").read_text())
    result = run(capsys, root=tmp_path)
    assert [(s["source"], s["verdict"]) for s in result["gpus"][1]["sources"]] == [
        ("kfd", "missing"),
        ("config", "missing"),
        ("kernel_log", "missing"),
        ("lspci", "missing"),
    ]


def test_a_dump_is_analysed_without_looking_at_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, dump=FIXTURES / "am5.txt")
    assert result["verdict"] == "missing"
    assert {s["source"] for gpu in result["gpus"] for s in gpu["sources"]} == {"lspci"}


def test_a_log_of_its_own_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "dmesg"
    log.write_text("amdgpu 0000:03:00.0: amdgpu: PCIE atomic ops is not supported\n")
    result = run(capsys, dump=FIXTURES / "noroot.hex", kernel_log=log)
    assert result["verdicts"] == {"0000:03:00.0": "missing"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"root": "/nonexistent"}, "holds no folder named sys"),
        ({"dump": "/nonexistent"}, "can't be read"),
        ({"dump": __file__}, "is no lspci output; capture it with: sudo lspci -vvv"),
    ],
)
def test_a_wrong_path_fails_in_one_line_that_names_the_option(
    capsys: pytest.CaptureFixture[str], options: dict[str, str], words: str
) -> None:
    result = run(capsys, **options)
    assert result["failed"] is True
    assert words in result["msg"]
    assert result["msg"].startswith(next(iter(options)) + ":")


def test_the_report_reads_from_gpu_to_fix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = run(capsys, root=trees.build(trees.AM5, tmp_path))
    assert FilterModule().filters()["pcie_report"](result)[3:] == [
        "0b:00.0 (1002:7551): missing - 0b:00.0 sits behind 05:00.0 and 06:09.0, which do not route AtomicOps",
        "  path: 0b:00.0 -> 0a:00.0 -> 09:00.0 -> 06:09.0 -> 05:00.0 -> 00:02.1",
        "  fix: no software can change that; move the card to a CPU slot, or run one replica on each GPU",
    ]


def test_the_documentation_names_every_value_that_is_returned(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = [Path(sys.executable).with_name("ansible-doc"), "--json", "frank.fleet.pcie_atomics_info"]
    output = subprocess.run(command, cwd=PROJECT, capture_output=True, check=True, timeout=60).stdout
    documented = json.loads(output)["frank.fleet.pcie_atomics_info"]["return"]
    result = run(capsys, root=trees.build(trees.AM5, tmp_path))
    assert set(documented) == set(result) - {"changed", "invocation"}
    assert set(documented["gpus"]["contains"]) == set(result["gpus"][1])
    assert set(documented["gpus"]["contains"]["deciding"]["contains"]) == set(result["gpus"][1]["deciding"])


@pytest.mark.parametrize(
    "path",
    [PLUGINS / "modules/pcie_atomics_info.py", *sorted((PLUGINS / "module_utils").glob("pcie_*.py"))],
    ids=lambda p: p.name,
)
def test_targets_with_python_3_9_can_run_it(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    modules = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    third_party = {m for m in modules if m.split(".")[0] not in sys.stdlib_module_names}
    assert all(m.startswith(("ansible.module_utils.", "ansible_collections.frank.fleet.")) for m in third_party)
