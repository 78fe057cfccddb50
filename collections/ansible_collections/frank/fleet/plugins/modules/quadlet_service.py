#!/usr/bin/python
"""Module: have a Quadlet service run from the installed unit and the wanted image, and wait until it is ready."""

from __future__ import annotations

DOCUMENTATION = r"""
module: quadlet_service
author: frank-fleet developers
version_added: 1.0.0
short_description: Restart a Quadlet service only if what runs differs, and wait until it is ready
description:
  - Decides from state, never from what an earlier task changed. The service is restarted if it does not run, if the
    running container carries another spec label than O(spec), or if it runs another image than the one behind O(image).
    A play that was killed after installing a unit is therefore finished by the next run.
  - Waits until the service is ready, also when nothing was restarted, as it may still be loading.
  - Fails with the unit's state, the end of its journal and, for messages of vLLM that are known, what they mean.
  - Run it as the service user, with E(XDG_RUNTIME_DIR) in the environment.
options:
  name:
    description: Name of the service, with or without C(.service).
    type: str
    required: true
  spec:
    description: Value that the label C(io.frank-fleet.spec) of the running container must have.
    type: str
  image:
    description: Image whose ID the running container must have. It must be in the user's store.
    type: str
  ready:
    description: When the service counts as ready. Without it, once its unit is active.
    type: dict
    suboptions:
      url:
        description: Scheme, host and port; C(/health) there must answer 200.
        type: str
        required: true
      model:
        description: Model that C(/v1/models) must list.
        type: str
      completion:
        description: Whether one completion of a few tokens must succeed. Needs O(ready.model).
        type: bool
        default: false
      api_key:
        description: Key for the endpoint, if it wants one.
        type: str
      timeout:
        description:
          - Seconds from the start of the service. A replica takes about 150 s with a warm compile cache and three
            minutes and more without.
        type: int
        default: 900
      interval:
        description: Seconds between two looks.
        type: float
        default: 2
  stop_timeout:
    description: Seconds to wait for the old container to end, in a restart. Running generations may need minutes.
    type: int
    default: 600
  state:
    description: The wanted state.
    type: str
    choices: [started]
    default: started
attributes:
  check_mode:
    support: full
    description: Tells whether and why the service would be restarted; needs neither Podman nor a user manager.
  diff_mode:
    support: none
seealso:
  - module: frank.fleet.quadlet_units
"""

EXAMPLES = r"""
- name: Have the replica run from its unit
  become: true
  become_user: dank
  environment:
    XDG_RUNTIME_DIR: /run/user/1000
  frank.fleet.quadlet_service:
    name: frank-medium-a
    spec: "{{ vllm_replica_unit_a | frank.fleet.spec_of }}"
    image: localhost/radiance-vllm:0.9.3
    ready:
      url: http://127.0.0.1:7771
      model: frank-medium
      completion: true
"""

