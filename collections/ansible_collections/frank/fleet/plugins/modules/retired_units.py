#!/usr/bin/python
"""Module: take Quadlet units out of service, keeping their files in the trash."""

from __future__ import annotations

DOCUMENTATION = r"""
module: retired_units
author: frank-fleet developers
version_added: 1.0.0
short_description: Stop Quadlet units, move their files to the trash and prove that nothing runs on
description:
  - For each unit, stops it, moves its file and drop-in folder to the trash, reloads the user manager, clears a failed
    state, and then proves that systemd knows the unit no more, that no container of it is left and that nothing
    listens on its C(PORT). In this order, because a unit whose file goes first cannot be stopped any more and its
    container runs on.
  - A socket unit of ours with the unit's name is stopped first, as the next connection would start the service again.
    It goes to the trash, too.
  - Finds the files in subfolders too, as Quadlet does. Nothing in the trash is ever overwritten; a symlink is moved as
    a link, never followed.
  - A container whose unit file is gone already (deleted by hand) is stopped and removed as well.
  - Run it as the service user, with E(XDG_RUNTIME_DIR) in the environment.
options:
  names:
    description: Unit file names, such as V(frank-medium.container). Those that are not there are no error.
    type: list
    elements: str
    default: []
  path:
    description: The user's Quadlet folder.
    type: path
    default: ~/.config/containers/systemd
  systemd:
    description: The user's folder of systemd units, where socket units are.
    type: path
    default: ~/.config/systemd/user
  manifest:
    description: The record of what was installed; retired units are taken out of it.
    type: path
    default: ~/.local/share/frank-fleet/manifest.json
  trash:
    description: Where the files go, into C(<UTC time>-<n>/<path below O(path\)>). Must not be below O(path).
    type: path
    default: ~/.AGENTTRASH
attributes:
  check_mode:
    support: full
    description: Lists what would be retired; needs neither Podman nor a user manager.
  diff_mode:
    support: full
seealso:
  - module: frank.fleet.quadlet_units
notes:
  - To bring a unit back, move its file from the trash to where it was and run C(systemctl --user daemon-reload).
"""

EXAMPLES = r"""
- name: Retire the unit that needs both cards
  become: true
  become_user: dank
  environment:
    XDG_RUNTIME_DIR: /run/user/1000
  frank.fleet.retired_units:
    names: [frank-medium.container]
"""

RETURN = r"""
retired:
  description: Units that were retired.
  returned: success
  type: list
  elements: dict
  sample:
    - name: frank-medium.container
      service: frank-medium.service
      files: [/home/dank/.AGENTTRASH/20260916T101500Z-1/frank-medium.container]
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import Trash
from ansible_collections.frank.fleet.plugins.module_utils.generator import SERVICE_SUFFIXES
from ansible_collections.frank.fleet.plugins.module_utils.manifest import Manifest, ManifestError
from ansible_collections.frank.fleet.plugins.module_utils.unit_files import (
    find_files,
    find_socket,
    ports_of,
    service_of,
)
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import Podman, UserManager, unit_containers

#: After a container was killed, until systemd has noticed and the kernel has let go of its port.
SETTLE_SECONDS = 10
PAUSE_SECONDS = 0.2


class Retiree:
    """One unit to take out of service: what is left of it on this host."""

    def __init__(self, name: str, path: Path, systemd: Path, manager: UserManager, podman: Podman):
        self.name, self.manager, self.podman = name, manager, podman
        units = find_files(path, name)
        self.service = service_of(name, units)
        self.socket = f"{self.service.removesuffix('.service')}.socket"
        sockets = find_socket(systemd, self.socket)
        self.ports = ports_of(name, units)
        # Where each file is, and its path in the trash.
        self.places = {file: file.relative_to(path) for file in units}
        self.places |= {file: Path("systemd/user") / file.relative_to(systemd) for file in sockets}

    @property
    def files(self) -> list[Path]:
        """Everything of the unit that goes to the trash."""
        return list(self.places)

    def state(self) -> dict[str, str]:
        """The unit's properties."""
        return self.manager.show(self.service, "SourcePath")

    def containers(self) -> list[str]:
        """IDs of the unit's containers, running or not."""
        return [container["Id"] for container in unit_containers(self.podman, self.service)]

    def runs(self) -> bool:
        """True while systemd has the unit in any state but at rest."""
        return self.state()["ActiveState"] not in ("inactive", "failed")

    def remains(self) -> list[str]:
        """What of the unit is still there, apart from its files."""
        state = self.state()
        left = [f"container {container[:12]}" for container in self.containers()]
        if state["LoadState"] != "not-found":
            left.append(f"systemd has {self.service} loaded from {state.get('SourcePath') or 'an unknown file'}")
        if state["ActiveState"] != "inactive":
            left.append(f"{self.service} is {state['ActiveState']}")
        left += [f"port {port} is still in use (see 'ss -ltnp')" for port in self.ports if listens(port)]
        return left

    def stop(self) -> str | None:
        """Stop the unit and remove what containers it leaves; returns systemd's complaint, if it had one."""
        complaint = None
        if self.manager.show(self.socket)["ActiveState"] == "active" and any(
            file.name == self.socket for file in self.files
        ):
            self.manager.attempt("stop", self.socket)
        if self.state()["LoadState"] != "not-found":
            complaint = self.manager.attempt("stop", self.service)
        # A unit that systemd has forgotten cannot be stopped (it would wait 90 s and leave the container), and one that
        # was still starting is killed without its ExecStop=.
        for container in self.containers():
            self.podman.run("rm", "--force", "--time", "10", container)
        return complaint


