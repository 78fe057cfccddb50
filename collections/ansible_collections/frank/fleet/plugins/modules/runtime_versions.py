#!/usr/bin/python
"""Module: remove the versions of mounted scripts that no unit names any more."""

from __future__ import annotations

DOCUMENTATION = r"""
module: runtime_versions
author: frank-fleet developers
version_added: 1.1.0
short_description: Remove versions of scripts that no unit runs any more
description:
  - Scripts that containers run are in folders named C(<name>-<12 hexadecimal digits>), after their content. This
    removes those that neither an installed unit nor one that the manifest keeps to go back to names.
  - Everything else below O(path) is left alone.
options:
  path:
    description: The folder that holds them.
    type: path
    default: ~/.local/share/frank-fleet/runtime
  units:
    description: The user's Quadlet folder.
    type: path
    default: ~/.config/containers/systemd
  manifest:
    description: The record of what was installed, with the units to go back to.
    type: path
    default: ~/.local/share/frank-fleet/manifest.json
attributes:
  check_mode:
    support: full
    description: Predicts from the units as they are, not as a deploy would leave them.
  diff_mode:
    support: none
seealso:
  - module: frank.fleet.file_tree
"""

EXAMPLES = r"""
- name: Tidy up after a roll
  frank.fleet.runtime_versions:
"""

RETURN = r"""
removed:
  description: Names of the folders that were (or in check mode would be) removed.
  returned: success
  type: list
  elements: str
  sample: [engine-c736a3f0c997]
"""

import re
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import read_plain
from ansible_collections.frank.fleet.plugins.module_utils.generator import SERVICE_SUFFIXES

VERSION = re.compile(r".+-[0-9a-f]{12}")


def needed(units: Path, manifest: Path) -> str:
    """All text that may name a version that is still needed."""
    installed = [unit for unit in units.rglob("*") if unit.suffix in SERVICE_SUFFIXES and unit.is_file()]
    texts = [unit.read_text(encoding="utf-8", errors="replace") for unit in installed]
    return "\n".join([*texts, read_plain(manifest) or ""])


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "~/.local/share/frank-fleet/runtime"},
            "units": {"type": "path", "default": "~/.config/containers/systemd"},
            "manifest": {"type": "path", "default": "~/.local/share/frank-fleet/manifest.json"},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["path"])
    folders = [entry for entry in sorted(root.glob("*")) if VERSION.fullmatch(entry.name) and entry.is_dir()]
    text = needed(Path(module.params["units"]), Path(module.params["manifest"]))
    unused = [folder for folder in folders if folder.name not in text and not folder.is_symlink()]
    if not module.check_mode:
        for folder in unused:
            shutil.rmtree(folder)
    module.exit_json(changed=bool(unused), removed=[folder.name for folder in unused])


if __name__ == "__main__":
    main()
