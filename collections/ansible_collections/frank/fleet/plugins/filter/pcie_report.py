"""Filter: the result of pcie_atomics_info as lines to read."""

from __future__ import annotations

from typing import Any

from ansible_collections.frank.fleet.plugins.module_utils.pcie_words import report_lines

DOCUMENTATION = r"""
name: pcie_report
author: frank-fleet developers
version_added: 1.0.0
short_description: What pcie_atomics_info found, as lines to read
description:
  - Renders the result of M(frank.fleet.pcie_atomics_info), a few lines for each GPU, with the path from the GPU to its
    root port, the reason, the fix and any disagreement between sources.
options:
  _input:
    description: The registered result of M(frank.fleet.pcie_atomics_info).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what was found
  ansible.builtin.debug:
    msg: "{{ pcie | frank.fleet.pcie_report }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return them by name."""
        return {"pcie_report": report_lines}
