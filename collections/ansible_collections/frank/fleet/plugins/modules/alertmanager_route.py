#!/usr/bin/python
"""Module: have an Alertmanager send the fleet's alerts to a webhook."""

from __future__ import annotations

DOCUMENTATION = r"""
module: alertmanager_route
author: frank-fleet developers
version_added: 1.1.0
short_description: Have an Alertmanager send the fleets' alerts to a webhook
description:
  - Writes the whole configuration of an Alertmanager that serves nothing else. Alerts with the label C(fleet) go to one
    webhook, others nowhere. The webhook's address is in a file of its own, for the Alertmanager's group alone.
  - amtool checks the configuration before it is installed, and a reload has to be confirmed by the Alertmanager's own
    metrics. Otherwise the old file is put back.
  - A configuration that somebody else wrote is refused unless O(adopt), which keeps it beside the new one.
options:
  url:
    description:
      - Address that alerts are posted to. It may hold a token, and is shown nowhere.
      - Empty notifies nobody; a configuration that an earlier run wrote is changed to that, and the address removed.
    type: str
    default: ""
  config:
    description: The configuration file.
    type: path
    default: /etc/prometheus/alertmanager.yml
  group:
    description: Group that the Alertmanager runs as.
    type: str
    default: prometheus
  group_wait:
    description: How long the first alert of a group waits for others of it.
    type: str
    default: 1m
  amtool:
    description: Command that runs amtool.
    type: list
    elements: str
    default: [amtool]
  reload:
    description: Command that has the Alertmanager reload its configuration.
    type: list
    elements: str
    default: [systemctl, reload, prometheus-alertmanager]
  api:
    description: Scheme, host and port of the Alertmanager.
    type: str
    default: http://127.0.0.1:9093
  adopt:
    description: Replace a configuration that somebody else wrote; it is kept with the suffix C(.before-frank-fleet).
    type: bool
    default: false
  timeout:
    description: Seconds that the Alertmanager gets to confirm.
    type: int
    default: 30
attributes:
  check_mode:
    support: full
    description: Writes nothing and needs no Alertmanager.
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Notify
  frank.fleet.alertmanager_route:
    url: "{{ vault_webhook }}"
"""

RETURN = r"""
reasons:
  description: Why the Alertmanager was (or in check mode would be) reloaded.
  returned: success
  type: list
  elements: str
"""

import shutil
import tempfile
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import UnsafePathError, read_plain, write_atomically
from ansible_collections.frank.fleet.plugins.module_utils.prometheus_api import reload_missing, wait_for_reload
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import is_managed

#: Alerts of one fleet are told together. A replica's death is one alert after 15 minutes, so a minute more waits for
#: what belongs to it, and what stays is told again twice a day.
CONFIG = """\
# Managed by frank-fleet, role alertmanager_route. Change the inventory: the next run puts this file back.
route:
  receiver: nobody
  routes:
    - matchers: ['fleet=~".+"']
      receiver: webhook
      group_by: [fleet]
      group_wait: {wait}
      group_interval: {wait}
      repeat_interval: 12h
receivers:
  - name: nobody
  - name: webhook
    webhook_configs:
      - url_file: {url_file}
"""


#: What an earlier configuration becomes when nobody is to be notified any more.
SILENT = """\
# Managed by frank-fleet, role alertmanager_route. Change the inventory: the next run puts this file back.
route:
  receiver: nobody
receivers:
  - name: nobody
"""


def write(path: Path, text: str | None, group: str) -> None:
    """Write a file that root and the Alertmanager's group can read; None removes it."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    write_atomically(path, text, 0o640)
    shutil.chown(path, group=group)


def check(module: AnsibleModule, text: str) -> None:
    """Have amtool judge the configuration; fails with its words."""
    command = module.params["amtool"]
    if not module.get_bin_path(command[0]):
        if module.check_mode:
            return
        module.fail_json(msg=f"{command[0]} is not installed: install the package prometheus-alertmanager")
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "alertmanager.yml")
        draft.write_text(text, encoding="utf-8")
        code, output, error = module.run_command([*command, "check-config", str(draft)])
    if code:
        module.fail_json(msg=f"amtool refuses the configuration, nothing was changed:\n{output}{error}")


def confirm(module: AnsibleModule, since: float) -> str | None:
    """Reload, and wait until the Alertmanager says that it did; returns what is wrong."""
    code, output, error = module.run_command(module.params["reload"])
    if code:
        return f"{' '.join(module.params['reload'])}: {output}{error}"
    return wait_for_reload(module.params["api"], "alertmanager", since, module.params["timeout"])


def reasons_for(
    module: AnsibleModule, path: Path, before: dict[Path, str | None], after: dict[Path, str | None]
) -> list[str]:
    """Why the Alertmanager has to reload: files that differ, or that it has not read yet."""
    found = [f"{file.name} differs" for file in after if before[file] != after[file]]
    if not found and not module.check_mode:
        found = list(filter(None, [reload_missing(module.params["api"], "alertmanager", path.stat().st_mtime)]))
    return found


def apply(module: AnsibleModule, path: Path, before: dict[Path, str | None], after: dict[Path, str | None]) -> None:
    """Replace the files and reload; puts the old ones back unless the Alertmanager confirms."""
    group, old, began = module.params["group"], before[path], time.time()
    if old is not None and not is_managed(old):
        write(path.with_name(f"{path.name}.before-frank-fleet"), old, group)
    for file, text in after.items():
        write(file, text, group)
    wrong = confirm(module, began)
    if wrong:
        for file, text in before.items():
            write(file, text, group)
        confirm(module, began)
        module.fail_json(msg=f"The Alertmanager did not take the configuration, and the old one is back. {wrong}")


def main() -> None:
    """Entry point for Ansible."""
    words = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "", "no_log": True},
            "config": {"type": "path", "default": "/etc/prometheus/alertmanager.yml"},
            "group": {"type": "str", "default": "prometheus"},
            "group_wait": {"type": "str", "default": "1m"},
            "amtool": {**words, "default": ["amtool"]},
            "reload": {**words, "default": ["systemctl", "reload", "prometheus-alertmanager"]},
            "api": {"type": "str", "default": "http://127.0.0.1:9093"},
            "adopt": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    path = Path(module.params["config"])
    secret = path.with_name("frank-fleet-webhook")
    url = module.params["url"]
    text = CONFIG.format(url_file=secret, wait=module.params["group_wait"]) if url else SILENT
    after = {secret: url or None, path: text}
    try:
        before = {file: read_plain(file) for file in after}
        if not url and not is_managed(before[path] or ""):
            module.exit_json(changed=False, reasons=[])
        if before[path] is not None and not is_managed(before[path]) and not module.params["adopt"]:
            module.fail_json(
                msg=f"{path} is somebody else's. Add a route for the label 'fleet' there by hand "
                "(docs/observability.md), or have it replaced and kept beside the new one with "
                "alertmanager_route_adopt: true"
            )
        reasons = reasons_for(module, path, before, after)
        if reasons:
            check(module, text)
        if reasons and not module.check_mode:
            apply(module, path, before, after)
    except (UnsafePathError, OSError, LookupError) as error:
        module.fail_json(msg=str(error))
    old = before[path] or ""
    # Somebody else's may hold secrets.
    shown = old if is_managed(old) else ""
    diff = {"before": shown, "after": text, "before_header": str(path), "after_header": str(path)}
    module.exit_json(changed=bool(reasons), reasons=reasons, diff=diff)


if __name__ == "__main__":
    main()
