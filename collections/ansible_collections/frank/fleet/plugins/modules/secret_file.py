#!/usr/bin/python
"""Module: keep secrets in a file that only the user who runs it can read."""

from __future__ import annotations

DOCUMENTATION = r"""
module: secret_file
author: frank-fleet developers
version_added: 1.1.0
short_description: Keep secrets in a file that only its user can read
description:
  - Writes one secret a line, atomically, with mode 0600 in a folder with 0700. Without secrets, removes the file.
  - Shows the secrets nowhere, neither in its arguments nor in a diff or an error.
options:
  path:
    description: The file. C(~) is the user the module runs as.
    type: path
    required: true
  secrets:
    description: The secrets, each of printable ASCII characters without blanks. An empty list removes the file.
    type: list
    elements: str
    required: true
  minimum:
    description: Characters that each must have at least, so that nobody deploys a placeholder.
    type: int
    default: 16
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    description: A diff would show them.
"""

EXAMPLES = r"""
- name: Install the keys
  become: true
  become_user: dank
  frank.fleet.secret_file:
    path: ~/.config/frank-fleet/secrets/frank-medium-proxy/api_keys
    secrets: "{{ vault_api_keys }}"
"""

RETURN = r"""
count:
  description: How many secrets there are now.
  returned: success
  type: int
"""

import string
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import (
    UnsafePathError,
    read_plain,
    refuse_links,
    sweep_temporaries,
    write_atomically,
)

MODE = 0o600
FOLDER_MODE = 0o700
LEGAL = set(string.ascii_letters + string.digits + string.punctuation) - {"#"}


def fault_in(secrets: list[str], minimum: int) -> str | None:
    """What is wrong with the secrets, told by their place in the list alone."""
    for number, secret in enumerate(secrets, 1):
        if len(secret) < minimum:
            return f"secret {number} has {len(secret)} characters, at least {minimum} are needed"
        if set(secret) - LEGAL:
            return f"secret {number} has a character that is not printable ASCII, a blank or '#'"
        if secret in secrets[: number - 1]:
            return f"secret {number} is the same as one before it"
    return None


def is_current(path: Path, text: str | None) -> bool:
    """Whether the file has this content and is the user's alone; None stands for no file."""
    if read_plain(path) != text:
        return False
    private = text is None or (path.stat().st_mode & 0o7777, path.parent.stat().st_mode & 0o7777) == (MODE, FOLDER_MODE)
    return bool(private)


def install(path: Path, text: str | None) -> None:
    """Write or remove the file."""
    if text is None:
        path.unlink()
        return
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    path.parent.chmod(FOLDER_MODE)
    sweep_temporaries(path.parent)
    write_atomically(path, text, MODE)


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "secrets": {"type": "list", "elements": "str", "required": True, "no_log": True},
            "minimum": {"type": "int", "default": 16},
        },
        supports_check_mode=True,
    )
    path, secrets = Path(module.params["path"]), module.params["secrets"]
    fault = fault_in(secrets, module.params["minimum"])
    if fault:
        module.fail_json(msg=f"{path} was left as it is: {fault}. Correct it where the inventory has it.")
    text = "".join(f"{secret}\n" for secret in secrets) or None
    try:
        refuse_links(path.parent)
        changed = not is_current(path, text)
        if changed and not module.check_mode:
            install(path, text)
    except (UnsafePathError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, count=len(secrets))


if __name__ == "__main__":
    main()
