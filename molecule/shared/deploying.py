"""Run the project's playbooks from a test, as an operator would, against the scenario's host."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
INVENTORY = Path(
    os.environ.get("FRANK_FLEET_INVENTORY")
    or PROJECT / "molecule/shared/lanes" / os.environ.get("FRANK_FLEET_LANE", "first")
)


def command(playbook: str, *arguments: str, **variables: Any) -> list[str]:
    """Return the command line that runs a playbook of the project with these extra variables."""
    extra = ["--extra-vars", json.dumps(variables)] if variables else []
    return ["ansible-playbook", f"--inventory={INVENTORY}", str(PROJECT / playbook), *arguments, *extra]


def environment() -> dict[str, str]:
    """Return the environment of an operator in the project's folder; Molecule's own has another configuration."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {**ours, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}


def run(playbook: str, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    """Run a playbook and return how it ended, with all that it printed in `stdout`."""
    return subprocess.run(
        command(playbook, *arguments, **variables),
        env=environment(),
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def deploy(*arguments: str, **variables: Any) -> str:
    """Deploy the site, which must succeed; return what it printed."""
    done = run("site.yml", *arguments, **variables)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def refused(*arguments: str, **variables: Any) -> str:
    """Deploy the site, which must fail; return what it printed."""
    done = run("site.yml", *arguments, **variables)
    assert done.returncode != 0, done.stdout[-6000:]
    return done.stdout


def fleet(**knobs: Any) -> dict[str, Any]:
    """Return the inventory's fleet with other knobs."""
    known = yaml.safe_load((PROJECT / "inventory/group_vars/frank_medium/fleet.yml").read_text())["llm_fleet"]
    return {**known, "knobs": {**known["knobs"], **knobs}}
