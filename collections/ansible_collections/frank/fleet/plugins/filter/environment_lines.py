"""Filter: Environment= lines from a mapping."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.quoting import environment_lines

DOCUMENTATION = r"""
name: environment_lines
author: frank-fleet developers
version_added: 1.0.0
short_description: Environment= lines of a Quadlet unit from a mapping
description:
  - Renders one C(Environment=) line for each variable, sorted by name, so that the container's process receives every
    value byte for byte. The same mapping always gives the same text.
options:
  _input:
    description: Variable names and their values (text or numbers).
    type: dict
    required: true
seealso:
  - plugin: frank.fleet.systemd_quote
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the lines
  ansible.builtin.debug:
    msg: "{{ {'PORT': 7771, 'KV_MEM': 0} | frank.fleet.environment_lines }}"
# Environment=KV_MEM=0
# Environment=PORT=7771
"""

RETURN = r"""
_value:
  description: The lines, without a newline after the last.
  type: str
"""


def _lines(variables: dict) -> str:
    try:
        return environment_lines(variables)
    except ValueError as error:
        raise AnsibleFilterError(f"environment_lines: {error}") from error


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict:
        """Filter name to function."""
        return {"environment_lines": _lines}
