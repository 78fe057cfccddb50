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
  manifest:
    description: The record of what was installed. A unit of it that became ready is noted there as good.
    type: path
    default: ~/.local/share/frank-fleet/manifest.json
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
    spec: 9d41e0c7aa12bb34
    image: localhost/radiance-vllm:0.9.3
    ready:
      url: http://127.0.0.1:7771
      model: frank-medium
      completion: true
"""

RETURN = r"""
ready:
  description: V(false) if the service was to run as wanted and did not become ready.
  returned: failure to become ready
  type: bool
reasons:
  description: Why the service was (or in check mode would be) started or restarted.
  returned: success
  type: list
  elements: str
  sample: [it runs spec 1f0c3f5de0a1b2c3, the unit is 9d41e0c7aa12bb34]
running:
  description: Whether a container of it ran before; a restart takes that down.
  returned: success
  type: bool
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.service import INTERVAL, TIMEOUT, Service


def main() -> None:
    """Entry point for Ansible."""
    ready_options = {
        "url": {"type": "str", "required": True},
        "model": {"type": "str"},
        "completion": {"type": "bool", "default": False},
        "api_key": {"type": "str", "no_log": True},
        "timeout": {"type": "int", "default": TIMEOUT},
        "interval": {"type": "float", "default": INTERVAL},
    }
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "spec": {"type": "str"},
            "image": {"type": "str"},
            "ready": {"type": "dict", "options": ready_options},
            "manifest": {"type": "path", "default": "~/.local/share/frank-fleet/manifest.json"},
            "stop_timeout": {"type": "int", "default": 600},
            "state": {"type": "str", "choices": ["started"], "default": "started"},
        },
        supports_check_mode=True,
    )
    service = Service(module)
    image_id = service.wanted_image()
    before = service.state()
    reasons = service.reasons(before, image_id)
    running = before["ActiveState"] == "active" and service.container() is not None
    result = {"changed": bool(reasons), "reasons": reasons, "running": running, "image_id": image_id}
    if not module.check_mode:
        if reasons:
            service.restart(before)
        result["waited"] = service.wait()
        result["capacity"] = service.ledger()
    container = service.container()
    if container:
        result["started_at"] = container.get("StartedAt")
    if not module.check_mode:
        service.verify(container, image_id)
        service.remember(image_id)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
