"""Is the software there that rootless Quadlet units need?"""

from __future__ import annotations

import re

from ansible_collections.frank.fleet.plugins.module_utils.generator import LOCATIONS
from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report

#: The newest key in our units is [Quadlet] DefaultDependencies (5.3); 5.4 is the oldest podman that they were run on.
PODMAN = (5, 4)
#: What systemd itself runs at boot and at daemon-reload.
USER_GENERATORS = tuple(
    f"{folder}/podman-user-generator"
    for folder in (
        "/usr/lib/systemd/user-generators",
        "/usr/local/lib/systemd/user-generators",
        "/etc/systemd/user-generators",
    )
)
#: Settings of podman, each overriding those before it.
SETTINGS = ("/usr/share/containers", "/etc/containers", "~/.config/containers")
PACKAGES = {"newuidmap": "uidmap", "newgidmap": "uidmap", "getsubids": "uidmap", "flock": "util-linux"}
USES = {
    "newuidmap": "rootless podman maps its users with it",
    "newgidmap": "rootless podman maps its groups with it",
    "getsubids": "a deploy asks it which subordinate ids the user has",
    "flock": "every unit takes a lock with it before its first podman call",
}


def version_of(text: str) -> tuple[int, ...] | None:
    """The numbers of a version in a text (`podman version 5.10.0-dev` -> (5, 10, 0)), None where there is none."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number) for number in found.groups(default="0")) if found else None


def check_software(host: Host, user: Identity, report: Report) -> None:
    """Look at systemd, podman, its generator and runtime, and the small programs that units and roles call."""
    if not host.path("/run/systemd/system").is_dir():
        report.fault(
            "systemd is not the init of this host",
            "/run/systemd/system",
            "the fleet runs as units of a user manager, which systemd starts at boot",
            "boot this host with systemd (in a container: start /sbin/init as its first process)",
        )
    if not any(host.path(f"{folder}/systemd/user/dbus.socket").exists() for folder in ("/usr/lib", "/etc", "/lib")):
        report.fault(
            "the user manager has no message bus",
            "/usr/lib/systemd/user/dbus.socket",
            "systemctl --user cannot reach a manager without one",
            "sudo apt-get install dbus-user-session",
        )
    for program, package in PACKAGES.items():
        if not host.program(program):
            report.fault(f"{program} is not installed", "PATH", USES[program], f"sudo apt-get install {package}")
    _check_podman(host, user, report)


def _check_podman(host: Host, user: Identity, report: Report) -> None:
    if not host.program("podman"):
        report.fault(
            "podman is not installed",
            "PATH",
            "engines and proxy are containers",
            "sudo apt-get install podman crun uidmap dbus-user-session",
        )
        return
    answer = host.run("podman", "--version")[1]
    version = version_of(answer)
    shown = ".".join(map(str, version)) if version else f"unreadable ({answer!r})"
    if version is None or version[:2] < PODMAN:
        report.fault(
            f"podman is {shown}, needed is {'.'.join(map(str, PODMAN))} or newer",
            host.program("podman") or "podman",
            "an older generator does not know keys of our units and drops a whole unit for one it does not know",
            "upgrade podman: Debian 13 and Fedora 41 have 5.4 or newer",
        )
    generator = next((path for path in USER_GENERATORS if host.path(path).exists()), None)
    if not generator or not any(host.path(path).exists() for path in LOCATIONS):
        report.fault(
            "podman's Quadlet generator is not installed",
            generator or USER_GENERATORS[0],
            "unit files would lie there and systemd would know no service of them",
            "sudo apt-get install --reinstall podman (a podman built from source: make install, not make binaries)",
        )
    runtime = runtime_of(host, user)
    if runtime != "crun":
        report.fault(
            f"podman would run containers with {runtime or 'no runtime at all'}",
            "runtime= in containers.conf" if runtime else "PATH",
            "only crun can keep the groups that open the GPU's device files (GroupAdd=keep-groups)",
            'sudo apt-get install crun, and let no containers.conf say anything but runtime = "crun"',
        )
    report.row("podman", f"{shown}, runtime {runtime}")


def runtime_of(host: Host, user: Identity) -> str | None:
    """Name of the OCI runtime that podman takes for this user."""
    chosen = None
    for folder in (setting.replace("~", user.home, 1) for setting in SETTINGS):
        drop_ins = sorted(host.path(f"{folder}/containers.conf.d").glob("*.conf"))
        for file in (f"{folder}/containers.conf", *(f"{folder}/containers.conf.d/{path.name}" for path in drop_ins)):
            for value in re.findall(r"""^\s*runtime\s*=\s*["']([^"']+)["']""", host.read(file), re.MULTILINE):
                chosen = value.rsplit("/", 1)[-1]
    installed = next((name for name in ("crun", "runc") if host.program(name)), None)
    return chosen if chosen and chosen != "crun" else installed
