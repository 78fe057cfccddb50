"""A host for module tests: a home, a user manager, a store of images; the commands are `fake/command.py`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

FAKES = Path(__file__).parent / "fake"
COMMANDS = ("systemctl", "podman", "journalctl", "loginctl")
MODULES = "ansible_collections.frank.fleet.plugins.modules."


class FakeHost:
    """Paths and state of the host, and a way to run a module on it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        self.root, self._capsys = root, capsys
        self._warnings: list[str] = []
        self.home, self.bin, self.runtime = root / "home", root / "bin", root / "run/1000"
        self.path = self.home / ".config/containers/systemd"
        self.trash, self.manifest = self.home / ".AGENTTRASH", self.home / ".local/share/frank-fleet/manifest.json"
        self.bus = self.runtime / "bus"
        for folder in (self.home, self.bin, self.runtime):
            folder.mkdir(parents=True)
        self.bus.touch()
        for name in COMMANDS:
            self._install(name, "command.py")
        self.generator = self._install("quadlet", "quadlet.py")
        self.write_state(
            units={}, containers=[], images={}, registry={}, fail={}, ignored=[], journal="", logs="", lingers=False,
            path=str(self.path), bus=str(self.bus), linger=str(root / "linger"), manager_pid=0,
        )  # fmt: skip
        # Once a test has imported code of the controller, Ansible prints a module's warnings instead of returning them.
        monkeypatch.setattr(AnsibleModule, "warn", lambda _, warning: self._warnings.append(warning))
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("FAKE_HOST", str(root))
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(self.runtime))
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/somebody/elses/bus")

    def _install(self, name: str, source: str) -> Path:
        target = self.bin / name
        target.write_text(f"#!{sys.executable} -IS\n{(FAKES / source).read_text()}")
        target.chmod(0o755)
        return target

    def remove_command(self, name: str) -> None:
        """Have the host lack a command."""
        (self.bin / name).unlink()

    @property
    def state(self) -> dict[str, Any]:
        """What systemd and podman know now."""
        state: dict[str, Any] = json.loads((self.root / "state.json").read_text())
        return state

    def write_state(self, **state: Any) -> None:
        """Replace the state."""
        (self.root / "state.json").write_text(json.dumps(state))

    def set(self, **changes: Any) -> None:
        """Change parts of the state."""
        self.write_state(**{**self.state, **changes})

    def unit(self, name: str, **properties: Any) -> None:
        """Have systemd know a service, loaded and running unless told otherwise."""
        defaults = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "InvocationID": "i"}
        self.set(units={**self.state["units"], name: {**defaults, **properties}})

    def container(self, service: str, spec: str = "", image: str = "", **fields: Any) -> None:
        """Have podman run a container of a service."""
        labels = {"PODMAN_SYSTEMD_UNIT": service, "io.frank-fleet.spec": spec}
        found = {
            "Id": f"id-{service}",
            "State": "running",
            "ImageID": image,
            "Labels": labels,
            "StartedAt": 1,
            **fields,
        }
        self.set(containers=[*self.state["containers"], found])

    @property
    def calls(self) -> list[str]:
        """Every command that was run, oldest first."""
        log = self.root / "calls"
        return [" ".join(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    def changes(self) -> list[str]:
        """Those commands that change something."""
        looks = (
            "systemctl --user show",
            "podman ps",
            "podman image inspect",
            "podman info",
            "podman logs",
            "journalctl",
        )
        return [call for call in self.calls if not call.startswith(looks)]

    def snapshot(self) -> dict[str, str]:
        """Every file of the home with its content, every link with its target."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            kind = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else "(folder)"
            found[str(path.relative_to(self.home))] = kind
        return found

    def run(self, module: str, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """Run a module of the collection; returns what it tells Ansible."""
        hidden = {"_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": str(self.root / "tmp")}
        self._capsys.readouterr()
        self._warnings.clear()
        with patch_module_args({**arguments, **hidden}), pytest.raises(SystemExit):
            importlib.import_module(MODULES + module).main()
        result: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return {**result, "warnings": list(self._warnings)}

    def ok(self, module: str, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """Run a module that must succeed."""
        result = self.run(module, check, **arguments)
        assert not result.get("failed"), result["msg"]
        return result

    def error(self, module: str, check: bool = False, **arguments: Any) -> str:
        """Run a module that must fail; returns its message."""
        result = self.run(module, check, **arguments)
        assert result.get("failed"), result
        return str(result["msg"])
