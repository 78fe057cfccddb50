"""What runs on the host of this scenario, and changes to it."""

from typing import Any

from contract import REPLICAS, as_user, containers, journal
from waiting import wait_until

SLOW = {"SIM_TIME_SCALE": "1", "SIM_BOOT_SECONDS": "1"}
SOURCE, TAG = "docker.io/stilldeadcode/vllm-radiance:0.9.3", "localhost/radiance-vllm:0.9.3"


def started(host: Any) -> dict[str, int]:
    """Return when each container was started, by name."""
    return {container["Names"][0]: container["StartedAt"] for container in containers(host)}


def images(host: Any) -> dict[str, str]:
    """Return the ID of the image that each container runs, by name."""
    return {container["Names"][0]: container["ImageID"] for container in containers(host)}


def restarted(host: Any, before: dict[str, int]) -> list[str]:
    """Return the containers that are not the ones of `before`, in the order of their start."""
    now = started(host)
    assert set(now) == set(before), "every container runs again"
    return sorted((name for name in now if now[name] != before[name]), key=now.__getitem__)


def knob(host: Any, replica: str, name: str) -> str:
    """Return a knob of a running replica."""
    return as_user(host, f"podman exec {replica} printenv {name}")


def unit_file(host: Any, service: str) -> str:
    """Return the text of an installed unit."""
    return as_user(host, f"cat .config/containers/systemd/{service}.container")


def new_image(host: Any, note: str) -> str:
    """Bring another image under the source's name, as a pull would, and return its ID."""
    as_user(host, f"printf 'FROM {SOURCE}\\nLABEL note={note}\\n' | podman build --quiet --tag {SOURCE} -")
    return as_user(host, f"podman image inspect --format '{{{{.Id}}}}' {SOURCE}")


def settle(host: Any, wanted: dict[str, str]) -> None:
    """Wait until the proxy says this of the replicas: its health checks are some seconds apart."""

    def check() -> None:
        assert states(host) == wanted

    wait_until(check, seconds=20, context=lambda: journal(host))


def states(host: Any) -> dict[str, str]:
    """Return what the proxy says of each replica."""
    script = "import json,sys; print(' '.join(r['name']+'='+r['state'] for r in json.load(sys.stdin)))"
    line = as_user(host, f'curl -sS http://127.0.0.1:7769/replicas | python3 -c "{script}"')
    return dict(word.split("=") for word in line.split())


BOTH_UP = dict.fromkeys(REPLICAS, "up")
