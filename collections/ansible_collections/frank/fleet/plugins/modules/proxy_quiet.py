#!/usr/bin/python
"""Module: wait for a moment in which the routing proxy has nothing in flight."""

from __future__ import annotations

DOCUMENTATION = r"""
module: proxy_quiet
author: frank-fleet developers
version_added: 1.1.0
short_description: Wait for a moment in which the routing proxy has nothing in flight
description:
  - A proxy that is restarted finishes its running streams first, and new requests wait meanwhile. In a quiet moment
    they wait for a second or two. This waits for one, and gives up after O(timeout) without failing.
  - Run it on the proxy's host, since the admin port listens on loopback only.
options:
  admin:
    description: Scheme, host and port of the admin port.
    type: str
    default: http://127.0.0.1:7769
  timeout:
    description: Seconds to wait.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
    description: Does not wait.
  diff_mode:
    support: none
seealso:
  - module: frank.fleet.proxy_replica
"""

EXAMPLES = r"""
- name: Wait until nobody would notice
  frank.fleet.proxy_quiet:
"""

RETURN = r"""
in_flight:
  description: Requests that were in flight at the last look; 0 also if no proxy answers.
  returned: success
  type: int
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.proxy_admin import ProxyAbsentError, ProxyAdmin

PAUSE_SECONDS = 0.1


def in_flight(proxy: ProxyAdmin) -> int:
    """Requests that replicas work on."""
    try:
        return sum(replica["in_flight"] for replica in proxy.replicas().values())
    except ProxyAbsentError:
        return 0


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "admin": {"type": "str", "default": "http://127.0.0.1:7769"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    proxy = ProxyAdmin(module.params["admin"])
    deadline = time.monotonic() + (0 if module.check_mode else module.params["timeout"])
    left = in_flight(proxy)
    while left and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
        left = in_flight(proxy)
    module.exit_json(changed=False, in_flight=left)


if __name__ == "__main__":
    main()
