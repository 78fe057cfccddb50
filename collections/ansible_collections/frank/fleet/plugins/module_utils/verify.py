"""What proves that a host serves its fleet and will again after a reboot: one finding a check."""

from __future__ import annotations

import json
import urllib.error
from pathlib import Path
from typing import NamedTuple

from ansible_collections.frank.fleet.plugins.module_utils.files import UnsafePathError, read_plain
from ansible_collections.frank.fleet.plugins.module_utils.http import OPENER
from ansible_collections.frank.fleet.plugins.module_utils.manifest import Manifest, digest
from ansible_collections.frank.fleet.plugins.module_utils.proxy_admin import ProxyAbsentError, ProxyAdmin
from ansible_collections.frank.fleet.plugins.module_utils.readiness import NotReadyError, probe
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import SPEC_LABEL, spec_of
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import Podman, UserManager, running_container

TIMEOUT_SECONDS = 5
UNIT_PROPERTIES = ("UnitFileState", "WantedBy", "NRestarts", "NeedDaemonReload", "Result", "SourcePath")


class Finding(NamedTuple):
    """What one check saw; `fix` says what to do where it does not hold."""

    subject: str
    check: str
    ok: bool
    seen: str
    fix: str = ""


def check_file(manifest: Manifest, folder: Path, unit: str) -> Finding:
    """The unit file is the one that a deploy installed."""
    try:
        text = read_plain(folder / unit)
    except UnsafePathError as error:
        return Finding(Path(unit).stem, "file", False, str(error), "move it away, then deploy")
    known = manifest.digest_of(unit)
    same = text is not None and digest(text) == known
    seen = "as it was installed" if same else "not there" if text is None else "edited since it was installed"
    return Finding(Path(unit).stem, "file", same, seen, "deploy, which puts it back (--check --diff shows the edit)")


def check_unit(manager: UserManager, name: str) -> Finding:
    """The unit runs, as it is on disk, and is started at boot."""
    state = manager.show(f"{name}.service", *UNIT_PROPERTIES)
    shown = f"{state['ActiveState']}/{state['SubState']}"
    wrong = [
        f"it is {shown} ({state.get('Result', '')})" if state["ActiveState"] != "active" else "",
        f"its file state is {state.get('UnitFileState') or 'unknown'}, not generated"
        if state.get("UnitFileState") != "generated"
        else "",
        "it is not wanted by default.target: it stays dark after a reboot"
        if "default.target" not in state.get("WantedBy", "").split()
        else "",
        "systemd has an older file loaded" if state.get("NeedDaemonReload") == "yes" else "",
    ]
    seen = "; ".join(filter(None, wrong))
    restarts = int(state.get("NRestarts") or 0)
    well = f"{shown}, generated, wanted by default.target" + (f", {restarts} restart(s)" if restarts else "")
    return Finding(name, "unit", not seen, seen or well, f"journalctl --user -u {name}, then deploy again")


def check_container(manager: UserManager, podman: Podman, name: str, image: str) -> Finding:
    """What runs is what is installed, from the image behind the tag."""
    container = running_container(podman, f"{name}.service")
    if container is None:
        return Finding(name, "container", False, "no container of it runs", f"systemctl --user restart {name}")
    source = manager.show(f"{name}.service", "SourcePath").get("SourcePath")
    try:
        installed = spec_of(Path(source).read_text(encoding="utf-8")) if source else None
    except OSError:
        installed = None
    spec, wanted = (container.get("Labels") or {}).get(SPEC_LABEL), podman.image_id(image)
    wrong = [
        f"it runs spec {spec}, the installed unit is {installed}" if spec != installed else "",
        f"it runs image {str(container.get('ImageID'))[:12]}, {image} is {(wanted or 'absent')[:12]}"
        if container.get("ImageID") != wanted
        else "",
    ]
    seen = "; ".join(filter(None, wrong))
    return Finding(name, "container", not seen, seen or f"spec {spec}, image {wanted[:12] if wanted else ''}", "deploy")


