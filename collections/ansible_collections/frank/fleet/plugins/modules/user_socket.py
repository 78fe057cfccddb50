#!/usr/bin/python
"""Module: have systemd hold a listening socket for a user's service."""

from __future__ import annotations

DOCUMENTATION = r"""
module: user_socket
author: frank-fleet developers
version_added: 1.1.0
short_description: Have systemd hold the listening socket of a user's service
description:
  - Installs a C(.socket) unit of the user, has it started at boot, and starts it if its service is installed already;
    otherwise the service's first start does, by C(Wants=). The service of the same name gets the
    socket handed over at its start, and while it restarts, connections wait in the socket instead of being refused.
  - A service that listens by itself so far holds the port, and so does one that was started from a socket which has
    changed since. It is stopped first, its running requests finishing as they do at any stop. It is not started again
    here (see M(frank.fleet.quadlet_service)), but the first connection does so, too.
  - Keeps a copy in the trash of a file that it replaces and did not write itself.
  - Run it as the service user, with E(XDG_RUNTIME_DIR) in the environment.
options:
  name:
    description: Name of the service and of the socket, without suffix.
    type: str
    required: true
  content:
    description: The whole text of the unit. Must hold the comment line C(# Managed by frank-fleet).
    type: str
    required: true
  path:
    description: The user's folder of systemd units.
    type: path
    default: ~/.config/systemd/user
  trash:
    description: Where copies of replaced files go.
    type: path
    default: ~/.AGENTTRASH
attributes:
  check_mode:
    support: full
    description: Needs no user manager.
  diff_mode:
    support: full
seealso:
  - module: frank.fleet.quadlet_units
"""

EXAMPLES = r"""
- name: Keep the endpoint's port open across restarts of the proxy
  become: true
  become_user: dank
  environment:
    XDG_RUNTIME_DIR: /run/user/1000
  frank.fleet.user_socket:
    name: frank-medium-proxy
    content: "{{ lookup('ansible.builtin.template', 'proxy.socket.j2') }}"
"""

RETURN = r"""
reasons:
  description: Why something was (or in check mode would be) changed.
  returned: success
  type: list
  elements: str
  sample: [the file differs, it is inactive/dead]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import (
    Trash,
    UnsafePathError,
    read_plain,
    refuse_links,
    sweep_temporaries,
    write_atomically,
)
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import MARKER, is_managed
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import UserManager

WANTS = "sockets.target.wants"


def listens_on(text: str) -> list[str]:
    """The lines that say where a socket listens."""
    return [line for line in text.splitlines() if line.startswith("Listen")]


class Socket:
    """A socket unit: its file, the link that starts it at boot, and what systemd has of it."""

    def __init__(self, module: AnsibleModule):
        self.module, self.text = module, module.params["content"]
        name, folder = module.params["name"], Path(module.params["path"])
        self.unit, self.service = f"{name}.socket", f"{name}.service"
        self.file, self.link = folder / self.unit, folder / WANTS / self.unit
        self.manager = UserManager(module)
        refuse_links(folder / WANTS)
        self.before = read_plain(self.file)

    def is_wanted(self) -> bool:
        """True if the socket is started at boot."""
        return self.link.is_symlink() and self.link.resolve() == self.file.resolve()

    def must_start(self) -> bool:
        """True if the socket is not there, or listens elsewhere; anything else about it can wait for its next start."""
        moved = listens_on(self.before or "") != listens_on(self.text)
        return moved or self.manager.show(self.unit)["ActiveState"] != "active"

    def reasons(self) -> list[str]:
        """What is not as it should be."""
        found = []
        if self.before != self.text:
            found.append("the file differs" if self.before is not None else "it is not installed yet")
        if not self.is_wanted():
            found.append("it is not started at boot")
        state = self.manager.show(self.unit, "NeedDaemonReload")
        if state.get("NeedDaemonReload") == "yes":
            found.append("systemd has an older file loaded")
        if state["ActiveState"] != "active":
            found.append(f"it is {state['ActiveState']}/{state['SubState']}")
        return found

    def release(self) -> None:
        """Have the port let go, before the file changes: a run that is killed here leaves a socket that is not active.

        systemd cannot start a socket while its service runs, whether that got the old socket or listens by itself.
        """
        if self.manager.show(self.unit)["ActiveState"] == "active":
            self.manager.act("stop", self.unit)
        if self.manager.show(self.service)["ActiveState"] not in ("inactive", "failed"):
            self.manager.act("stop", self.service)

    def install(self) -> None:
        """Write the file and the link."""
        trash, place = Trash(Path(self.module.params["trash"])), Path("systemd/user")
        if self.before is not None and self.before != self.text and not is_managed(self.before):
            trash.copy(self.file, place / self.unit)
        if self.link.exists() and not self.link.is_symlink():
            trash.move(self.link, place / WANTS / self.unit)
        sweep_temporaries(self.file.parent)
        if self.before != self.text:
            write_atomically(self.file, self.text)
        if not self.is_wanted():
            self.link.parent.mkdir(parents=True, exist_ok=True)
            self.link.unlink(missing_ok=True)
            self.link.symlink_to(Path("..") / self.unit)
        self.manager.act("daemon-reload")

    def start(self) -> None:
        """Start the socket; systemd refuses one whose service is not installed yet, and that one's start brings it."""
        if self.manager.show(self.service)["LoadState"] == "not-found":
            return
        self.manager.attempt("reset-failed", self.unit)
        self.manager.act("start", self.unit)


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "content": {"type": "str", "required": True},
            "path": {"type": "path", "default": "~/.config/systemd/user"},
            "trash": {"type": "path", "default": "~/.AGENTTRASH"},
        },
        supports_check_mode=True,
    )
    if not is_managed(module.params["content"]):
        module.fail_json(msg=f"The socket unit lacks the comment line '{MARKER}'")
    try:
        socket = Socket(module)
        reasons = socket.reasons()
        if reasons and not module.check_mode:
            if socket.must_start():
                socket.release()
            socket.install()
            if socket.must_start():
                socket.start()
    except (UnsafePathError, OSError) as error:
        module.fail_json(msg=str(error))
    diff = {
        "before": socket.before or "",
        "after": socket.text,
        "before_header": str(socket.file),
        "after_header": str(socket.file),
    }
    module.exit_json(changed=bool(reasons), reasons=reasons, diff=diff)


if __name__ == "__main__":
    main()
