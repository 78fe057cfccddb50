#!/usr/bin/python
"""Module: give a running Prometheus more scrape jobs and rules, all or nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: prometheus_files
author: frank-fleet developers
version_added: 1.1.0
short_description: Give an existing Prometheus scrape jobs and rules, all or nothing
description:
  - Puts the files into a folder C(frank-fleet) beside the configuration and includes them there with one line each for
    C(rule_files) and C(scrape_config_files). The rest of the configuration, its mode and its owner stay.
  - Before anything is replaced, promtool checks a copy of the whole folder as it would be. After it, Prometheus is
    reloaded, and its API has to confirm the reload, the alerts and the targets. Otherwise the old files are put back,
    Prometheus is reloaded again, and the module fails with what was said.
  - Decides from state. A run that was killed between writing and reloading is finished by the next one.
  - Needs Prometheus 2.43 or newer, for C(scrape_config_files).
options:
  config:
    description: The configuration file.
    type: path
    default: /etc/prometheus/prometheus.yml
  scrape:
    description: Text of the file with the scrape jobs.
    type: str
    required: true
  rules:
    description: Text of the rules file.
    type: str
    required: true
  promtool:
    description: Command that runs promtool, for instance through C(podman exec).
    type: list
    elements: str
    default: [promtool]
  folder_seen:
    description: The folder of O(config) as promtool sees it, where that is another path.
    type: str
  reload:
    description: Command that has Prometheus reload its configuration.
    type: list
    elements: str
    default: [systemctl, reload, prometheus]
  log:
    description: Command that prints the end of Prometheus' log, for the message of a failure.
    type: list
    elements: str
    default: [journalctl, --unit, prometheus, --lines, "5", --output, cat, --no-pager]
  url:
    description: Scheme, host and port of Prometheus.
    type: str
    default: http://127.0.0.1:9090
  targets:
    description: Addresses that must be among the active targets after the reload.
    type: list
    elements: str
    default: []
  alertmanager:
    description: Address of an Alertmanager to send alerts to, where the configuration has none yet. Empty sends none.
    type: str
    default: ""
  timeout:
    description: Seconds that Prometheus gets to confirm.
    type: int
    default: 30
attributes:
  check_mode:
    support: full
    description: Writes nothing and needs no Prometheus; where promtool is there, the files are checked all the same.
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Have Prometheus watch the fleet
  frank.fleet.prometheus_files:
    scrape: "{{ {'scrape_configs': prometheus_rules_jobs} | to_nice_yaml }}"
    rules: "{{ lookup('ansible.builtin.file', 'frank-fleet.rules.yml') }}"
"""

RETURN = r"""
reasons:
  description: Why Prometheus was (or in check mode would be) reloaded.
  returned: success
  type: list
  elements: str
  sample: [frank-fleet/frank-fleet.rules.yml differs]
"""

import shutil
import tempfile
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import UnsafePathError
from ansible_collections.frank.fleet.plugins.module_utils.prometheus_api import Prometheus, wait_for_reload
from ansible_collections.frank.fleet.plugins.module_utils.prometheus_folder import STAGE, Files, is_data, replace, sweep
from ansible_collections.frank.fleet.plugins.module_utils.prometheus_text import UneditableError, alerts_in


def check(module: AnsibleModule, files: Files) -> None:
    """Have promtool judge the folder as it would be; fails with its words before anything is replaced."""
    command, folder = module.params["promtool"], files.folder
    if not module.get_bin_path(command[0]) or not folder.is_dir():
        if module.check_mode:
            module.warn(f"{command[0]} is not installed here yet: nothing was validated.")
            return
        module.fail_json(msg=f"{command[0]} is not installed: install the package promtool, or name the command")
    if not module.check_mode:
        sweep(folder)
    seen = module.params["folder_seen"]
    # Beside the configuration only where promtool sees nothing else.
    stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=folder if seen else None))
    try:
        copy = stage / "all"
        shutil.copytree(folder, copy, symlinks=True, ignore=is_data)
        for path, text in files.after.items():
            replace(copy / path.relative_to(folder), text)
        if seen:
            stage.chmod(0o755)
        shown = Path(seen) / copy.relative_to(folder) if seen else copy
        code, output, error = module.run_command([*command, "check", "config", str(shown / files.config.name)])
    finally:
        shutil.rmtree(stage)
    if code:
        module.fail_json(msg=f"promtool refuses the files, nothing was changed:\n{output}{error}")