def check_socket(manager: UserManager, name: str) -> Finding:
    """The endpoint's port is held by systemd, at boot too."""
    state = manager.show(f"{name}.socket", "WantedBy")
    at_boot = "sockets.target" in state.get("WantedBy", "").split()
    seen = f"{state['ActiveState']}/{state['SubState']}, {'' if at_boot else 'not '}wanted by sockets.target"
    return Finding(f"{name}", "socket", state["ActiveState"] == "active" and at_boot, seen, "deploy")


def check_gone(manager: UserManager, name: str) -> Finding:
    """A unit of the other shape is not there."""
    state = manager.show(f"{name}.service")
    gone = state["LoadState"] == "not-found" and state["ActiveState"] == "inactive"
    seen = "not there" if gone else f"{state['LoadState']}, {state['ActiveState']}"
    return Finding(name, "retired", gone, seen, "deploy, which moves it to ~/.AGENTTRASH")


def check_completion(
    subject: str, url: str, model: str, api_key: str | None = None, replicas: list[str] | None = None
) -> Finding:
    """It is healthy, serves the model and completes a prompt; a proxy says which of its `replicas` did."""
    try:
        by = probe(url, model, completion=True, api_key=api_key)
    except NotReadyError as error:
        return Finding(subject, "completion", False, str(error), f"journalctl --user -u {subject}")
    seen = f"{model} at {url.removeprefix('http://')}"
    if replicas is None:
        return Finding(subject, "completion", True, seen)
    seen += f", by {by}" if by else ", and no X-Fleet-Replica says by whom"
    return Finding(subject, "completion", by in replicas, seen, "see what else listens there: ss -ltnp")


def check_backends(name: str, admin: ProxyAdmin, backends: list[dict[str, str]]) -> Finding:
    """The proxy looks for each replica where the inventory has it."""
    wanted = {backend["name"]: backend["url"] for backend in backends}
    try:
        told = {replica: entry["url"] for replica, entry in admin.replicas().items()}
    except (ProxyAbsentError, OSError, ValueError, LookupError, TypeError) as error:
        return Finding(name, "backends", False, f"its admin port does not answer: {error}", f"restart {name}")
    wrong = [
        f"{replica} at {told.get(replica)}, not {url}" for replica, url in wanted.items() if told.get(replica) != url
    ]
    seen = ", ".join(wrong or [f"{replica} at {url}" for replica, url in wanted.items()])
    return Finding(name, "backends", not wrong, seen, "deploy, --tags routing_proxy")


def check_health(name: str, url: str, replicas: list[str], admin_port: int) -> Finding:
    """The proxy knows every replica of the inventory, no other, and finds each up."""
    try:
        told = _replicas(f"{url}/health")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return Finding(name, "health", False, f"{url}/health: {getattr(error, 'reason', error)}", f"restart {name}")
    if sorted(told) != sorted(replicas):
        seen = f"it routes to {', '.join(sorted(told)) or 'nobody'}, the inventory has {', '.join(sorted(replicas))}"
        return Finding(name, "health", False, seen, "deploy, --tags routing_proxy")
    bad = {replica: state for replica, state in sorted(told.items()) if state["state"] != "up"}
    seen = ", ".join(f"{replica} {state['state']} ({state['reason']})" for replica, state in bad.items())
    fix = " ".join(
        f"curl -X POST http://127.0.0.1:{admin_port}/undrain/{replica};"
        if state["state"] == "draining"
        else f"journalctl --user -u {replica};"
        for replica, state in bad.items()
    )
    return Finding(name, "health", not bad, seen or f"{', '.join(sorted(replicas))} up", fix.rstrip(";"))


def _replicas(url: str) -> dict[str, dict[str, str]]:
    """State and reason of each replica, from an answer of any status. Raises what taking it apart may raise."""
    try:
        with OPENER.open(url, timeout=TIMEOUT_SECONDS) as response:
            content = json.load(response)
    except urllib.error.HTTPError as error:
        content = json.load(error)
    found = content["replicas"].items()
    return {replica: {"state": state["state"], "reason": state["reason"]} for replica, state in found}


def line_of(finding: Finding) -> str:
    """One line to read."""
    fix = f"   -> {finding.fix}" if not finding.ok and finding.fix else ""
    return f"{'ok' if finding.ok else 'FAIL':4}  {finding.subject:20}  {finding.check:10}  {finding.seen}{fix}"
