"""Files of a role as data, so that a module can install them as one set."""

from __future__ import annotations

DOCUMENTATION = r"""
name: tree_files
short_description: The text files below a folder, as a mapping
version_added: "0.1.0"
description:
  - Reads every file below a folder on the controller and returns its text under its relative path.
  - C(__pycache__) folders and compiled files are left out, since they come and go with the tests.
options:
  _input:
    description: Path of the folder on the controller.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Install a Python package
  frank.fleet.file_tree:
    dest: /opt/app/package
    files: "{{ (role_path ~ '/files/package') | frank.fleet.tree_files }}"
"""

RETURN = r"""
_value:
  description: Relative path to content.
  type: dict
"""

from pathlib import Path

from ansible.errors import AnsibleFilterError


def tree_files(path):
    """Return {relative path: text} of the files below ``path``; raise AnsibleFilterError where there are none."""
    root = Path(path)
    found = {
        item.relative_to(root).as_posix(): item.read_text(encoding="utf-8")
        for item in sorted(root.rglob("*"))
        if item.is_file() and "__pycache__" not in item.parts and item.suffix != ".pyc"
    }
    if not found:
        raise AnsibleFilterError(f"tree_files: there are no files below {path}")
    return found


class FilterModule:
    """Entry point for Ansible."""

    def filters(self):
        return {"tree_files": tree_files}
