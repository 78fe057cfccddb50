"""Filter: what Prometheus scrapes of the inventory's fleets."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.fleet_check import FleetError
from ansible_collections.frank.fleet.plugins.module_utils.scrape import scrape_jobs

DOCUMENTATION = r"""
name: scrape_jobs
author: frank-fleet developers
version_added: 1.1.0
short_description: The scrape jobs of all hosts that serve a fleet
description:
  - Returns one job for the engines of each fleet, named like it, and one for its proxies, named C(<fleet>-proxy).
    Targets have the labels C(fleet) and C(host), those of engines C(replica) as well.
  - Works from the inventory alone, so that no limit of a run loses a target.
positional: addresses
options:
  _input:
    description: Host to the fleet that it serves (its C(llm_fleet)).
    type: dict
    required: true
  addresses:
    description: Host to its address.
    type: dict
    required: true
  shapes:
    description:
      - Host to the shape that is asked for there instead of the fleet's. C(auto) is taken for replicas, since the PCIe
        paths are not looked at.
    type: dict
    default: {}
  names:
    description: Fleets that have a job even while no host serves them.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show what is scraped
  ansible.builtin.debug:
    msg: "{{ {'dankserver': llm_fleet} | frank.fleet.scrape_jobs({'dankserver': '192.168.0.235'}) }}"
"""

RETURN = r"""
_value:
  description: Jobs as Prometheus' C(scrape_configs) has them.
  type: list
  elements: dict
"""


def _jobs(fleets, addresses, shapes=None, names=()):
    try:
        return scrape_jobs(fleets, addresses, shapes, names)
    except FleetError as error:
        raise AnsibleFilterError(f"scrape_jobs: {error}") from error


class FilterModule:
    """Registers the filter."""

    def filters(self):
        """Filter name to function."""
        return {"scrape_jobs": _jobs}
