"""Unit files rendered from one template, one for each entry of a plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: units
short_description: Unit files rendered from one template
version_added: "0.1.0"
description:
  - Renders a template once for each term, which the template sees as C(unit), and puts a hash of the text in place of
    C(@SPEC@) in its line C(Label=io.frank-fleet.spec=@SPEC@). A running container carries the label, so comparing it
    with the unit tells whether it was started from exactly this text, whatever happened to the play that installed it.
  - The result is what M(frank.fleet.quadlet_units) installs and M(frank.fleet.quadlet_service) compares with what runs.
options:
  _terms:
    description: Entries of P(frank.fleet.fleet_plan#filter), each with C(name) and C(unit), its file name.
    type: list
    elements: dict
    required: true
  template:
    description: Template of the unit, found as M(ansible.builtin.template) finds its C(src).
    type: str
    required: true
  version:
    description: The template's C(version), which names the folder of the scripts that the containers run.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show the units of the engines
  ansible.builtin.debug:
    msg: "{{ query('frank.fleet.units', *llm_plan.engines, template='engine.container.j2') }}"
"""

RETURN = r"""
_list:
  description: One mapping for each term, with C(service), C(name) (the file's), C(content), C(spec) and the C(port).
  type: list
  elements: dict
"""

from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import spec_of, stamp_spec


class LookupModule(LookupBase):
    """Entry point for Ansible."""

    def run(self, terms, variables=None, **kwargs):
        """Return one rendered unit for each plan entry in ``terms``."""
        self.set_options(var_options=variables, direct=kwargs)
        return [self._unit(term, variables) for term in terms]

    def _unit(self, plan_entry, variables):
        template = lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        known = {"unit": plan_entry, "version": self.get_option("version")}
        [text] = template.run([self.get_option("template")], variables, template_vars=known)
        content = stamp_spec(text)
        return {
            "service": plan_entry["name"],
            "name": plan_entry["unit"],
            "content": content,
            "spec": spec_of(content),
            "port": plan_entry["port"],
        }
