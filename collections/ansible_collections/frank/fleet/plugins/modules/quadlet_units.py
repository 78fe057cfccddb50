#!/usr/bin/python
"""Module: install Quadlet units of a user, validated as a set, atomically."""

from __future__ import annotations

DOCUMENTATION = r"""
module: quadlet_units
author: frank-fleet developers
version_added: 1.0.0
short_description: Install a user's Quadlet units, all or none
description:
  - Stages the units together with the other unit files of the user, runs the host's own Quadlet generator over the set
    and refuses it, with the generator's reason, if one of the units would be dropped or would not start at boot. Only
    then is the live folder touched.
  - Writes each file in one step, keeps a copy in the trash of everything it replaces that it did not write itself, and
    reloads the user manager once, only if a unit changed or is not loaded as it is on disk. A run that was killed
    anywhere is finished by the next one.
  - Does not start or restart anything, see M(frank.fleet.quadlet_service).
  - Run it as the service user, with E(XDG_RUNTIME_DIR) in the environment.
options:
  units:
    description: The unit files.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: File name, for instance V(frank-medium-a.container).
        type: str
        required: true
      content:
        description:
          - The whole text. Must hold the comment line C(# Managed by frank-fleet), so that who looks at the file knows.
        type: str
        required: true
  write:
    description:
      - Names of those units that are written now; all of O(units) by default. The whole set is validated in any case,
        so a roll can install one unit after the other and still refuse a bad set before it begins.
    type: list
    elements: str
  owner:
    description: Section of the manifest, normally the name of the role.
    type: str
    required: true
  path:
    description: The user's Quadlet folder. No part of it below the home may be a symlink.
    type: path
    default: ~/.config/containers/systemd
  manifest:
    description: The record of what was installed.
    type: path
    default: ~/.local/share/frank-fleet/manifest.json
  trash:
    description: Where copies of replaced files go. Must not be below O(path), whose subfolders Quadlet reads.
    type: path
    default: ~/.AGENTTRASH
  generator:
    description: Podman's Quadlet generator. Found by itself in the usual places.
    type: path
attributes:
  check_mode:
    support: full
    description: Needs neither Podman nor a user manager; without a generator it warns that nothing was validated.
  diff_mode:
    support: full
    description: Shows every unit that changes.
seealso:
  - module: frank.fleet.quadlet_service
  - module: frank.fleet.retired_units
"""

EXAMPLES = r"""
- name: Install the replicas
  become: true
  become_user: dank
  environment:
    XDG_RUNTIME_DIR: /run/user/1000
  frank.fleet.quadlet_units:
    owner: vllm_replica
    units:
      - name: frank-medium-a.container
        content: "{{ vllm_replica_unit_a }}"
"""

RETURN = r"""
units:
  description: Each unit and whether its file changed.
  returned: success
  type: list
  elements: dict
  sample: [{name: frank-medium-a.container, service: frank-medium-a.service, changed: true}]
good:
  description: For each of O(units) that was ready before, the unit and image that it was ready with.
  returned: success
  type: dict
  sample: {frank-medium-a.container: {spec: 9d41e0c7aa12bb34, image_id: 0f1e2d3c4b5a, text: "[Container]..."}}
kept:
  description: Copies in the trash of replaced files that were not ours or had been edited.
  returned: success
  type: list
  elements: str
unlisted:
  description: Units that O(owner) installed earlier and that are not in O(units) any more. They stay until retired.
  returned: success
  type: list
  elements: str
reloaded:
  description: Whether the user manager was reloaded.
  returned: success
  type: bool
"""

import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import (
    Trash,
    UnsafePathError,
    read_plain,
    refuse_links,
    sweep_temporaries,
    write_atomically,
)
from ansible_collections.frank.fleet.plugins.module_utils.generator import (
    LOCATIONS,
    SERVICE_SUFFIXES,
    default_service,
    find_generator,
    validate,
)
from ansible_collections.frank.fleet.plugins.module_utils.manifest import Manifest, ManifestError, digest
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import MARKER, is_managed
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import UserManager

UNIT_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9:_.@-]*({'|'.join(map(re.escape, SERVICE_SUFFIXES))})")


def argument_faults(units: list[dict], write: list[str] | None) -> list[str]:
    """What is wrong with the units as given."""
    names = [unit["name"] for unit in units]
    unknown = [name for name in write or () if name not in names]
    faults = [f"{name} is listed twice" for name in sorted({name for name in names if names.count(name) > 1})]
    faults += [f"{name} is to be written but not among the units" for name in unknown]
    for unit in units:
        if not UNIT_NAME.fullmatch(unit["name"]):
            faults.append(f"{unit['name']!r} is no name of a Quadlet unit (such as frank-medium-a.container)")
        if not is_managed(unit["content"]):
            faults.append(f"{unit['name']} lacks the comment line '{MARKER}'")
    return faults


