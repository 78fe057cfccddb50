#!/usr/bin/python
"""Install a set of small text files as one folder."""

from __future__ import annotations

DOCUMENTATION = r"""
module: file_tree
short_description: Install a set of small text files as one folder
version_added: "0.1.0"
description:
  - Writes every file of the set, each atomically, and removes files below the folder that the set does not name.
  - For folders that belong to one role alone, such as a Python package that a container mounts.
  - A file whose text starts with C(#!) is installed executable (0755), any other with 0644.
  - Unlike M(ansible.builtin.copy) it predicts changes in check mode where the folder does not exist yet.
options:
  dest:
    description: The folder. It and its parents are made when missing. C(~) is the user the module runs as.
    type: path
    required: true
  files:
    description: Relative path to content.
    type: dict
    required: true
attributes:
  check_mode:
    description: Predicts without writing.
    support: full
  diff_mode:
    description: Shows each file that changes.
    support: full
"""

EXAMPLES = r"""
- name: Install the proxy
  frank.fleet.file_tree:
    dest: ~/.local/share/frank-fleet/runtime/routing_proxy
    files: "{{ (role_path ~ '/files/routing_proxy') | frank.fleet.tree_files }}"
"""

RETURN = r"""
written:
  description: Relative paths that were or would be written.
  type: list
  elements: str
  returned: always
removed:
  description: Relative paths that were or would be removed.
  type: list
  elements: str
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import (
    UnsafePathError,
    refuse_links,
    write_atomically,
)


def wanted_mode(text):
    """Mode of a file: scripts are executable."""
    return 0o755 if text.startswith("#!") else 0o644


def current_text(path):
    """Content of a regular file, or None; a symlink counts as absent: it is replaced, never written through."""
    if path.is_symlink() or not path.is_file():
        return None
    return path.read_text(encoding="utf-8", errors="replace")


def is_current(path, text):
    """Whether the file already has this content and mode."""
    return current_text(path) == text and (path.stat().st_mode & 0o7777) == wanted_mode(text)


def strangers(root, files):
    """Files below `root` that are not in the set; compiled Python is a cache of the set and left alone."""
    if not root.is_dir():
        return []
    found = (item.relative_to(root).as_posix() for item in root.rglob("*") if not item.is_dir() or item.is_symlink())
    return sorted(name for name in found if name not in files and "__pycache__" not in name.split("/"))


def refuse_unsafe(root, files):
    """Raise UnsafePathError where writing the set would leave `root` or follow a link."""
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UnsafePathError(f"{name} leads out of {root}")
        refuse_links((root / name).parent)


def install(root, files, removed):
    """Write the set and remove what does not belong to it."""
    for name, text in files.items():
        write_atomically(root / name, text, wanted_mode(text))
    for name in removed:
        (root / name).unlink()


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"dest": {"type": "path", "required": True}, "files": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    root, files = Path(module.params["dest"]), module.params["files"]
    try:
        refuse_unsafe(root, files)
    except UnsafePathError as error:
        module.fail_json(msg=str(error))
    written = {name: text for name, text in files.items() if not is_current(root / name, text)}
    removed = strangers(root, files)
    diff = [
        {
            "before_header": str(root / name),
            "after_header": str(root / name),
            "before": current_text(root / name) or "",
            "after": files.get(name, ""),
        }
        for name in [*written, *removed]
    ]
    changed = bool(written or removed)
    if changed and not module.check_mode:
        try:
            install(root, written, removed)
        except OSError as error:
            module.fail_json(msg=f"cannot install files below {root}: {error}")
    module.exit_json(changed=changed, written=list(written), removed=removed, diff=diff)


if __name__ == "__main__":
    main()