def listens(port: int) -> bool:
    """True if something listens on a TCP port of this host."""
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("", port))
        except OSError:
            return True
    return False


def settle(look: Callable[[], list[str]]) -> list[str]:
    """Look until nothing is left, for a while; returns what is left then."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        left = look()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(PAUSE_SECONDS)


def retire(module: AnsibleModule, retirees: list[Retiree], manager: UserManager) -> dict[str, list[str]]:
    """Stop, move, reload, forget, prove; returns where the files of each unit went."""
    trash, moved = Trash(Path(module.params["trash"])), {}
    if any(retiree.files for retiree in retirees):
        trash.open()
    said = "".join(f" ({complaint})" for complaint in (retiree.stop() for retiree in retirees) if complaint)
    busy = settle(lambda: [retiree.service for retiree in retirees if retiree.runs()])
    if busy:
        module.fail_json(msg=f"Does not stop: {', '.join(busy)}. The files were left in place.{said}")
    for retiree in retirees:
        moved[retiree.name] = [str(trash.move(file, place)) for file, place in retiree.places.items()]
    manager.act("daemon-reload")
    for retiree in retirees:
        manager.attempt("reset-failed", retiree.service)  # Complains about a unit that is gone for good.
    left = settle(lambda: [what for retiree in retirees for what in retiree.remains()])
    if left:
        module.fail_json(msg=f"Retired, but not gone: {'; '.join(left)}.{said}")
    return moved


def names_to_retire(module: AnsibleModule) -> list[str]:
    """The units that were asked for, each once."""
    for name in module.params["names"]:
        if Path(name).suffix not in SERVICE_SUFFIXES or Path(name).name != name:
            module.fail_json(msg=f"{name!r} is no name of a Quadlet unit file (such as frank-medium.container)")
    return list(dict.fromkeys(module.params["names"]))


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path", "default": "~/.config/containers/systemd"},
            "systemd": {"type": "path", "default": "~/.config/systemd/user"},
            "manifest": {"type": "path", "default": "~/.local/share/frank-fleet/manifest.json"},
            "trash": {"type": "path", "default": "~/.AGENTTRASH"},
        },
        supports_check_mode=True,
    )
    path, trash = Path(module.params["path"]), Path(module.params["trash"])
    if path == trash or path in trash.parents:
        module.fail_json(msg=f"The trash {trash} is inside {path}, where Quadlet would still read what is in it.")
    manager, podman = UserManager(module), Podman(module)
    moved: dict[str, list[str]] = {}
    try:
        manifest = Manifest(Path(module.params["manifest"]))
        names = names_to_retire(module)
        found = [Retiree(name, path, Path(module.params["systemd"]), manager, podman) for name in names]
        retirees = [retiree for retiree in found if retiree.files or retiree.remains()]
        if retirees and not module.check_mode:
            moved = retire(module, retirees, manager)
        for name in names:
            manifest.forget(name)
        forgotten = manifest.changed
        if not module.check_mode:
            manifest.save()
    except (ManifestError, OSError) as error:
        module.fail_json(msg=str(error))
    retired = [
        {
            "name": retiree.name,
            "service": retiree.service,
            "files": moved.get(retiree.name, [str(file) for file in retiree.files]),
        }
        for retiree in retirees
    ]
    before = "".join(f"{file}\n" for retiree in retirees for file in retiree.files)
    module.exit_json(changed=bool(retirees or forgotten), retired=retired, diff={"before": before, "after": ""})


if __name__ == "__main__":
    main()
