"""Stands in for systemctl, podman, journalctl, loginctl and the Quadlet generator, whichever name it is called by.

Reads and writes the state that `fakehost.py` describes, and records each call.
"""

import json
import os
import sys
from pathlib import Path

ROOT = Path(os.environ["FAKE_HOST"])


def main():
    name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    with (ROOT / "calls").open("a") as calls:
        calls.write(json.dumps([name, *arguments]) + "\n")
    state = json.loads((ROOT / "state.json").read_text())
    line = " ".join([name, *arguments])
    for beginning, words in state["fail"].items():
        if line.startswith(beginning):
            sys.exit(words)
    code = {"systemctl": systemctl, "podman": podman, "journalctl": journalctl, "loginctl": loginctl}[name](
        state, arguments
    )
    (ROOT / "state.json").write_text(json.dumps(state))
    sys.exit(code)


def systemctl(state, arguments):
    if "--machine" in arguments:
        return 0 if Path(state["bus"]).exists() else 1
    verb, *names = [word for word in arguments if not word.startswith("-")]
    if verb == "show":
        return show(state, arguments, names[-1])
    if verb == "daemon-reload":
        reload(state)
    elif verb in ("start", "restart") and names[0].startswith("user@"):
        Path(state["bus"]).parent.mkdir(parents=True, exist_ok=True)
        Path(state["bus"]).touch()
    elif verb in ("start", "restart"):
        start(state, names[0])
    elif verb == "stop":
        stop(state, names[0])
    elif verb == "reset-failed":
        return reset_failed(state, names[0])
    return 0


def show(state, arguments, name):
    if name == "--property=MainPID" or "--property=MainPID" in arguments:
        print(state["manager_pid"])
        return 0
    unit = state["units"].get(name, {})
    after = unit.get("script", [])
    if after:  # What the unit turns into while it is being watched: one step for each look.
        unit.update(after.pop(0))
        if "container" in unit:
            replace_container(state, name, unit.pop("container"))
    wanted = arguments[arguments.index("--property") + 1].split(",")
    defaults = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "NeedDaemonReload": "no"}
    for key in wanted:
        value = {**defaults, **unit}.get(key)
        if value is not None:
            print(f"{key}={value}")
    return 0


def reload(state):
    on_disk = {path.stem + ".service" for path in Path(state["path"]).rglob("*.container")}
    on_disk |= {path.name for path in (Path(state["path"]).parents[1] / "systemd/user").glob("*.socket")}
    for name in on_disk - set(state["ignored"]):
        state["units"].setdefault(name, {}).update(LoadState="loaded", NeedDaemonReload="no")
    for name, unit in state["units"].items():
        if name not in on_disk:
            unit["LoadState"] = "not-found"


def start(state, name):
    unit = state["units"][name]
    unit.update(ActiveState="active", SubState="running", Result="success", NRestarts="0")
    unit["InvocationID"] = unit.get("InvocationID", "") + "+"
    unit.update(unit.pop("on_start", {}))
    if unit["ActiveState"] == "active":
        replace_container(state, name, unit.get("starts", {}))


def replace_container(state, name, fields):
    remove_containers(state, name)
    container = {"Id": "c0ffee" + name, "State": "running", "StartedAt": 1790000000, **fields}
    container.setdefault("Labels", {})["PODMAN_SYSTEMD_UNIT"] = name
    state["containers"].append(container)


def remove_containers(state, name):
    state["containers"] = [found for found in state["containers"] if not belongs(found, name)]


def stop(state, name):
    unit = state["units"].setdefault(name, {})
    if unit.get("unstoppable"):
        return
    failed = unit.get("ActiveState") == "activating"
    unit.update(ActiveState="failed" if failed else "inactive", SubState="failed" if failed else "dead")
    if not failed:  # Like systemd, which does not run ExecStop= for a unit that never got to be active.
        remove_containers(state, name)


def reset_failed(state, name):
    unit = state["units"].get(name)
    if unit is None:
        print(f"Failed to reset failed state of unit {name}: Unit {name} not loaded.", file=sys.stderr)
        return 1
    if unit.get("ActiveState") == "failed":
        unit.update(ActiveState="inactive", SubState="dead")
    return 0


def belongs(container, name):
    return container.get("Labels", {}).get("PODMAN_SYSTEMD_UNIT") == name


def podman(state, arguments):
    if arguments[:2] == ["image", "inspect"]:
        if arguments[-1] not in state["images"]:
            sys.exit(f"Error: {arguments[-1]}: image not known")
        print(state["images"][arguments[-1]])
    elif arguments[0] == "ps":
        label = arguments[arguments.index("--filter") + 1].removeprefix("label=PODMAN_SYSTEMD_UNIT=")
        print(json.dumps([found for found in state["containers"] if belongs(found, label)]))
    elif arguments[0] == "rm":
        gone = [found for found in state["containers"] if found["Id"] == arguments[-1]]
        state["containers"] = [found for found in state["containers"] if found not in gone]
        for found in gone:
            unit = state["units"].get(found["Labels"]["PODMAN_SYSTEMD_UNIT"], {})
            if unit.get("ActiveState") == "active" and not unit.get("unstoppable"):
                # systemd notices a little later.
                unit.update(ActiveState="deactivating", SubState="stop-sigterm")
                unit["script"] = [{}, {"ActiveState": "failed", "SubState": "failed"}]
    elif arguments[0] == "pull":
        if arguments[-1] not in state["registry"]:
            sys.exit(f"Error: initializing source docker://{arguments[-1]}: manifest unknown")
        state["images"][arguments[-1]] = state["registry"][arguments[-1]]
    elif arguments[0] == "load":
        state["images"].update(json.loads(Path(arguments[-1]).read_text()))
    elif arguments[0] == "tag":
        state["images"][arguments[2]] = arguments[1]
    elif arguments[0] == "info":
        print(ROOT)
    elif arguments[0] == "logs":
        print(state["logs"])
    return 0


def journalctl(state, arguments):
    print(state["journal"] or "-- No entries --")
    return 0


def loginctl(state, arguments):
    if arguments[0] == "enable-linger":
        Path(state["linger"]).mkdir(parents=True, exist_ok=True)
        (Path(state["linger"]) / arguments[1]).touch()
        state["lingers"] = True
    elif not state["lingers"]:
        sys.exit("Failed to get user: User ID 1000 is not logged in or lingering")
    else:
        print("Linger=yes")
    return 0


main()
