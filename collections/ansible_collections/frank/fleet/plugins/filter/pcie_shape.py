"""Filter: the shape a host can serve in."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.pcie_shape import choose_shape

DOCUMENTATION = r"""
name: pcie_shape
author: frank-fleet developers
version_added: 1.0.0
short_description: The shape a host can serve in, given its PCIe verdicts
description:
  - V(auto) becomes V(tp2) where PCIe AtomicOps of every wanted GPU are V(ok), else V(replicas). V(tp2) is refused where
    they are not, unless overridden. An unknown verdict never becomes V(tp2) by itself.
positional: wanted, gpus, override
options:
  _input:
    description: The shape asked for, V(auto), V(replicas) or V(tp2).
    type: str
    required: true
  wanted:
    description: PCI addresses of the GPUs, or their indices in O(gpus).
    type: list
    required: true
  gpus:
    description: C(gpus) from the result of M(frank.fleet.pcie_atomics_info).
    type: list
    elements: dict
    required: true
  override:
    description: Have V(tp2) all the same.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Refuse a shape this host cannot serve in
  ansible.builtin.assert:
    that: choice.shape != 'refused'
    fail_msg: "{{ choice.reason }}"
  vars:
    choice: "{{ 'tp2' | frank.fleet.pcie_shape([0, 1], pcie.gpus) }}"
"""

RETURN = r"""
_value:
  description: C(shape) (V(replicas), V(tp2) or V(refused)) and C(reason), why, in one line.
  type: dict
"""


def _choose(shape: str, wanted: list[Any], gpus: list[dict[str, Any]], override: bool = False) -> dict[str, str]:
    try:
        return choose_shape(shape, wanted, gpus, override)._asdict()
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return them by name."""
        return {"pcie_shape": _choose}
