"""Filter: the spec label of a rendered unit."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import PLACEHOLDER, spec_of

DOCUMENTATION = r"""
name: spec_of
author: frank-fleet developers
version_added: 1.0.0
short_description: The hash in a unit's spec label
description:
  - Reads back what P(frank.fleet.stamp_spec#filter) put into C(Label=io.frank-fleet.spec=...).
options:
  _input:
    description: A stamped unit.
    type: str
    required: true
seealso:
  - plugin: frank.fleet.stamp_spec
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Restart the replica unless it runs from this very unit
  frank.fleet.quadlet_service:
    name: frank-medium-a
    spec: "{{ vllm_replica_unit | frank.fleet.spec_of }}"
"""

RETURN = r"""
_value:
  description: The hash.
  type: str
"""


def _spec_of(text: str) -> str:
    spec = spec_of(text)
    if spec in (None, "", PLACEHOLDER):
        raise AnsibleFilterError("spec_of: the unit has no spec label; stamp it with frank.fleet.stamp_spec first")
    return spec


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict:
        """Filter name to function."""
        return {"spec_of": _spec_of}
