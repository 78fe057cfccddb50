#!/usr/bin/python
"""Module: take a replica out of the routing proxy's rotation, or put it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: proxy_replica
author: frank-fleet developers
version_added: 1.1.0
short_description: Drain a replica in the routing proxy, or have it serve again
description:
  - Run it on the proxy's host, since the admin port listens on loopback only.
  - With O(state=drained), the proxy sends the replica nothing new, and the module waits until what runs there has
    ended. After O(timeout) it goes on all the same and warns of the requests that a stop would cut.
  - Refuses to drain the last replica that serves, unless O(allow_outage).
  - With O(state=serving), ends the drain and waits until the proxy has found the replica up.
  - A proxy that does not answer (down, or not installed yet) and a replica that it does not know are no errors,
    since then nobody is served through it; RV(known) tells.
options:
  admin:
    description: Scheme, host and port of the admin port.
    type: str
    default: http://127.0.0.1:7769
  name:
    description: The replica, as the proxy names it.
    type: str
    required: true
  state:
    description: The wanted state.
    type: str
    choices: [drained, serving]
    required: true
  port:
    description:
      - Port that the replica has in the inventory. A proxy that has another one finds the replica up only once it is
        deployed itself, and O(state=serving) does not wait for that.
    type: int
  timeout:
    description:
      - Seconds to wait for running requests to end, or for the proxy to find the replica up.
      - With V(0) nothing is waited for, and a replica that is not up is no failure.
    type: int
    default: 300
  going:
    description: Other replicas that are about to go as well, and so do not count as serving.
    type: list
    elements: str
    default: []
  allow_outage:
    description: Drain the last replica that serves, too.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Asks the proxy, tells what would be done, and only warns where a drain would be refused.
  diff_mode:
    support: none
seealso:
  - module: frank.fleet.quadlet_service
"""

EXAMPLES = r"""
- name: Let the running generations of a replica finish
  frank.fleet.proxy_replica:
    name: frank-medium-a
    state: drained
  delegate_to: dankserver
"""

RETURN = r"""
known:
  description: Whether a proxy answered and knows the replica.
  returned: success
  type: bool
serving:
  description: Whether the proxy sends it requests now.
  returned: success
  type: bool
in_flight:
  description: Requests that were still running there at the end of the wait.
  returned: when RV(known)
  type: int
waited:
  description: Seconds it took.
  returned: when RV(known), not in check mode
  type: float
"""

import time
import urllib.error

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.proxy_admin import (
    LastServingError,
    ProxyAbsentError,
    ProxyAdmin,
)

PAUSE_SECONDS = 0.2
#: What the proxy calls a replica that gets requests.
SERVING = "up"


def drain(module: AnsibleModule, proxy: ProxyAdmin, name: str) -> dict:
    """Drain, and wait until nothing runs there; returns the last that the proxy said of the replica."""
    proxy.drain(name, module.params["allow_outage"])
    last = wait(proxy, name, module.params["timeout"], lambda replica: replica["in_flight"] == 0)
    if last["in_flight"]:
        module.warn(
            f"{name} still runs {last['in_flight']} request(s) after {module.params['timeout']} s of waiting; "
            "they are cut if it is stopped now."
        )
    return last


def serve(module: AnsibleModule, proxy: ProxyAdmin, name: str) -> dict:
    """End the drain, and wait until the proxy's health check has found the replica up."""
    proxy.undrain(name)
    moved = module.params["port"] and not proxy.replica(name)["url"].endswith(f":{module.params['port']}")
    if moved:
        module.warn(f"The proxy still has another address for {name}, and learns the new one when it is deployed.")
    seconds = 0 if moved else module.params["timeout"]
    last = wait(proxy, name, seconds, lambda replica: replica["state"] == SERVING)
    if seconds and last["state"] != SERVING:
        module.fail_json(
            msg=f"The proxy does not reach {name} after {module.params['timeout']} s: it is {last['state']} "
            f"({last['reason']}). Its address in the inventory is {last['url']}."
        )
    return last


def wait(proxy: ProxyAdmin, name: str, seconds: float, met) -> dict:
    """Ask the proxy about a replica until a condition is met or the time is over; returns its last answer."""
    deadline = time.monotonic() + seconds
    while True:
        replica = proxy.replica(name)
        if replica is None:
            raise ProxyAbsentError(f"it knows no {name} any more")
        if met(replica) or time.monotonic() > deadline:
            return replica
        time.sleep(PAUSE_SECONDS)


def is_drained(replica: dict) -> bool:
    """True if an operator (or a deploy) has drained the replica, also while it is down."""
    return replica["state"] == "draining" or replica["reason"].endswith(", draining")


def seen(replica: dict) -> dict:
    """What the module returns of a replica."""
    return {"serving": replica["state"] == SERVING, "in_flight": replica["in_flight"]}


def is_last(name: str, going: list[str], replicas: dict[str, dict]) -> bool:
    """True if this one serves, and without it and those that go as well none would."""
    serving = {other for other, replica in replicas.items() if replica["state"] == SERVING}
    return name in serving and not serving - {name, *going}


def refusal(name: str) -> str:
    """Why a drain is refused, and what to do."""
    return (
        f"{name} is the last replica that serves, and it would have to be taken down: it was left as it is. Bring "
        "another one up first (systemctl --user start NAME, or see why it is down; one that is new in the inventory "
        "serves once the proxy knows it: --tags routing_proxy), or accept that nobody is served until it is back: "
        "-e llm_allow_outage=true"
    )


def main() -> None:
    """Entry point for Ansible."""
    module = AnsibleModule(
        argument_spec={
            "admin": {"type": "str", "default": "http://127.0.0.1:7769"},
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "serving"], "required": True},
            "port": {"type": "int"},
            "timeout": {"type": "int", "default": 300},
            "going": {"type": "list", "elements": "str", "default": []},
            "allow_outage": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    name, draining = module.params["name"], module.params["state"] == "drained"
    proxy, begin = ProxyAdmin(module.params["admin"]), time.monotonic()
    try:
        replicas = proxy.replicas()
        if name not in replicas:
            module.exit_json(changed=False, known=False, serving=False)
        changed = is_drained(replicas[name]) != draining
        alone = draining and is_last(name, module.params["going"], replicas) and not module.params["allow_outage"]
        if module.check_mode:
            if alone:
                module.warn(refusal(name))
            module.exit_json(changed=changed, known=True, **seen(replicas[name]))
        if alone:
            raise LastServingError(name)
        last = (drain if draining else serve)(module, proxy, name)
    except ProxyAbsentError:
        module.exit_json(changed=False, known=False, serving=False)
    except LastServingError:
        module.fail_json(msg=refusal(name))
    except (urllib.error.HTTPError, ValueError, LookupError, TypeError) as error:
        module.fail_json(msg=f"{module.params['admin']} does not answer as the proxy's admin port does: {error!r}")
    module.exit_json(changed=changed, known=True, **seen(last), waited=round(time.monotonic() - begin, 1))


if __name__ == "__main__":
    main()
