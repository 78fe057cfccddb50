"""The reboot-persistence contract: what must hold on a host for its fleet to come back by itself.

Each check takes testinfra's ``host`` (a login as root) and asserts. Nothing here may log in as the service user, or ask
``systemctl --user -M user@``, which does so behind the scenes: that would start the very manager whose start is proven.
"""

import json
import shlex
from collections.abc import Callable
from typing import Any

USER = "dank"
UID = 1000
QUADLET_DIR = f"/home/{USER}/.config/containers/systemd"
REPLICAS = ("frank-medium-a", "frank-medium-b")
SERVICES = (*REPLICAS, "frank-medium-proxy")
ENDPOINT = "http://127.0.0.1:7770"

Host = Any


def as_user(host: Host, command: str) -> str:
    """Run a shell command as the service user without opening a session, and return what it prints."""
    runtime = f"/run/user/{UID}"
    environment = f"env HOME=/home/{USER} PATH=/usr/bin:/bin XDG_RUNTIME_DIR={runtime}"
    bus = f"DBUS_SESSION_BUS_ADDRESS=unix:path={runtime}/bus"
    runner = f"cd /home/{USER} && setpriv --reuid={USER} --regid={USER} --init-groups --reset-env {environment} {bus}"
    return str(host.check_output(f"{runner} sh -c {shlex.quote(command)}"))


def unit_properties(host: Host, service: str, *names: str) -> dict[str, str]:
    """Return properties of one user unit. One at a time: asked for several, systemctl is content with any."""
    text = as_user(host, f"systemctl --user show {service}.service --property={','.join(names)}")
    return dict(line.split("=", 1) for line in text.splitlines())


def containers(host: Host) -> list[dict[str, Any]]:
    """Return the service user's running containers, as ``podman ps`` describes them."""
    return list(json.loads(as_user(host, "podman ps --format json")))


def get(host: Host, path: str) -> Any:
    """Return the JSON answer of the endpoint, whatever its status."""
    return json.loads(host.check_output(f"curl -sS -m 20 {ENDPOINT}{path}"))


def journal(host: Host) -> str:
    """Return the end of the service user's journal, for a failure's message."""
    return str(host.run(f"journalctl _UID={UID} -n 40 --no-pager -o cat").stdout)


def linger_is_on(host: Host) -> None:
    """The user manager starts at boot."""
    assert host.file(f"/var/lib/systemd/linger/{USER}").exists
    assert host.check_output(f"loginctl show-user {USER} --property=Linger") == "Linger=yes"


def unit_files_are_ours(host: Host) -> None:
    """Each unit is a regular file of ours in the user's Quadlet folder, where the generator finds it at boot."""
    for service in SERVICES:
        file = host.file(f"{QUADLET_DIR}/{service}.container")
        assert file.is_file and not file.is_symlink, file.path
        assert file.user == USER
        assert file.content_string.startswith("# Managed by frank-fleet"), file.path


def units_are_generated(host: Host) -> None:
    """Quadlet made the services: a generated unit cannot be enabled, and is-enabled would say yes to anything."""
    for service in SERVICES:
        properties = unit_properties(host, service, "UnitFileState", "FragmentPath")
        assert properties["UnitFileState"] == "generated", service
        assert properties["FragmentPath"].startswith(f"/run/user/{UID}/systemd/generator/"), service


def default_target_wants_the_units(host: Host) -> None:
    """default.target is the only target that a user manager starts at boot."""
    for service in SERVICES:
        assert "default.target" in unit_properties(host, service, "WantedBy")["WantedBy"].split(), service


def units_are_active(host: Host) -> None:
    """All three run."""
    for service in SERVICES:
        properties = unit_properties(host, service, "ActiveState", "SubState")
        assert properties == {"ActiveState": "active", "SubState": "running"}, f"{service}\n{journal(host)}"


def containers_belong_to_units(host: Host) -> None:
    """Whatever runs was started by an active unit: a container started by hand or by compose stays dark at boot."""
    running = containers(host)
    assert {name for container in running for name in container["Names"]} >= set(SERVICES)
    for container in running:
        unit = (container["Labels"] or {}).get("PODMAN_SYSTEMD_UNIT")
        assert unit, f"no unit owns the container {container['Names']}"
        service = unit.removesuffix(".service")
        assert unit_properties(host, service, "ActiveState")["ActiveState"] == "active", unit


def endpoint_names_both_replicas_up(host: Host) -> None:
    """The proxy's health names every replica as able to serve."""
    health = get(host, "/health")
    assert {name: replica["state"] for name, replica in health["replicas"].items()} == dict.fromkeys(REPLICAS, "up")
    assert health["status"] == "ok"


def endpoint_completes(host: Host) -> None:
    """A real completion comes through the endpoint, from the model that the fleet serves."""
    body = json.dumps({"model": "frank-medium", "messages": [{"role": "user", "content": "Say OK"}], "max_tokens": 8})
    answer = host.check_output(
        f"curl -sS -m 30 -i -H 'Content-Type: application/json' -d {shlex.quote(body)} {ENDPOINT}/v1/chat/completions"
    )
    head, _, payload = answer.replace("\r\n", "\n").partition("\n\n")
    completion = json.loads(payload)
    assert completion["model"] == "frank-medium"
    assert completion["choices"][0]["message"]["content"]
    assert any(f"x-fleet-replica: {replica}" in head.lower() for replica in REPLICAS), head


CONTRACT: tuple[Callable[[Host], None], ...] = (
    linger_is_on,
    unit_files_are_ours,
    units_are_generated,
    default_target_wants_the_units,
    units_are_active,
    containers_belong_to_units,
    endpoint_names_both_replicas_up,
    endpoint_completes,
)
