"""Filter: stamp a rendered unit with the hash of what it is made from."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import stamp_spec

DOCUMENTATION = r"""
name: stamp_spec
author: frank-fleet developers
version_added: 1.0.0
short_description: Put the hash of a unit and its inputs into its spec label
description:
  - Replaces C(@SPEC@) in the line C(Label=io.frank-fleet.spec=@SPEC@) by a hash over the rendered text and O(inputs).
  - A running container carries the label, so comparing it with the unit tells whether the container was started from
    exactly this unit and these inputs, whatever happened to the play that installed them.
positional: inputs
options:
  _input:
    description: The rendered unit, with the placeholder line exactly once.
    type: str
    required: true
  inputs:
    description: What else must restart the container when it changes, for instance digests of mounted scripts.
    type: dict
seealso:
  - plugin: frank.fleet.spec_of
    plugin_type: filter
  - module: frank.fleet.quadlet_service
"""

EXAMPLES = r"""
- name: Render a unit whose restart also depends on its entrypoint
  ansible.builtin.set_fact:
    vllm_replica_unit: >-
      {{ lookup('ansible.builtin.template', 'replica.container.j2')
         | frank.fleet.stamp_spec({'entrypoint': lookup('ansible.builtin.file', 'entrypoint.sh') | hash('sha256')}) }}
"""

RETURN = r"""
_value:
  description: The unit with its hash (16 hexadecimal digits).
  type: str
"""


def _stamp(text: str, inputs: dict | None = None) -> str:
    try:
        return stamp_spec(text, inputs)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"stamp_spec: {error}") from error


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict:
        """Filter name to function."""
        return {"stamp_spec": _stamp}