def reload(module: AnsibleModule) -> str:
    """Ask for a reload; returns what the command had to complain about."""
    code, output, error = module.run_command(module.params["reload"])
    return f"{' '.join(module.params['reload'])}: {output}{error}" if code else ""


def words(module: AnsibleModule) -> str:
    """The end of Prometheus' own log."""
    code, output, _ = module.run_command(module.params["log"])
    return f"\nThe end of its log:\n{output}" if code == 0 and output else ""


def apply(module: AnsibleModule, files: Files, prometheus: Prometheus) -> None:
    """Replace the files and reload; puts the last confirmed ones back unless Prometheus confirms."""
    began = time.time()
    files.keep()
    files.write()
    missing = reload(module) or prometheus.wait(began, module.params["timeout"])
    if not missing:
        files.confirmed()
        return
    said, again = words(module), time.time()
    files.put_back()
    complaint = reload(module) or wait_for_reload(module.params["url"], "prometheus", again, module.params["timeout"])
    files.confirmed()
    module.fail_json(
        msg=f"Prometheus did not take the new files, and the old ones are back. {missing}.{said}"
        + (f" The reload of the old ones was not confirmed either: {complaint}" if complaint else "")
    )


def reasons_for(module: AnsibleModule, files: Files, prometheus: Prometheus) -> list[str]:
    """Why Prometheus has to reload: files that differ, an earlier run that was not confirmed, or files not read yet."""
    found = [f"{path.relative_to(files.folder)} differs" for path in files.changed]
    if files.unconfirmed:
        found.append("an earlier run was broken off before Prometheus had confirmed it")
    if not found and not module.check_mode:
        stale = prometheus.missing(max(path.stat().st_mtime for path in files.after))
        found = [f"Prometheus does not run with the files as they are: {stale}"] if stale else []
    return found


def diff_of(files: Files, path: Path) -> dict[str, str]:
    """What changes in a file; of the configuration the added lines alone, as the others may hold secrets."""
    before, after = files.before[path] or "", files.after[path]
    if path == files.config:
        known = before.splitlines()
        before, after = "", "".join(f"{line}\n" for line in after.splitlines() if line not in known)
    return {"before_header": str(path), "after_header": str(path), "before": before, "after": after}


def main() -> None:
    """Entry point for Ansible."""
    strings = {"type": "list", "elements": "str"}
    log = ["journalctl", "--unit", "prometheus", "--lines", "5", "--output", "cat", "--no-pager"]
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "path", "default": "/etc/prometheus/prometheus.yml"},
            "scrape": {"type": "str", "required": True},
            "rules": {"type": "str", "required": True},
            "promtool": {**strings, "default": ["promtool"]},
            "folder_seen": {"type": "str"},
            "reload": {**strings, "default": ["systemctl", "reload", "prometheus"]},
            "log": {**strings, "default": log},
            "url": {"type": "str", "default": "http://127.0.0.1:9090"},
            "targets": {**strings, "default": []},
            "alertmanager": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    try:
        files = Files(module)
        prometheus = Prometheus(module.params["url"], alerts_in(module.params["rules"]), module.params["targets"])
        reasons = reasons_for(module, files, prometheus)
        if reasons:
            check(module, files)
        if reasons and not module.check_mode:
            apply(module, files, prometheus)
    except UneditableError as error:
        module.fail_json(msg=f"{module.params['config']} cannot be edited safely, nothing was changed: {error}")
    except (UnsafePathError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(reasons), reasons=reasons, diff=[diff_of(files, path) for path in files.changed])


if __name__ == "__main__":
    main()