RETURN = r"""
reasons:
  description: Why the service was (or in check mode would be) started or restarted.
  returned: success
  type: list
  elements: str
  sample: [it runs spec 1f0c3f5de0a1b2c3, the unit is 9d41e0c7aa12bb34]
image_id:
  description: ID of the image behind O(image).
  returned: when O(image) is given and present
  type: str
started_at:
  description: When the running container was started, in seconds since 1970.
  returned: when a container runs
  type: int
waited:
  description: Seconds it took until the service was ready.
  returned: success, not in check mode
  type: float
capacity:
  description: The engine's own ledger from its journal (C(kv_cache_tokens), C(max_concurrency)), as far as printed.
  returned: success, not in check mode
  type: dict
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.engine_messages import capacity, explain
from ansible_collections.frank.fleet.plugins.module_utils.readiness import NotReadyError, probe
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import SPEC_LABEL
from ansible_collections.frank.fleet.plugins.module_utils.user_scope import Podman, UserManager, unit_containers

#: A service that ends twice after its start will end again; once may be bad luck (the network at boot, say).
TOLERATED_RESTARTS = 1
JOURNAL_LINES = 30
#: Enough to reach back to the start of an engine, whose capacity ledger or first error is far from the end.
WHOLE_START = 5000


class Service:
    """One Quadlet service: what it runs, why that must change, and whether it is ready."""

    def __init__(self, module: AnsibleModule):
        self.module, self.params = module, module.params
        name = self.params["name"]
        self.unit = name if name.endswith(".service") else f"{name}.service"
        self.manager, self.podman = UserManager(module), Podman(module)
        self.since = ""  # where in the journal the present attempt to run begins, so that old errors explain nothing

    def state(self) -> dict[str, str]:
        """The unit's properties that matter here."""
        return self.manager.show(self.unit, "Result", "NRestarts", "InvocationID", "InactiveExitTimestamp")

    def container(self) -> dict | None:
        """The unit's running container."""
        running = [found for found in unit_containers(self.podman, self.unit) if found.get("State") == "running"]
        return running[0] if running else None

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
            time.sleep(self.interval())

    def wait(self) -> float:
        """Wait until the service is ready; returns the seconds it took."""
        state = self.state()
        begin, restarts = time.monotonic(), int(state.get("NRestarts") or 0)
        self.since = self.since or state.get("InactiveExitTimestamp", "")
        timeout = (self.params["ready"] or {}).get("timeout") or 900
        while True:
            missing = self.missing()
            if not missing:
                return round(time.monotonic() - begin, 1)
            state = self.state()
            failures = int(state.get("NRestarts") or 0) - restarts
            if state["ActiveState"] == "failed":
                self.fail("failed")
            if failures > TOLERATED_RESTARTS or (failures and explain(self.journal(WHOLE_START))):
                self.fail("fails again and again")
            if time.monotonic() - begin > timeout:
                self.fail(f"is not ready after {timeout} s ({missing})")
            time.sleep(self.interval())

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

    def interval(self) -> float:
        """Seconds between two looks at the service."""
        return (self.params["ready"] or {}).get("interval") or 2

    def journal(self, lines: int = JOURNAL_LINES) -> str:
        """The end of what the service wrote in the present attempt to run."""
        return self.manager.journal(self.unit, lines, self.since) or self.podman.logs(
            self.unit[: -len(".service")], lines
        )

    def fail(self, what: str) -> None:
        """Fail the module with all that is known about the service."""
        state, journal = self.state(), self.journal()
        meaning = explain(self.journal(WHOLE_START))
        result = state.get("Result") or "unknown"
        message = f"{self.unit} {what}. State: {state['ActiveState']}/{state['SubState']}, result {result}."
        if meaning:
            message += f" {meaning}"
        self.module.fail_json(msg=f"{message}\nThe end of its journal:\n{journal or '(empty)'}", meaning=meaning)


def main() -> None:
    """Entry point for Ansible."""
    ready_options = {
        "url": {"type": "str", "required": True},
        "model": {"type": "str"},
        "completion": {"type": "bool", "default": False},
        "api_key": {"type": "str", "no_log": True},
        "timeout": {"type": "int", "default": 900},
        "interval": {"type": "float", "default": 2},
    }
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "spec": {"type": "str"},
            "image": {"type": "str"},
            "ready": {"type": "dict", "options": ready_options},
            "stop_timeout": {"type": "int", "default": 600},
            "state": {"type": "str", "choices": ["started"], "default": "started"},
        },
        supports_check_mode=True,
    )
    service = Service(module)
    image_id = service.wanted_image()
    before = service.state()
    reasons = service.reasons(before, image_id)
    result = {"changed": bool(reasons), "reasons": reasons, "image_id": image_id}
    if not module.check_mode:
        if reasons:
            service.restart(before)
        result["waited"] = service.wait()
        result["capacity"] = capacity(service.journal(WHOLE_START))
    container = service.container()
    if container:
        result["started_at"] = container.get("StartedAt")
    if container and not module.check_mode:
        different = service.differences(container, image_id)
        if different:
            service.fail(f"was restarted and still differs: {'; '.join(different)}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
