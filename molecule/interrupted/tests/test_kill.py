"""Kill a deploy in the middle of each step that changes something, run it again, and compare with a clean run."""

import os
import signal
import subprocess
from typing import Any

import pytest
from contract import REPLICAS, as_user, containers, get
from deploying import PROJECT, command, deploy, environment, fleet

FAST = {"SIM_TIME_SCALE": "0.05", "SIM_BOOT_SECONDS": "1"}
# Two states that differ in everything a deploy handles: engines, proxy and endpoint.
STATES: tuple[dict[str, Any], ...] = (
    {"vllm_replica_environment_extra": FAST},
    {
        "vllm_replica_environment_extra": {**FAST, "NOTE": "other"},
        "llm_fleet": {**fleet(MAXSEQS=3), "port": 7780},
        "routing_proxy_environment_extra": {"HEALTH_INTERVAL": "1"},
    },
)
# Where the run is killed: when the nth task of this name begins.
MOMENTS = [
    ("Drain it in the proxy", 1),
    ("Restart it if what runs differs", 1),
    ("Have systemd hold the port", 1),
]

HOME = ".config/containers/systemd .config/systemd/user .local/share/frank-fleet"


def state(host: Any, port: int) -> dict[str, Any]:
    """Return all that a deploy decides on: files, what runs, and what the proxy makes of it."""
    files = as_user(host, f"find {HOME} -not -name '*.pyc' -not -name __pycache__ | sort")
    content = as_user(host, f"find {HOME} -type f -not -name '*.pyc' | sort | xargs sha256sum")
    running = {c["Names"][0]: (c["Labels"]["io.frank-fleet.spec"], c["ImageID"]) for c in containers(host)}
    units = as_user(host, "systemctl --user list-units 'frank-medium*' --plain --no-legend | sort")
    kept = sorted(line for line in units.splitlines() if ".timer" not in line and "-healthcheck" not in line)
    health = host.check_output(f"curl -sS -m 20 http://127.0.0.1:{port}/health")
    return {"files": files, "content": content, "running": running, "units": kept, "health": health}


def killed(moment: str, number: int, variables: dict[str, Any]) -> None:
    """Deploy, and kill all of the run when a task begins."""
    process = subprocess.Popen(
        command("site.yml", **variables),
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    for line in process.stdout:
        number -= line.startswith("TASK [") and moment in line
        if number == 0:
            break
    else:
        pytest.fail(f"the deploy never came to '{moment}'")
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.fixture(scope="module")
def clean(host: Any) -> list[dict[str, Any]]:
    """Return both states as runs without a kill leave them; the second is what runs then."""
    found = []
    for variables, port in zip(STATES, (7770, 7780), strict=True):
        # Twice from the other side, so that what is kept to go back to is the same in each later comparison.
        deploy(**variables)
        found.append(state(host, port))
    return found


@pytest.mark.parametrize(("turn", "moment"), enumerate(MOMENTS), ids=[f"{name}, {n}" for name, n in MOMENTS])
def test_the_next_run_finishes_it(host, clean, turn: int, moment: tuple[str, int]) -> None:
    target, port = turn % 2, (7770, 7780)[turn % 2]
    killed(*moment, STATES[target])
    deploy(**STATES[target])
    assert state(host, port) == clean[target]


def test_the_fleet_serves(host) -> None:
    assert {name: entry["state"] for name, entry in get(host, "/health")["replicas"].items()} == dict.fromkeys(
        REPLICAS, "up"
    )
