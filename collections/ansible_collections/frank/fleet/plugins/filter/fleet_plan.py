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
positional: host, addresses, shape, gpus, override
options:
  _input:
    description:
      - The fleet. Keys are C(name), C(served_model_name), C(port), C(shape) (V(replicas), V(tp2) or V(auto)),
        C(knobs), C(replicas) (C(name), C(gpu), C(port), optionally C(knobs) and C(host)), and optionally C(tp2)
        (C(name), C(gpus), C(knobs)) and C(host), the endpoint's host, needed once a replica names its own.
      - V(auto) plans V(tp2) where O(gpus) says that every wanted GPU can, else replicas. V(tp2) where they cannot is
        refused with the reason.
    type: dict
    required: true
  host:
    description: The host to plan for, normally C(inventory_hostname).
    type: str
    required: true
  addresses:
    description: Address of each other host that has a replica.
    type: dict
  shape:
    description: Shape to plan instead of the fleet's own. Empty for the fleet's.
    type: str
  gpus:
    description:
      - PCIe verdicts of this host, C(gpus) from the result of M(frank.fleet.pcie_atomics_info).
      - None if nobody looked; V(auto) is then replicas, and V(tp2) is taken at its word.
    type: list
    elements: dict
  override:
    description: Plan V(tp2) also where the verdicts speak against it.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Plan this host
  ansible.builtin.debug:
    msg: "{{ llm_fleet | frank.fleet.fleet_plan(inventory_hostname) }}"

- name: Plan this host with what its PCIe paths can carry
  ansible.builtin.debug:
    msg: "{{ llm_fleet | frank.fleet.fleet_plan(inventory_hostname, gpus=pcie.gpus) }}"
"""

RETURN = r"""
_value:
  description:
    - C(shape), the shape that was planned.
    - C(engines), each with C(name), C(unit), C(port), C(visible_devices), C(knobs) (text, spelled as in the inventory)
      and C(served_model_name).
    - C(proxy), with C(name), C(unit), C(port) and C(backends), or none.
    - C(proxy_host), the host whose proxy routes to the engines, or none where the one engine serves the port itself.
    - C(target), the TP=2 engine, whatever the shape; none if the fleet has no C(tp2).
    - C(retired), unit files of the other shape that must not stay on this host.
  type: dict
"""


def _plan(
    fleet: dict,
    host: str,
    addresses: dict | None = None,
    shape: str | None = None,
    gpus: list[dict] | None = None,
    override: bool = False,
) -> dict:
    try:
        return plan(fleet, host, addresses, shape, gpus, override)
    except FleetError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict:
        """Filter name to function."""
        return {"fleet_plan": _plan}
