#!/usr/bin/python
"""Module: keep a user's systemd manager running, reachable, and with the groups the user has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: user_manager
author: frank-fleet developers
version_added: 1.0.0
short_description: Have the user manager of a service user running without a login
description:
  - Enables lingering, starts C(user@UID.service) and waits until its bus answers, so that the next task may use
    C(systemctl --user), also on the very first run.
  - Restarts the user manager if it was started before the user got one of O(groups). Containers with
    C(GroupAdd=keep-groups) have the groups of the manager, not those of C(/etc/group). All of the user's services end
    with it, so this is done only while no container of the user runs.
  - Never disables lingering. Run it as root.
options:
  user:
    description: Name of the user.
    type: str
    required: true
  linger:
    description: Whether to enable lingering and have the manager running. With V(false) only groups are looked at.
    type: bool
    default: true
  groups:
    description: Groups that the running manager must have. The user must be a member already.
    type: list
    elements: str
    default: []
  restart_if_idle:
    description: Whether to restart a manager that lacks a group, while no container of the user runs.
    type: bool
    default: true
  timeout:
    description: Seconds to wait for the bus.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
    description: Also on a host where the user does not exist yet.
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Keep the service user's manager running
  become: true
  frank.fleet.user_manager:
    user: dank
    groups: [render, video]
"""

RETURN = r"""
uid:
  description: The user's number.
  returned: when the user exists
  type: int
home:
  description: The user's home.
  returned: when the user exists
  type: str
runtime_dir:
  description: What E(XDG_RUNTIME_DIR) must be for tasks that run as the user.
  returned: when the user exists
  type: str
  sample: /run/user/1000
actions:
  description: What was (in check mode, would be) done.
  returned: success
  type: list
  elements: str
"""

import grp
import os
import pwd
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

LINGER = Path("/var/lib/systemd/linger")
RUNTIME = Path("/run/user")
PROC = Path("/proc")


class Manager:
    """The systemd manager of one user, seen from root."""

    def __init__(self, module: AnsibleModule, user: pwd.struct_passwd):
        self.module, self.user = module, user
        self.unit = f"user@{user.pw_uid}.service"
        self.bus = RUNTIME / str(user.pw_uid) / "bus"

    def lingers(self) -> bool:
        """True if the user lingers now and will after a reboot."""
        _, output, _ = self.module.run_command(["loginctl", "show-user", self.user.pw_name, "--property=Linger"])
        return output.strip() == "Linger=yes" and (LINGER / self.user.pw_name).exists()

    def answers(self) -> bool:
        """True if the manager answers on its bus."""
        command = ["systemctl", "--user", "--machine", f"{self.user.pw_name}@", "show", "--property=Version"]
        return self.bus.exists() and self.module.run_command(command)[0] == 0

    def pid(self) -> int | None:
        """Process of the running manager."""
        _, output, _ = self.module.run_command(["systemctl", "show", "--property=MainPID", "--value", self.unit])
        return int(output.strip() or 0) or None

    def lacks(self, groups: dict[str, int]) -> list[str]:
        """Those of the groups that the running manager does not have."""
        pid = self.pid()
        if pid is None:
            return []
        has: set[int] = set()
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            key, _, values = line.partition(":")
            if key in ("Groups", "Gid"):
                has |= {int(value) for value in values.split()}
        return [name for name, number in groups.items() if number not in has]

    def containers_run(self) -> bool:
        """True if a container of the user runs: each has a conmon process of the user beside it."""
        for process in PROC.glob("[0-9]*"):
            try:
                if self.owns(process) and (process / "comm").read_text().strip() == "conmon":
                    return True
            except OSError:
                continue  # The process ended meanwhile.
        return False

    def owns(self, process: Path) -> bool:
        """True if a process, given as its folder in /proc, is the user's."""
        return process.stat().st_uid == self.user.pw_uid

    def act(self, *command: str) -> None:
        """Run a command that changes something, then wait until the manager answers."""
        code, output, error = self.module.run_command(list(command))
        if code:
            self.module.fail_json(msg=f"'{' '.join(command)}' failed: {(error or output).strip()}")

    def wait(self) -> None:
        """Return once the bus answers."""
        deadline = time.monotonic() + self.module.params["timeout"]
        while not self.answers():
            if time.monotonic() > deadline:
                self.module.fail_json(
                    msg=f"The manager of {self.user.pw_name} does not answer on {self.bus} after "
                    f"{self.module.params['timeout']} s: see 'journalctl -u {self.unit}'. If the socket is missing, "
                    "install the package dbus-user-session."
                )
            time.sleep(0.2)


def known_user(module: AnsibleModule) -> pwd.struct_passwd:
    """The user's entry; ends the module if there is none."""
    name = module.params["user"]
    try:
        return pwd.getpwnam(name)
    except KeyError:
        if module.check_mode:
            module.exit_json(changed=True, actions=[f"everything, once the user {name} exists"])
        return module.fail_json(msg=f"There is no user {name} on this host: create it first (role service_user).")


def member_groups(module: AnsibleModule, user: pwd.struct_passwd) -> dict[str, int]:
    """Number of each wanted group; fails for one that does not exist or does not have the user."""
    member, groups, faults = set(os.getgrouplist(user.pw_name, user.pw_gid)), {}, []
    for name in module.params["groups"]:
        try:
            number = grp.getgrnam(name).gr_gid
        except KeyError:
            number = -1
        if number in member:
            groups[name] = number
        else:
            faults.append(name)
    if faults and not module.check_mode:
        wanted, name = ",".join(faults), user.pw_name
        module.fail_json(msg=f"{name} is not in the group(s) {wanted}: run 'usermod -aG {wanted} {name}'.")
    return groups


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "linger": {"type": "bool", "default": True},
            "groups": {"type": "list", "elements": "str", "default": []},
            "restart_if_idle": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    user = known_user(module)
    groups = member_groups(module, user)
    manager, actions = Manager(module, user), []
    commands = []
    if module.params["linger"]:
        if not manager.lingers():
            actions.append("enable lingering")
            commands.append(["loginctl", "enable-linger", user.pw_name])
        if not manager.answers():
            actions.append(f"start {manager.unit}")
            commands.append(["systemctl", "start", manager.unit])
    lacking = manager.lacks(groups)
    if lacking:
        fix = f"'systemctl restart {manager.unit}', which ends all of the user's services"
        reason = f"The manager of {user.pw_name} was started before the user got the group(s) {', '.join(lacking)}"
        if not module.params["restart_if_idle"] or manager.containers_run():
            module.fail_json(
                msg=f"{reason}, and containers of it would not have them either. Stop them, then run {fix}."
            )
        actions.append(f"restart {manager.unit} to get the group(s) {', '.join(lacking)}")
        commands.append(["systemctl", "restart", manager.unit])
    if not module.check_mode:
        for command in commands:
            manager.act(*command)
        if commands or module.params["linger"]:
            manager.wait()
    module.exit_json(
        changed=bool(actions),
        actions=actions,
        uid=user.pw_uid,
        home=user.pw_dir,
        runtime_dir=str(RUNTIME / str(user.pw_uid)),
    )


if __name__ == "__main__":
    main()
