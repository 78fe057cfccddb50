"""Run the project's playbooks as an operator does, and see whether they changed the host."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[3]
# All that a deploy could touch, and the programs it uses. The journal is written all the time.
WATCHED = "/etc /home /root /opt /srv /usr /var /models /patches /r4d /dev"
LISTING = f"find {WATCHED} -xdev -not -path '/var/log/*' -printf '%p %y %m %U:%G %s %T@ %l\\n' | sort"

Host = Any
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def playbook(request: pytest.FixtureRequest) -> Run:
    """Return a function that runs a playbook of the project against the scenario's inventory."""
    inventory = Path(request.config.getoption("ansible_inventory")).resolve()

    def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, name, *arguments]
        # Not the configuration, nor the colours, that Molecule has made for itself.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        environment["ANSIBLE_CONFIG"] = str(PROJECT / "ansible.cfg")
        return subprocess.run(
            command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=180, check=False
        )

    return run


@pytest.fixture
def listing(host: Host) -> Callable[[], set[str]]:
    """Return a function that lists every file of the host with mode, owner, size, time and target."""
    return lambda: set(host.check_output(LISTING).splitlines())
