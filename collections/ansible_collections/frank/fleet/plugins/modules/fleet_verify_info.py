#!/usr/bin/python
"""Module: check that a host serves what the inventory says, and will again after a reboot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_verify_info
author: frank-fleet developers
version_added: 1.1.0
short_description: Check that a host serves its part of the fleet, and will again after a reboot
description:
  - Runs every check, whatever the others found, so that one run shows all that is wrong. Changes nothing; each engine
    and the proxy are asked for one completion of a few tokens.
  - Run it as the service user, with E(XDG_RUNTIME_DIR) in the environment.
options:
  plan:
    description: What the host is to run, as P(frank.fleet.fleet_plan#filter) returns it.
    type: dict
    required: true
  model:
    description: Served model name.
    type: str
    required: true
  image:
    description: Image that engines and proxy run.
    type: str
    required: true
  user:
    description: The service user, whose linger is looked at.
    type: str
    required: true
  admin_port:
    description: The proxy's admin port, which must listen on loopback only.
    type: int
    default: 7769
  path:
    description: The user's Quadlet folder.
    type: path
    default: ~/.config/containers/systemd
  manifest:
    description: The record of what was installed.
    type: path
    default: ~/.local/share/frank-fleet/manifest.json
  api_key:
    description: Key for the endpoint, if it wants one.
    type: str
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Look whether the fleet serves
  become: true
  become_user: dank
  environment:
    XDG_RUNTIME_DIR: /run/user/1000
  frank.fleet.fleet_verify_info:
    plan: "{{ llm_plan }}"
    model: frank-medium
    image: localhost/radiance-vllm:0.9.3
    user: dank
"""

RETURN = r"""
findings:
  description: Each check with C(subject), C(check), C(ok), C(seen) and, where it does not hold, C(fix).
  returned: success
  type: list
  elements: dict
failed_checks:
  description: How many do not hold.
  returned: success
  type: int
lines:
  description: The findings as lines of text.
  returned: success
  type: list
  elements: str
  sample: ["ok    frank-medium-a      unit        active/running, generated, wanted by default.target"]
"""

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.manifest import Manifest, ManifestError
from ansible_collections.frank.fleet.plugins.module_utils.proxy_admin import ProxyAdmin
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import Podman, UserManager
from ansible_collections.frank.fleet.plugins.module_utils.verify import (
    Finding,
    check_backends,
    check_completion,
    check_container,
    check_file,
    check_gone,
    check_health,
    check_socket,
    check_unit,
    line_of,
)

LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
LOOPBACK = ("0100007F", "00000000000000000000000001000000")


def check_linger(user: str, root: Path = Path("/")) -> Finding:
    """The user manager starts at boot."""
    lingers = (root / "var/lib/systemd/linger" / user).exists()
    return Finding(user, "linger", lingers, "on" if lingers else "off: nothing starts at boot", "deploy, --tags linger")


def check_admin(name: str, port: int, root: Path = Path("/")) -> Finding:
    """The admin port listens, on loopback alone."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in (root / "proc/net" / table).read_text().splitlines()[1:]:
            address, _, number = line.split()[1].rpartition(":")
            if int(number, 16) == port and line.split()[3] == LISTEN:
                found.add(address)
    open_to_all = found - set(LOOPBACK)
    seen = "nothing listens" if not found else "reachable from outside" if open_to_all else "on loopback alone"
    return Finding(name, "admin", bool(found) and not open_to_all, f"port {port}: {seen}", f"see the unit of {name}")


def bus_of_user() -> Path:
    """Where the user manager's bus is."""
    return Path(os.environ.get("XDG_RUNTIME_DIR", "/nonexistent"), "bus")


def look_at_units(module: AnsibleModule, units: list[dict]) -> list[Finding]:
    """The checks that ask the user manager or Podman."""
    manager, podman, plan = UserManager(module), Podman(module), module.params["plan"]
    manifest, folder = Manifest(Path(module.params["manifest"])), Path(module.params["path"])
    findings = []
    for unit in units:
        findings.append(check_unit(manager, unit["name"]))
        findings.append(check_file(manifest, folder, unit["unit"]))
        findings.append(check_container(manager, podman, unit["name"], module.params["image"]))
    if plan["proxy"]:
        findings.append(check_socket(manager, plan["proxy"]["name"]))
    return findings + [check_gone(manager, Path(unit).stem) for unit in plan["retired"]]


def look(module: AnsibleModule) -> list[Finding]:
    """Run every check."""
    plan, model, key = module.params["plan"], module.params["model"], module.params["api_key"]
    engines, proxy = plan["engines"], plan["proxy"]
    user = module.params["user"]
    findings = [check_linger(user)]
    if bus_of_user().exists():
        findings += look_at_units(module, [*engines, *([proxy] if proxy else [])])
    else:
        seen = "the user manager is not up, so no unit of the fleet is"
        findings.append(Finding(user, "manager", False, seen, "deploy, --tags linger, then the rest"))
    findings += [check_completion(unit["name"], f"http://127.0.0.1:{unit['port']}", model) for unit in engines]
    if proxy:
        url, names = f"http://127.0.0.1:{proxy['port']}", [backend["name"] for backend in proxy["backends"]]
        port = module.params["admin_port"]
        findings.append(check_admin(proxy["name"], port))
        findings.append(check_backends(proxy["name"], ProxyAdmin(f"http://127.0.0.1:{port}"), proxy["backends"]))
        findings.append(check_health(proxy["name"], url, names, port))
        findings.append(check_completion(proxy["name"], url, model, key, names))
    return findings


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "model": {"type": "str", "required": True},
            "image": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "admin_port": {"type": "int", "default": 7769},
            "path": {"type": "path", "default": "~/.config/containers/systemd"},
            "manifest": {"type": "path", "default": "~/.local/share/frank-fleet/manifest.json"},
            "api_key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    try:
        findings = look(module)
    except ManifestError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        findings=[finding._asdict() for finding in findings],
        failed_checks=sum(not finding.ok for finding in findings),
        lines=[line_of(finding) for finding in findings],
    )


if __name__ == "__main__":
    main()
