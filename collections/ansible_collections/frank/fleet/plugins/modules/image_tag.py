#!/usr/bin/python
"""Module: have a name in the user's image store stand for a source image."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_tag
author: frank-fleet developers
version_added: 1.0.0
short_description: Tag an image in the user's own store
description:
  - Has O(target) stand for the image that O(source) names, in the store of the user that runs the module. Compares
    image IDs first, so a second run changes nothing.
  - The image that O(target) stood for before gets the name O(previous), so that nothing which removes images without a
    name takes what may have to be gone back to.
  - Loads O(archive) or pulls only as asked. If that fails, nothing was changed, also when an older image is present.
  - Run it as the service user, with E(XDG_RUNTIME_DIR) in the environment.
options:
  source:
    description: The image, fully qualified, by tag or digest.
    type: str
    required: true
  target:
    description: The name to give it, such as V(localhost/radiance-vllm:0.9.3).
    type: str
    required: true
  archive:
    description: An archive on the host (docker or OCI), loaded if O(source), with O(image_id), is not in the store.
    type: path
  previous:
    description: Name for the image that O(target) stood for, given to it when O(target) moves on.
    type: str
  image_id:
    description: The ID (64 hexadecimal digits) that O(source) must have. Another one fails before anything is tagged.
    type: str
  pull:
    description: Whether to ask the registry for O(source), also if the store has one already.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Needs no Podman. What a pull or an archive would bring is not known beforehand.
  diff_mode:
    support: full
seealso:
  - module: frank.fleet.quadlet_service
"""

EXAMPLES = r"""
- name: Tag the engine image for the units
  become: true
  become_user: dank
  environment:
    XDG_RUNTIME_DIR: /run/user/1000
  frank.fleet.image_tag:
    source: docker.io/stilldeadcode/vllm-radiance:0.9.3
    target: localhost/radiance-vllm:0.9.3
"""

RETURN = r"""
image_id:
  description: ID of the image that O(target) stands for now (in check mode, would stand for; empty if not known).
  returned: success
  type: str
previous_id:
  description: ID of the image that O(target) stood for before.
  returned: when there was one
  type: str
"""

import os
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import Podman

GIB = 1024**3
#: Times the size of an archive: its unpacked layers, and a copy of each while it is read. Not measured.
ROOM = 2.5


def fetch(module: AnsibleModule, podman: Podman) -> str | None:
    """Bring the source into the store as asked; returns its ID, None only in check mode when it is not known."""
    source, archive = module.params["source"], module.params["archive"]
    present = podman.image_id(source)
    if module.params["pull"]:
        if not module.check_mode:
            podman.run("pull", "--quiet", "--", source)
            return podman.image_id(source)
        return present
    if not archive or (present and is_wanted(module, present)):
        return present
    if module.check_mode:
        return None
    if not Path(archive).is_file():
        module.fail_json(msg=f"The archive {archive} that holds {source} is not on this host: copy it there.")
    refuse_full_disk(module, podman, Path(archive))
    podman.run("load", "--quiet", "--input", archive)
    loaded = podman.image_id(source)
    if not loaded:
        module.fail_json(
            msg=f"{archive} was loaded but holds no {source}: save it with 'podman save -o FILE {source}'."
        )
    return loaded


def refuse_full_disk(module: AnsibleModule, podman: Podman, archive: Path) -> None:
    """Fail where the store or Podman's folder for temporary files has no room for an archive."""
    needed = archive.stat().st_size * ROOM
    for folder in dict.fromkeys((Path(podman.store()), Path(os.environ.get("TMPDIR") or "/var/tmp"))):
        here = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(here).free
        if free < needed:
            module.fail_json(
                msg=f"{folder} has {free / GIB:.1f} GiB free, and loading {archive} may need {needed / GIB:.1f}: make "
                "room first (docs/runbook.md, Images). Nothing was changed."
            )


def is_wanted(module: AnsibleModule, found: str) -> bool:
    """True unless the inventory asks for an image of another ID."""
    wanted = module.params["image_id"]
    return not wanted or found.removeprefix("sha256:") == wanted.removeprefix("sha256:")


def refuse_other_image(module: AnsibleModule, found: str | None) -> None:
    """Fail unless the source is the image that was asked for."""
    wanted = module.params["image_id"]
    if found and not is_wanted(module, found):
        module.fail_json(
            msg=f"{module.params['source']} is image {found}, and the inventory wants {wanted}. Nothing was tagged: "
            "pull or load the wanted one, or change the ID in the inventory."
        )


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "required": True},
            "target": {"type": "str", "required": True},
            "archive": {"type": "path"},
            "previous": {"type": "str"},
            "image_id": {"type": "str"},
            "pull": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    source, target = module.params["source"], module.params["target"]
    podman = Podman(module)
    before, wanted = podman.image_id(target), fetch(module, podman)
    coming = module.check_mode and (module.params["pull"] or module.params["archive"] or not podman.available)
    if not wanted and not coming:
        module.fail_json(
            msg=(
                f"The image {source} is not in this user's store. Set pull: true, or archive: to a file made by "
                f"'podman save', or run 'podman pull {source}' as this user."
            )
        )
    refuse_other_image(module, wanted)
    changed = wanted is None or before != wanted
    if changed and not module.check_mode:
        if module.params["previous"] and before:
            podman.run("tag", before, module.params["previous"])
        podman.run("tag", wanted, target)
    module.exit_json(
        changed=changed,
        image_id=wanted or "",
        previous_id=before,
        diff={"before": f"{target} {before or 'absent'}\n", "after": f"{target} {wanted or 'not known yet'}\n"},
    )


if __name__ == "__main__":
    main()
