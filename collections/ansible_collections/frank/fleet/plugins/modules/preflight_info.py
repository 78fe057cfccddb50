#!/usr/bin/python
"""Module: can this host carry what the inventory asks of it?"""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_info
author: frank-fleet developers
version_added: 1.0.0
short_description: Tell whether a host can carry a fleet, with every fault at once
description:
  - Looks at all that a deploy needs and cannot make itself, and returns every fault it finds, each with what is wrong,
    where, why it matters and the command that puts it right. Changes nothing.
  - Software (podman and its generator, crun, systemd), the service user (ids, groups, and those that its running
    manager has), the GPU's device files, ports, folders, free space, the clock, and the fleet's description against all
    of them, the shape among it.
  - What the roles make by themselves (user, groups, linger) is no fault. What was only measured to be unwise is a
    warning.
  - Access is tried as the service user, with the groups that a deploy leaves it in. Run it as root.
  - Finding a fault is a success of this module; the role C(host_preflight) is what stops.
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    details: Reads only, and changes nothing in either mode.
  diff_mode:
    support: none
  platform:
    support: full
    platforms: linux
options:
  fleet:
    description: The fleet, as P(frank.fleet.fleet_plan#filter) takes it.
    type: dict
    required: true
  host:
    description: Name of this host in the inventory.
    type: str
    required: true
  addresses:
    description: Address of every other host that has a replica.
    type: dict
    default: {}
  shape:
    description: Shape to ask for instead of the fleet's own.
    type: str
    default: ""
  shape_override:
    description: Accept V(tp2) also where PCIe speaks against it.
    type: bool
    default: false
  pcie:
    description: Result of M(frank.fleet.pcie_atomics_info) for this host.
    type: dict
    required: true
  user:
    description: The service user.
    type: str
    required: true
  groups:
    description: Groups that a deploy puts the user into.
    type: list
    elements: str
    default: []
  subids:
    description: Subordinate ids that the user needs.
    type: int
    default: 65536
  devices:
    description: Device files that every engine gets. Empty on a host without a GPU; then none is looked for.
    type: list
    elements: str
    default: []
  models_dir:
    description: Folder with the checkpoints, mounted at C(/models).
    type: path
    default: /models
  folders:
    description: Other folders that the engines mount.
    type: list
    elements: path
    default: []
  may_be_empty:
    description: Folders that may be empty, with all that is below them.
    type: list
    elements: path
    default: []
  image:
    description: Name of the engine image in the user's store.
    type: str
    required: true
  image_gib:
    description: Room in GiB for an image that is not in the store yet.
    type: float
    required: true
  caches:
    description: Folders of the engines' caches. C(~) is the service user's home.
    type: list
    elements: str
    default: []
  cache_gib:
    description: Room in GiB for each of O(caches).
    type: float
    default: 0
  admin_port:
    description: Port of the proxy's admin interface.
    type: int
    required: true
  adopt:
    description: Whether unit files of the fleet's names that somebody else wrote may be replaced.
    type: bool
    default: false
  controller_time:
    description: Seconds since 1970 on the controller when this module is called. The clock is not compared without it.
    type: int
"""

EXAMPLES = r"""
- name: Look at the PCIe paths
  frank.fleet.pcie_atomics_info:
  become: true
  register: pcie

- name: Look whether this host can carry the fleet
  frank.fleet.preflight_info:
    fleet: "{{ llm_fleet }}"
    host: "{{ inventory_hostname }}"
    pcie: "{{ pcie }}"
    user: dank
    groups: [render, video]
    devices: [/dev/kfd, /dev/dri]
    image: localhost/radiance-vllm:0.9.3
    image_gib: 40
    admin_port: 7769
  become: true
  register: preflight
"""

RETURN = r"""
faults:
  description: What must be put right before a deploy, each with C(what), C(where), C(why) and C(fix).
  returned: always
  type: list
  elements: dict
  sample:
    - what: port 7771 of frank-medium-a is taken
      where: held by python3 (process 4711, other.service)
      why: "two cannot listen on one port: the unit would fail at every start"
      fix: sudo systemctl disable --now other.service, or give frank-medium-a another port in llm_fleet
warnings_found:
  description: What stops nothing and should be known.
  returned: always
  type: list
  elements: str
summary:
  description: What was looked at, as pairs of a name and a few words.
  returned: always
  type: list
  elements: list
  sample: [[podman, "5.4.2, runtime crun"]]
report:
  description: All of it as text to read.
  returned: always
  type: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.preflight_devices import check_devices, check_memory
from ansible_collections.frank.fleet.plugins.module_utils.preflight_fleet import check_fleet, ports_of, units_of
from ansible_collections.frank.fleet.plugins.module_utils.preflight_holders import check_holders
from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import Host
from ansible_collections.frank.fleet.plugins.module_utils.preflight_ports import check_ports
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report, text_of
from ansible_collections.frank.fleet.plugins.module_utils.preflight_software import check_software
from ansible_collections.frank.fleet.plugins.module_utils.preflight_storage import (
    check_folders,
    check_space,
    checkpoints_of,
)
from ansible_collections.frank.fleet.plugins.module_utils.preflight_user import check_user, identity_of

#: Seconds. Connecting and starting the module take a few of them.
CLOCK_WARNING = 60
CLOCK_FAULT = 3600


def check_clock(controller: int | None, now: float, report: Report) -> None:
    """Compare this host's clock with the controller's."""
    if controller is None:
        return
    apart = round(now - controller)
    if abs(apart) > CLOCK_FAULT:
        report.fault(
            f"the clock is {abs(apart)} s {'ahead of' if apart > 0 else 'behind'} the controller's",
            time.strftime("%Y-%m-%d %H:%M:%S UTC on this host", time.gmtime(now)),
            "a pull fails with certificates of another time, and logs and metrics land where nobody looks for them",
            "sudo timedatectl set-ntp true   (package systemd-timesyncd or chrony)",
        )
    elif abs(apart) > CLOCK_WARNING:
        report.warn(f"the clock is {abs(apart)} s off the controller's: sudo timedatectl set-ntp true")
    report.row("clock", f"{abs(apart)} s off the controller's")


def look(host: Host, options: dict) -> Report:
    """Run every check and return what they found."""
    report, pcie = Report(), options["pcie"]
    user = identity_of(host, options["user"], options["groups"])
    plan = check_fleet(
        options["fleet"],
        options["host"],
        options["addresses"],
        options["shape"],
        pcie,
        options["shape_override"],
        report,
    )
    engines = plan["engines"] if plan else []
    check_devices(host, user, options["devices"], engines, pcie, report)
    check_software(host, user, report)
    check_user(host, user, options["groups"], options["subids"], report)
    if plan:
        proxies = [plan["proxy"]["name"]] if plan["proxy"] else []
        names = {*(engine["name"] for engine in engines), *proxies}
        check_holders(host, user, names, options["devices"], options["adopt"], report)
        check_ports(host, user, ports_of(plan, options["admin_port"]), units_of(options["fleet"], plan), report)
    folders = checkpoints_of(engines, options["models_dir"])
    targets = [path for path, uses in folders.items() for use in uses.split(", ") if use.startswith("SNAP ")]
    folders.update(dict.fromkeys(options["folders"], "mounted by every engine"))
    check_folders(host, user, folders, options["may_be_empty"], report)
    check_memory(host, targets, report)
    room = dict.fromkeys(options["caches"], options["cache_gib"])
    check_space(host, user, options["image"], options["image_gib"], room, report)
    check_clock(options["controller_time"], time.time(), report)
    return report


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "fleet": {"type": "dict", "required": True},
            "host": {"type": "str", "required": True},
            "addresses": {"type": "dict", "default": {}},
            "shape": {"type": "str", "default": ""},
            "shape_override": {"type": "bool", "default": False},
            "pcie": {"type": "dict", "required": True},
            "user": {"type": "str", "required": True},
            "groups": {"type": "list", "elements": "str", "default": []},
            "subids": {"type": "int", "default": 65536},
            "devices": {"type": "list", "elements": "str", "default": []},
            "models_dir": {"type": "path", "default": "/models"},
            "folders": {"type": "list", "elements": "path", "default": []},
            "may_be_empty": {"type": "list", "elements": "path", "default": []},
            "image": {"type": "str", "required": True},
            "image_gib": {"type": "float", "required": True},
            "caches": {"type": "list", "elements": "str", "default": []},
            "cache_gib": {"type": "float", "default": 0},
            "admin_port": {"type": "int", "required": True},
            "adopt": {"type": "bool", "default": False},
            "controller_time": {"type": "int"},
        },
        supports_check_mode=True,
    )
    try:
        report = look(Host(module), module.params)
    except PermissionError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        faults=[fault._asdict() for fault in report.faults],
        warnings_found=report.warnings,
        summary=[list(row) for row in report.rows],
        report=text_of(report, module.params["host"]),
    )


if __name__ == "__main__":
    main()
