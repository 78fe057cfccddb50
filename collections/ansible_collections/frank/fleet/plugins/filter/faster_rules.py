"""Filter: alert rules whose waits are shorter, for drills."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.prometheus_text import faster

DOCUMENTATION = r"""
name: faster_rules
author: frank-fleet developers
version_added: 1.1.0
short_description: Alert rules whose waits are divided by a number
description:
  - Divides C(for), C(keep_firing_for) and C(interval) of a rules file, one second at least, so that a drill need not
    wait for minutes. Everything else stays as it is.
positional: times
options:
  _input:
    description: Text of the rules file.
    type: str
    required: true
  times:
    description: What to divide by; 1 changes nothing.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: Show the rules of a drill
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'frank-fleet.rules.yml') | frank.fleet.faster_rules(60) }}"
"""

RETURN = r"""
_value:
  description: Text of the rules file.
  type: str
"""


def _faster(text, times=1):
    if int(times) < 1:
        raise AnsibleFilterError(f"faster_rules: {times} is not 1 or more")
    return faster(text, int(times)) if int(times) > 1 else text


class FilterModule:
    """Registers the filter."""

    def filters(self):
        """Filter name to function."""
        return {"faster_rules": _faster}
