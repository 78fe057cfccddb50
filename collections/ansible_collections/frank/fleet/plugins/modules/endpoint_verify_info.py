#!/usr/bin/python
"""Module: check that the fleet's endpoint answers where its clients are."""

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_verify_info
author: frank-fleet developers
version_added: 1.1.0
short_description: Ask the fleet's endpoint for a completion, as a client would
description:
  - Run it where clients are, such as on the machine that runs Ansible. What P(frank.fleet.fleet_verify_info#module)
    finds on the host itself says nothing of a firewall or a wrong address.
  - Checks that the endpoint is healthy, serves the model, completes a prompt of a few tokens, and, where a proxy is
    the endpoint, says which replica did.
options:
  name:
    description: The unit that listens there.
    type: str
    required: true
  url:
    description: Scheme, host and port.
    type: str
    required: true
  model:
    description: Served model name.
    type: str
    required: true
  replicas:
    description: Replicas that the proxy routes to. Without it, the endpoint is taken for an engine.
    type: list
    elements: str
  api_key:
    description: Key for the endpoint, if it wants one.
    type: str
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
seealso:
  - module: frank.fleet.fleet_verify_info
"""

EXAMPLES = r"""
- name: Ask the endpoint from here
  frank.fleet.endpoint_verify_info:
    name: frank-medium-proxy
    url: http://192.168.0.235:7770
    model: frank-medium
    replicas: [frank-medium-a, frank-medium-b]
  delegate_to: localhost
"""

RETURN = r"""
findings:
  description: One check, as P(frank.fleet.fleet_verify_info#module) returns them; C(check) is C(from here).
  returned: success
  type: list
  elements: dict
failed_checks:
  description: 0, or 1 if it does not hold.
  returned: success
  type: int
lines:
  description: The finding as a line of text.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.verify import check_completion, line_of


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "url": {"type": "str", "required": True},
            "model": {"type": "str", "required": True},
            "replicas": {"type": "list", "elements": "str"},
            "api_key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    finding = check_completion(asked["name"], asked["url"], asked["model"], asked["api_key"], asked["replicas"])
    fix = f"see whether a firewall lets this machine reach {asked['url']}, or -e verify_from_here=false if none should"
    finding = finding._replace(check="from here", fix=fix)
    module.exit_json(
        changed=False, findings=[finding._asdict()], failed_checks=int(not finding.ok), lines=[line_of(finding)]
    )


if __name__ == "__main__":
    main()
