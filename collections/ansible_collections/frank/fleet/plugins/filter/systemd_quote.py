"""Filter: quote a value for systemd."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.module_utils.quoting import systemd_quote

DOCUMENTATION = r"""
name: systemd_quote
author: frank-fleet developers
version_added: 1.0.0
short_description: One word for Exec= or Environment= of a Quadlet unit
description:
  - Quotes and escapes a value so that the container's process receives it byte for byte, after Quadlet's generator
    and then systemd have read it. Blanks, quotes, JSON, C(%), C($), backslashes, newlines and non-ASCII text pass.
  - Meant for units that Podman's generator reads. A unit that systemd reads directly would keep C($$) in
    C(Environment=).
options:
  _input:
    description: Text or a number. Booleans are refused, as they have no one spelling.
    type: raw
    required: true
"""

EXAMPLES = r"""
# Environment={{ ('GREETING=' ~ greeting) | frank.fleet.systemd_quote }}
# Exec=serve --speculative-config {{ spec | to_json | frank.fleet.systemd_quote }}
- name: Show what a unit would hold
  ansible.builtin.debug:
    msg: "{{ '50% of $HOME' | frank.fleet.systemd_quote }}" # "50%% of $$HOME", with the quotes
"""

RETURN = r"""
_value:
  description: The word, quoted if it needs quotes.
  type: str
"""


def _quote(value: object) -> str:
    try:
        return systemd_quote(value)
    except ValueError as error:
        raise AnsibleFilterError(f"systemd_quote: {error}") from error


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict:
        """Filter name to function."""
        return {"systemd_quote": _quote}