def live_texts(path: Path, units: dict[str, str]) -> dict[str, str | None]:
    """Text of each live file, None where there is none. Raises UnsafePathError for links and for shadowed names."""
    refuse_links(path)
    for name in units:
        for other in path.rglob(name) if path.is_dir() else ():
            if other.parent != path:
                raise UnsafePathError(f"{other} has the name of a unit to install, and Quadlet would read only one")
    return {name: read_plain(path / name) for name in units}


def check_with_generator(module: AnsibleModule, path: Path, units: dict[str, str]) -> dict[str, str]:
    """Fail unless the host's generator accepts the set; returns the service name of each unit."""
    generator = find_generator(module.params["generator"])
    if generator:
        verdict = validate(generator, path, units)
        if verdict.faults:
            module.fail_json(
                msg="Podman's generator refuses the units, nothing was changed. " + " ".join(verdict.faults)
            )
        for warning in verdict.warnings:
            module.warn(f"Podman's generator says: {warning}")
        return verdict.services
    places = module.params["generator"] or ", ".join(LOCATIONS)
    if not module.check_mode:
        module.fail_json(msg=f"No Quadlet generator found ({places}): install Podman 5.4 or newer.")
    module.warn("Podman is not installed yet, so the units were not validated.")
    return {name: default_service(name) for name in units}


def stale_services(manager: UserManager, services: list[str]) -> list[str]:
    """Services that systemd does not have loaded as they are on disk."""
    stale = []
    for service in services:
        state = manager.show(service, "NeedDaemonReload")
        if state["LoadState"] != "loaded" or state.get("NeedDaemonReload") == "yes":
            stale.append(service)
    return stale


def install(module: AnsibleModule, path: Path, before: dict, after: dict, manifest: Manifest) -> list[str]:
    """Write what differs; returns the copies that were kept of files that were not as we left them."""
    trash, kept = Trash(Path(module.params["trash"])), []
    if path.is_dir():
        sweep_temporaries(path)
    changed = [name for name in after if before[name] != after[name]]
    for name in changed:
        if before[name] is not None and manifest.digest_of(name) != digest(before[name]):
            kept.append(str(trash.copy(path / name, Path(name))))
    for name in changed:
        write_atomically(path / name, after[name])
    return kept


def reload_if_stale(module: AnsibleModule, manager: UserManager, services: list[str], changed: bool) -> bool:
    """One daemon-reload if it is needed, then proof that systemd has the units as they are on disk."""
    if not changed and not stale_services(manager, services):
        return False
    manager.act("daemon-reload")
    stale = stale_services(manager, services)
    if stale:
        module.fail_json(
            msg=f"After daemon-reload systemd still has no current {', '.join(stale)}: see journalctl --user"
        )
    return True


def main() -> None:
    """Entry point for Ansible."""
    unit_options = {"name": {"type": "str", "required": True}, "content": {"type": "str", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "dict", "required": True, "options": unit_options},
            "write": {"type": "list", "elements": "str"},
            "owner": {"type": "str", "required": True},
            "path": {"type": "path", "default": "~/.config/containers/systemd"},
            "manifest": {"type": "path", "default": "~/.local/share/frank-fleet/manifest.json"},
            "trash": {"type": "path", "default": "~/.AGENTTRASH"},
            "generator": {"type": "path"},
        },
        supports_check_mode=True,
    )
    faults = argument_faults(module.params["units"], module.params["write"])
    if faults:
        module.fail_json(msg="; ".join(faults))
    path, every = Path(module.params["path"]), {unit["name"]: unit["content"] for unit in module.params["units"]}
    write = module.params["write"]
    after = every if write is None else {name: every[name] for name in write}
    trash = Path(module.params["trash"])
    if path == trash or path in trash.parents:
        module.fail_json(msg=f"The trash {trash} is inside {path}, where Quadlet would still read what is in it.")
    manager = UserManager(module)
    try:
        manifest = Manifest(Path(module.params["manifest"]))
        before = live_texts(path, every)
        services = check_with_generator(module, path, every)
        written = [services[name] for name in after]
        changed = [name for name in after if before[name] != after[name]]
        unlisted = sorted(set(manifest.owners.get(module.params["owner"], {})) - set(every))
        kept, reloaded = [], False
        if not module.check_mode:
            kept = install(module, path, before, after, manifest)
        for name in after:
            manifest.record(module.params["owner"], name, after[name])
        recorded = manifest.changed
        if not module.check_mode:
            manifest.save()
            reloaded = reload_if_stale(module, manager, written, bool(changed))
        elif manager.available:
            reloaded = bool(changed or stale_services(manager, written))
    except (UnsafePathError, ManifestError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(changed or recorded or reloaded),
        units=[{"name": name, "service": services[name], "changed": name in changed} for name in after],
        good={name: manifest.good(name) for name in every if manifest.good(name)},
        kept=kept,
        unlisted=unlisted,
        reloaded=reloaded,
        diff=[
            {
                "before": before[name] or "",
                "after": after[name],
                "before_header": str(path / name),
                "after_header": str(path / name),
            }
            for name in changed
        ],
    )


if __name__ == "__main__":
    main()
