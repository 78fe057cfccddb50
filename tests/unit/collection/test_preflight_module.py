"""All checks together, the clock, access tried as somebody else, and the Python that the module must run on."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import ENTER, READ, Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report
from ansible_collections.frank.fleet.plugins.modules import preflight_info
from unit.collection.fakemachine import UNFIT, FakeMachine, fleet, gpu, pcie

PROJECT = Path(__file__).parents[3]
PLUGINS = PROJECT / "collections/ansible_collections/frank/fleet/plugins"
ME = Identity("me", os.getuid(), os.getgid(), (), "/home/me", exists=True)


def options(**changes: Any) -> dict[str, Any]:
    """The module's options for the production fleet."""
    return {
        "fleet": fleet(), "host": "box", "pcie": pcie(gpu("0000:03:00.0", 0), UNFIT), "user": "dank",
        "groups": ["render", "video"], "devices": ["/dev/kfd", "/dev/dri"], "folders": ["/patches", "/r4d"],
        "image": "localhost/radiance-vllm:0.9.3", "image_gib": 40, "caches": ["~/.cache"], "cache_gib": 10,
        "admin_port": 7769, "controller_time": int(time.time()), **changes,
    }  # fmt: skip


def run(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, capsys: Any, **changes: Any) -> dict[str, Any]:
    """Run the module on a machine and return its JSON."""
    monkeypatch.setattr(preflight_info, "Host", lambda module: machine)
    with patch_module_args({**options(**changes), "_ansible_check_mode": True}), pytest.raises(SystemExit):
        preflight_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_sound_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    result = run(FakeMachine(tmp_path), monkeypatch, capsys)
    assert (result["changed"], result["faults"], result["warnings_found"]) == (False, [], [])
    assert [name for name, _ in result["summary"]] == [
        "shape", "GPUs", "podman", "user", "names", "ports", "folders", "disk", "clock",
    ]  # fmt: skip
    assert dict(result["summary"])["folders"] == "/models/target, /models/drafter, /patches, /r4d"
    assert result["report"].startswith("box is ready.\n")


def test_every_check_adds_its_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    machine = FakeMachine(tmp_path)
    machine.programs.remove("flock")
    machine.remove("/dev/kfd", "/patches/patch.py")
    machine.write("/etc/subuid", "dank:100000:1\n")
    machine.write("/proc/meminfo", "MemTotal: 1 kB\n")
    machine.write("/models/target/weights", "x" * 1024)
    machine.listen(7769, "11")
    machine.free = 1
    changes = {"shape": "tp2", "controller_time": 1, "models_dir": "/models"}
    result = run(machine, monkeypatch, capsys, **changes)
    machine.remove("/proc/net/tcp")
    assert [fault["what"].split(" of ")[0] for fault in result["faults"]] == [
        "shape tp2 is refused on this host",
        "/dev/kfd does not exist",
        "flock is not installed",
        "dank has 1 subordinate ids, wanted are 65536",
        "/patches is empty",
        "1 GiB are free where 50 GiB are needed",
        f"the clock is {round(time.time()) - 1} s ahead",
    ]
    assert all(set(fault) == {"what", "where", "why", "fix"} and all(fault.values()) for fault in result["faults"])
    assert ["memory" in warning for warning in result["warnings_found"]] == [True]
    assert result["report"].startswith("box is not ready: 7 faults.")
    # The proxy's admin port counts only where there is a proxy.
    machine.listen(7769, "11")
    replicas = run(machine, monkeypatch, capsys, shape="replicas")
    assert "port 7769 of frank-medium-proxy (admin) is taken" in [fault["what"] for fault in replicas["faults"]]


def test_a_broken_inventory_leaves_the_checks_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    machine = FakeMachine(tmp_path)
    machine.remove("/dev/kfd")
    result = run(machine, monkeypatch, capsys, fleet={"name": "x"})
    assert "the fleet lacks port" in [fault["what"] for fault in result["faults"]]
    assert "/dev/kfd does not exist" in [fault["what"] for fault in result["faults"]]


@pytest.mark.parametrize(
    ("apart", "faults", "warnings"), [(0, 0, 0), (-60, 0, 0), (61, 0, 1), (-3600, 0, 1), (3601, 1, 0), (-1e9, 1, 0)]
)
def test_the_clock(apart: float, faults: int, warnings: int) -> None:
    report = Report()
    preflight_info.check_clock(1_790_000_000, 1_790_000_000 + apart, report)
    assert (len(report.faults), len(report.warnings)) == (faults, warnings)
    assert all(("ahead" if apart > 0 else "behind") in fault.what for fault in report.faults)


def test_without_the_controllers_time_no_clock_is_compared() -> None:
    report = Report()
    preflight_info.check_clock(None, 0, report)
    assert report == Report()


def test_access_is_tried_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Becoming somebody else needs root: here the child stays who it is."""
    for call in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, call, lambda _: None)
    (tmp_path / "file\nof two lines").touch()
    (tmp_path / "folder").mkdir()
    wanted = [("/file\nof two lines", READ), ("/gone\n", READ), ("/folder", ENTER), ("/folder/gone", READ)]
    assert Host(None, tmp_path).denied(ME, wanted) == ["/gone\n", "/folder/gone"]
    assert Host(None, tmp_path).denied(ME, []) == []


def test_a_user_that_one_cannot_become_is_an_error_that_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError("not root")

    monkeypatch.setattr(os, "setgroups", refuse)
    with pytest.raises(PermissionError, match=r"what it may access: run this as root \(become: true\)"):
        Host(None).denied(ME, [("/", ENTER)])


def test_space_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    host = Host(None, tmp_path)
    device, free = host.space("/not/there/yet")
    assert device == tmp_path.stat().st_dev
    assert free == pytest.approx(host.space("/")[1], rel=0.1)


def test_the_documentation_names_every_value_and_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    result = run(FakeMachine(tmp_path), monkeypatch, capsys)
    command = [Path(sys.executable).with_name("ansible-doc"), "--json", "frank.fleet.preflight_info"]
    output = subprocess.run(command, cwd=PROJECT, capture_output=True, check=True, timeout=60).stdout
    documented = json.loads(output)["frank.fleet.preflight_info"]
    assert set(documented["return"]) == set(result) - {"changed", "invocation"}
    assert set(options()) <= set(documented["doc"]["options"])


def _used_on_targets() -> list[Path]:
    shared = ["fleet", "fleet_check", "generator", "kv_budget"]
    utils = [*(PLUGINS / "module_utils").glob("preflight_*.py"), *(PLUGINS / f"module_utils/{n}.py" for n in shared)]
    return sorted([PLUGINS / "modules/preflight_info.py", *utils])


@pytest.mark.parametrize("path", _used_on_targets(), ids=lambda path: path.name)
def test_targets_with_python_3_9_can_run_it(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    third_party = {module for module in modules if module.split(".")[0] not in sys.stdlib_module_names}
    assert all(
        module.startswith(("ansible.module_utils.", "ansible_collections.frank.fleet.")) for module in third_party
    )
