"""Filter: what one host runs of a fleet."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.fleet import plan
from ansible_collections.frank.fleet.plugins.module_utils.fleet_check import FleetError

DOCUMENTATION = r"""
name: fleet_plan
author: frank-fleet developers
version_added: 1.0.0
short_description: What one host runs of a fleet
description:
  - Turns the inventory's description of a fleet (C(llm_fleet)) into the engines, the proxy and the units to retire on
    one host. Uses inventory data only, so C(--limit) never loses a peer.
  - A description with faults is refused with one message that lists all of them.
positional: host, addresses
options:
  _input:
    description:
      - The fleet. Keys are C(name), C(served_model_name), C(port), C(shape) (V(replicas), V(tp2) or V(auto)),
        C(knobs), C(replicas) (C(name), C(gpu), C(port), optionally C(knobs) and C(host)), and optionally C(tp2)
        (C(name), C(gpus), C(knobs)) and C(host), the endpoint's host, needed once a replica names its own.
      - V(auto) plans replicas.
    type: dict
    required: true
  host:
    description: The host to plan for, normally C(inventory_hostname).
    type: str
    required: true
  addresses:
    description: Address of each other host that has a replica.
    type: dict
"""

EXAMPLES = r"""
- name: Plan this host
  ansible.builtin.debug:
    msg: "{{ llm_fleet | frank.fleet.fleet_plan(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - C(shape), the shape that was planned.
    - C(engines), each with C(name), C(unit), C(port), C(visible_devices), C(knobs) (text, spelled as in the inventory)
      and C(served_model_name).
    - C(proxy), with C(name), C(unit), C(port) and C(backends), or none.
    - C(target), the TP=2 engine, whatever the shape; none if the fleet has no C(tp2).
    - C(retired), unit files of the other shape that must not stay on this host.
  type: dict
"""


def _plan(fleet: dict, host: str, addresses: dict | None = None) -> dict:
    try:
        return plan(fleet, host, addresses)
    except FleetError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict:
        """Filter name to function."""
        return {"fleet_plan": _plan}
