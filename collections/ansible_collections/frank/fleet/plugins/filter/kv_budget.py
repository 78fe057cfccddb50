"""Filter: what was measured against an engine's shape."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.kv_budget import budget_warnings

DOCUMENTATION = r"""
name: kv_budget
author: frank-fleet developers
version_added: 1.0.0
short_description: Warnings when an engine's shape was measured not to fit its card
description:
  - Compares MAXLEN and CHUNK with what was measured on a Radeon AI PRO R9700 (32 GB, C(1002:7551)) at TP=1 and
    KV_MEM=0. Silent about shapes that fit and about everything that nobody measured.
positional: card
options:
  _input:
    description: The engine's knobs, of which C(MAXLEN), C(CHUNK), C(TP) and C(KV_MEM) are read.
    type: dict
    required: true
  card:
    description: PCI vendor and device id of the card, C(ids) from M(frank.fleet.pcie_atomics_info).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Warn about a context that does not fit
  ansible.builtin.debug:
    msg: "{{ {'TP': 1, 'MAXLEN': 131072, 'CHUNK': 8192, 'KV_MEM': 0} | frank.fleet.kv_budget('1002:7551') }}"
"""

RETURN = r"""
_value:
  description: One line for each warning, with the measurement and a shape that fits.
  type: list
  elements: str
"""


def _warn(knobs: dict[str, Any], card: str | None) -> list[str]:
    try:
        return budget_warnings(
            card or "",
            max_len=int(knobs["MAXLEN"]),
            chunk=int(knobs["CHUNK"]),
            tensor_parallel=int(knobs.get("TP", 1)),
            kv_mem=int(knobs.get("KV_MEM", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(
            f"kv_budget: knobs need whole numbers for MAXLEN, CHUNK, TP and KV_MEM: {error}"
        ) from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return them by name."""
        return {"kv_budget": _warn}
