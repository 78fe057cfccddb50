"""Talk to the user manager and to rootless Podman as the service user."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

#: A unit that systemd does not know: what `systemctl show` says, and what we assume without a manager to ask.
NOT_FOUND = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead"}

#: Enough lines to reach back to the start of an engine, whose capacity ledger or first error is far from the end.
JOURNAL_READ = 5000

#: Podman's events, conmon's remarks about cgroups, a container's ID alone on its line, and journalctl's own word.
_NOISE = re.compile(
    r"\d{4}-\d\d-\d\d \S+ \S+ UTC m=\+\S+ (image|container|volume|network) "
    r"|conmon [0-9a-f]+ <n|[0-9a-f]{64}$|-- No entries"
)


def runtime_has_bus(module) -> bool:
    """True if the user manager's bus is there; without it fails the module, or returns False in check mode."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime, "bus").exists():
        return True
    if module.check_mode:
        return False
    fault = f"{runtime}/bus does not exist" if runtime else "XDG_RUNTIME_DIR is not set"
    return module.fail_json(
        msg=f"The user manager cannot be reached: {fault}. Run the task as the service user with "
        "XDG_RUNTIME_DIR=/run/user/UID in its environment, after frank.fleet.user_manager (linger)."
    )


class UserManager:
    """`systemctl --user` of the user that runs the module.

    `available` is False only in check mode on a host where the manager does not run yet: then every unit is NOT_FOUND
    and nothing may be changed.
    """

    def __init__(self, module):
        self.module = module
        # A bus address inherited from another session (sudo, su) would win over XDG_RUNTIME_DIR.
        os.environ.pop("DBUS_SESSION_BUS_ADDRESS", None)
        self.available = runtime_has_bus(module)

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Properties of one unit; LoadState, ActiveState and SubState always, the others as asked."""
        if not self.available:
            return dict(NOT_FOUND)
        wanted = ",".join((*NOT_FOUND, *properties))
        _, output = self._systemctl("show", "--timestamp=unix", "--property", wanted, "--", unit)
        return {**NOT_FOUND, **dict(line.split("=", 1) for line in output.splitlines() if "=" in line)}

    def act(self, verb: str, *arguments: str) -> None:
        """Run a verb that changes something; fails the module with systemd's own words."""
        self._systemctl(verb, *arguments)

    def attempt(self, verb: str, *arguments: str) -> str | None:
        """Like act, but returns the error instead of failing."""
        code, _, error = self.module.run_command(["systemctl", "--user", verb, *arguments])
        return (error.strip() or f"exit code {code}") if code else None

    def journal(self, unit: str, lines: int, since: str) -> str:
        """The last lines a unit wrote to the journal since a time (`@` and seconds since 1970).

        Without what Podman notes about each step of a container. Empty if there are none or it cannot be read.
        """
        if not self.available or not self.module.get_bin_path("journalctl"):
            return ""
        command = [
            "journalctl",
            "--user",
            "--unit",
            unit,
            "--lines",
            str(JOURNAL_READ),
            "--output",
            "cat",
            "--no-pager",
        ]
        command += ["--since", since] if since else []
        _, output, _ = self.module.run_command(command)
        told = [line for line in output.splitlines() if line.strip() and not _NOISE.match(line)]
        return "\n".join(told[-lines:])

    def _systemctl(self, verb: str, *arguments: str) -> tuple[int, str]:
        code, output, error = self.module.run_command(["systemctl", "--user", verb, *arguments])
        if code:
            command = " ".join(["systemctl --user", verb, *arguments])
            self.module.fail_json(msg=f"'{command}' failed: {error.strip() or output.strip()}", rc=code)
        return code, output


class Podman:
    """Rootless Podman of the user that runs the module.

    `available` is False only in check mode, while Podman is not installed or the user manager not up: without its
    runtime folder Podman would keep its state in /tmp and stumble over it after the next boot.
    """

    def __init__(self, module):
        self.module = module
        installed = module.get_bin_path("podman") is not None
        if not installed and not module.check_mode:
            module.fail_json(msg="podman is not installed on this host: install the package podman (5.4 or newer).")
        self.available = installed and runtime_has_bus(module)

    def image_id(self, name: str) -> str | None:
        """ID of the image a name stands for in this user's store, or None."""
        if not self.available:
            return None
        code, output, error = self.module.run_command(["podman", "image", "inspect", "--format", "{{.Id}}", "--", name])
        if code == 0:
            return output.strip()
        # 125 is podman's code for any failure of its own, so only its words tell "no such image" from a broken store.
        if "no such image" in error or "image not known" in error:
            return None
        return self.module.fail_json(msg=f"podman cannot look up the image {name}: {error.strip()}", rc=code)

    def store(self) -> str:
        """Folder of this user's store."""
        return self._podman(["podman", "info", "--format", "{{.Store.GraphRoot}}"]).strip()

    def containers(self, *filters: str) -> list[dict]:
        """Containers, running or not, that match every filter (say, label=KEY=VALUE)."""
        if not self.available:
            return []
        command = ["podman", "ps", "--all", "--format", "json"]
        for condition in filters:
            command += ["--filter", condition]
        output = self._podman(command)
        return json.loads(output or "[]") or []

    def run(self, *arguments: str) -> str:
        """Run a command that changes something; fails the module with podman's own words."""
        return self._podman(["podman", *arguments])

    def logs(self, container: str, lines: int) -> str:
        """The last lines of a container's output, empty if it is gone."""
        if not self.available:
            return ""
        _, output, error = self.module.run_command(["podman", "logs", "--tail", str(lines), "--", container])
        return (output + error).strip()

    def _podman(self, command: list[str]) -> str:
        code, output, error = self.module.run_command(command)
        if code:
            self.module.fail_json(msg=f"'{' '.join(command)}' failed: {error.strip()}", rc=code)
        return output


def running_container(podman: Podman, service: str) -> dict | None:
    """The container of a Quadlet service that runs, None if none does."""
    return next((found for found in unit_containers(podman, service) if found.get("State") == "running"), None)


def unit_containers(podman: Podman, service: str) -> list[dict]:
    """Containers that a Quadlet service started; the generator gives each of them this label."""
    return podman.containers(f"label=PODMAN_SYSTEMD_UNIT={service}")
