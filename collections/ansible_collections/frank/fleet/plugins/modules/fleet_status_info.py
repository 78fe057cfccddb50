#!/usr/bin/python
"""Module: one screen about what a host serves."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_status_info
author: frank-fleet developers
version_added: 1.1.0
short_description: One screen about what a host serves
description:
  - Reads the metrics of engines and proxy, the admin port, the log and, if asked to, the alerts of a Prometheus. A
    part that is down is said in its row and hides nothing else.
  - Run it as the service user, with E(XDG_RUNTIME_DIR) in the environment.
options:
  plan:
    description: What the host runs, as P(frank.fleet.fleet_plan#filter) returns it.
    type: dict
    required: true
  admin_port:
    description: The proxy's admin port.
    type: int
    default: 7769
  sample:
    description: Seconds over which the present reuse of prefixes is taken.
    type: float
    default: 5
  prometheus_url:
    description: Scheme, host and port of a Prometheus that watches the host. Without it no alerts are asked for.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Look
  become: true
  become_user: dank
  environment:
    XDG_RUNTIME_DIR: /run/user/1000
  frank.fleet.fleet_status_info:
    plan: "{{ llm_plan }}"
"""

RETURN = r"""
lines:
  description: The screen, line by line.
  returned: success
  type: list
  elements: str
  sample: ["frank-medium-a  up for 3 d; running 1, waiting 0, pool 41 %, prefix reuse 78 % (just now 96 %), pins 12"]
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.status import alert_rows, engine_rows, proxy_rows
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import Podman

LOG_LINES = 10000


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "admin_port": {"type": "int", "default": 7769},
            "sample": {"type": "float", "default": 5},
            "prometheus_url": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    plan, proxy = module.params["plan"], module.params["plan"]["proxy"]
    admin = f"http://127.0.0.1:{module.params['admin_port']}"
    lines = engine_rows(plan["engines"], admin, lambda: time.sleep(module.params["sample"]))
    if proxy:
        lines += proxy_rows(proxy, Podman(module).logs(proxy["name"], LOG_LINES))
    module.exit_json(changed=False, lines=[*lines, *alert_rows(module.params["prometheus_url"])])


if __name__ == "__main__":
    main()
