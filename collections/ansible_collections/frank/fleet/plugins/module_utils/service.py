"""One Quadlet service: what it runs, why that must change, and whether it is ready."""

from __future__ import annotations

import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.engine_messages import capacity, explain
from ansible_collections.frank.fleet.plugins.module_utils.files import UnsafePathError, read_plain
from ansible_collections.frank.fleet.plugins.module_utils.manifest import Manifest, ManifestError
from ansible_collections.frank.fleet.plugins.module_utils.readiness import NotReadyError, probe
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import SPEC_LABEL, spec_of
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import (
    JOURNAL_READ,
    Podman,
    UserManager,
    running_container,
)

#: A service that ends twice after its start will end again; once may be bad luck (the network at boot, say).
TOLERATED_RESTARTS = 1
#: Seconds until a replica must be ready: about 150 with a warm compile cache, minutes more when it compiles first.
TIMEOUT = 900
#: Seconds between two looks.
INTERVAL = 2
JOURNAL_LINES = 30


class Service:
    """The service that a module's parameters (those of frank.fleet.quadlet_service) name."""

    def __init__(self, module: AnsibleModule):
        self.module, self.params = module, module.params
        name = self.params["name"]
        self.unit = name if name.endswith(".service") else f"{name}.service"
        self.manager, self.podman = UserManager(module), Podman(module)
        ready = self.params["ready"] or {}
        self.timeout, self.interval = ready.get("timeout", TIMEOUT), ready.get("interval", INTERVAL)
        self.since = ""  # where in the journal the present attempt to run begins, so that old errors explain nothing

    def state(self) -> dict[str, str]:
        """The unit's properties that matter here."""
        return self.manager.show(
            self.unit, "Result", "NRestarts", "InvocationID", "InactiveExitTimestamp", "SourcePath"
        )

    def container(self) -> dict | None:
        """The unit's running container."""
        return running_container(self.podman, self.unit)

    def wanted_image(self) -> str | None:
        """ID of the wanted image; fails, before anything is stopped, if it is not in the store."""
        name = self.params["image"]
        found = self.podman.image_id(name) if name else None
        if name and not found and not self.module.check_mode:
            self.module.fail_json(
                msg=f"The image {name} is not in this user's store: run frank.fleet.image_tag for it. "
                f"{self.unit} was left as it is."
            )
        return found

    def reasons(self, state: dict[str, str], image_id: str | None) -> list[str]:
        """Why the service must be started or restarted; empty if it must not."""
        if state["LoadState"] == "not-found":
            if self.module.check_mode:
                return ["it is not installed yet"]
            self.module.fail_json(
                msg=f"systemd knows no {self.unit}: install its unit with frank.fleet.quadlet_units first."
            )
        shown = f"{state['ActiveState']}/{state['SubState']}"
        if state["SubState"] == "auto-restart":
            return ["it is waiting to be restarted after a failure"]
        if state["ActiveState"] not in ("active", "activating", "reloading"):
            result = state.get("Result", "success")
            return [f"it is {shown}" + (f" ({result})" if result != "success" else "")]
        container = self.container()
        if container is None:
            # Between the start of the unit and that of its container; readiness will tell if it ends there.
            return [] if state["ActiveState"] == "activating" else [f"it is {shown} without a running container"]
        return self.differences(container, image_id)

    def differences(self, container: dict, image_id: str | None) -> list[str]:
        """How a running container differs from the installed unit and the wanted image."""
        found = []
        spec, running = self.params["spec"], (container.get("Labels") or {}).get(SPEC_LABEL)
        if spec and running != spec:
            found.append(f"it runs spec {running or 'without a label'}, the unit is {spec}")
        if image_id and container.get("ImageID") != image_id:
            running = str(container.get("ImageID"))
            found.append(f"it runs image {running[:12]}, {self.params['image']} is {image_id[:12]}")
        return found

    def restart(self, before: dict[str, str]) -> None:
        """Start or restart the service and return once systemd has begun the new invocation."""
        self.since = f"@{int(time.time())}"
        # After too many failures systemd refuses any start until this.
        self.manager.attempt("reset-failed", self.unit)
        self.manager.act("restart", "--no-block", self.unit)
        deadline = time.monotonic() + self.params["stop_timeout"]
        while self.state().get("InvocationID") in (before.get("InvocationID"), "", None):
            if time.monotonic() > deadline:
                self.fail(f"did not stop within {self.params['stop_timeout']} s")
            time.sleep(self.interval)

    def wait(self) -> float:
        """Wait until the service is ready; returns the seconds it took."""
        state = self.state()
        begin, restarts = time.monotonic(), int(state.get("NRestarts") or 0)
        self.since = self.since or state.get("InactiveExitTimestamp", "")
        while True:
            missing = self.missing()
            if not missing:
                return round(time.monotonic() - begin, 1)
            state = self.state()
            failures = int(state.get("NRestarts") or 0) - restarts
            if state["ActiveState"] == "failed":
                self.fail("failed")
            # In auto-restart it has ended, and systemd only waits before it starts it again.
            ended = failures or state["SubState"] == "auto-restart"
            if failures > TOLERATED_RESTARTS or (ended and explain(self.journal(JOURNAL_READ))):
                self.fail(f"ended {max(failures, 1)} time(s) since its start")
            if time.monotonic() - begin > self.timeout:
                self.fail(f"is not ready after {self.timeout} s ({missing})")
            time.sleep(self.interval)

    def missing(self) -> str | None:
        """What is not ready yet, None if nothing is."""
        state = self.state()
        if state["ActiveState"] != "active":
            return f"its unit is {state['ActiveState']}/{state['SubState']}"
        ready = self.params["ready"]
        if ready:
            try:
                probe(ready["url"], ready["model"], ready["completion"], ready["api_key"])
            except NotReadyError as error:
                return str(error)
        return None

    def journal(self, lines: int = JOURNAL_LINES) -> str:
        """The end of what the service wrote in the present attempt to run."""
        return self.manager.journal(self.unit, lines, self.since) or self.podman.logs(
            self.unit[: -len(".service")], lines
        )

    def verify(self, container: dict | None, image_id: str | None) -> None:
        """Fail unless what runs now is what was wanted; systemd may have started something else than was installed."""
        different = self.differences(container, image_id) if container else ["none of its containers runs"]
        if different:
            self.fail(f"runs, but not as wanted: {'; '.join(different)}")

    def remember(self, image_id: str | None) -> None:
        """Note in the manifest that the unit became ready, so that a later change that does not can be put back."""
        source = Path(self.state().get("SourcePath") or "/nowhere")
        try:
            text = read_plain(source)
            if text is None or spec_of(text) != self.params["spec"]:
                return  # Changed by hand since the start: what is ready is not what the file says.
            manifest = Manifest(Path(self.params["manifest"]))
            manifest.mark_good(source.name, text, image_id)
            manifest.save()
        except (ManifestError, UnsafePathError, OSError) as error:
            self.module.warn(f"{self.unit} is ready, but that could not be noted: {error}")

    def ledger(self) -> dict[str, float]:
        """The capacity that the engine printed when it started, as far as it did."""
        return capacity(self.journal(JOURNAL_READ))

    def fail(self, what: str) -> None:
        """Fail the module with all that is known about the service."""
        state, journal = self.state(), self.journal()
        meaning = explain(self.journal(JOURNAL_READ))
        result = state.get("Result") or "unknown"
        message = f"{self.unit} {what}. State: {state['ActiveState']}/{state['SubState']}, result {result}."
        if meaning:
            message += f" {meaning}"
        self.module.fail_json(
            msg=f"{message}\nThe end of its journal:\n{journal or '(empty)'}", meaning=meaning, ready=False
        )
