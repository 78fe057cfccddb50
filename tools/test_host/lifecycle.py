"""Bring hosts up and down, reboot them and look at them."""

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from test_host import cgroups, network
from test_host.common import ToolError, locked, say
from test_host.guest import Host, all_hosts, create_root, ssh_command
from test_host.rootfs import remove_tree, rootfs

# A boot takes 2-3 s on an idle two-core machine; this is for a busy one.
BOOT_SECONDS = 90.0
ASK_SECONDS = 5.0


def up(name: str, wanted: str | None, packages: Iterable[str]) -> str:
    """Boot a host, made from the cached root if it is new, and return its address once it has started.

    Safe to repeat; a host that powered off boots again with what is on its disk. Raises ToolError if it can't have
    the wanted address or doesn't come up.
    """
    host = Host(name)
    if cgroups.is_running(name) and host.address and wanted in (None, host.address):
        say(f"host: {name} is already up")
    else:
        base = rootfs(packages)
        with locked("hosts"):
            _start(host, base, wanted)
    _wait_until_started(host)
    return _address(host)


def down(name: str) -> None:
    """End a host and remove every trace of it; one that doesn't exist is fine."""
    host = Host(name)
    with locked("hosts"):
        existed = host.folder.exists() or cgroups.cgroup_of(name).exists()
        cgroups.kill(name)
        network.detach(name)
        remove_tree(host.folder)
        if not network.in_use():
            network.remove_bridge()
    say(f"host: {name} is down" if existed else f"host: {name} did not exist")


def reboot(name: str) -> None:
    """Reboot a host from inside and return once it has started again; raise ToolError if it doesn't."""
    host = Host(name)
    before = boot_id(host)
    if before is None:
        raise ToolError(f"{name} is not up: run `tools/test_host/host up {name}`")
    ask(host, "systemctl reboot")
    _wait_until_started(host, after=before)


def status(host: Host) -> tuple[str, str, str]:
    """Return what a host's systemd says of itself, its boot id and its PID 1 seen from here ("-" for unknown)."""
    if not cgroups.is_running(host.name):
        return "off", "-", "-"
    state = ask(host, "systemctl is-system-running || true") or "unreachable"
    return state, boot_id(host) or "-", str(cgroups.first_pid(host.name) or "-")


def boot_id(host: Host) -> str | None:
    """Return the id of the host's present boot, or None if it doesn't answer."""
    return ask(host, "cat /proc/sys/kernel/random/boot_id")


def ask(host: Host, command: str, seconds: float = ASK_SECONDS) -> str | None:
    """Run a command as root in a host; return what it printed, or None if it failed or didn't answer in time."""
    if not host.address:
        return None
    try:
        done = subprocess.run(
            [*ssh_command(host.address), command], capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _address(host: Host) -> str:
    if not host.address:
        raise ToolError(f"{host.name} doesn't exist: run `tools/test_host/host up {host.name}`")
    return host.address


def _start(host: Host, base: Path, wanted: str | None) -> None:
    if wanted and host.address and wanted != host.address:
        raise ToolError(f"{host.name} has address {host.address}: take it down to give it another")
    if cgroups.is_running(host.name) and not host.address:
        raise ToolError(f"{host.name} was brought up with another cache folder: take it down first")
    if cgroups.is_running(host.name):
        return
    taken = [address for other in all_hosts() if other != host and (address := other.address)]
    address = host.address or network.choose_address(wanted, taken)
    host.remember(address)
    if not host.root.exists():
        create_root(host, base, address)
    say(f"host: booting {host.name} at {address} (usually 5 s)")
    cgroups.kill(host.name)
    network.attach(host.name, address)
    _boot(host)


def _boot(host: Host) -> None:
    """Start the process that boots the host and boots it again; it outlives us."""
    # Unmounts of the outer machine must come through: a namespace file that stays mounted here would live on.
    command = ["unshare", "--mount", "--propagation", "slave", sys.executable, "-B", "-m", "test_host.boot"]
    with host.log.open("w") as log:
        loop = subprocess.Popen(
            [*command, host.name, str(host.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).parents[1],
        )
    while not cgroups.is_running(host.name):
        if loop.poll() is not None:
            raise ToolError(f"{host.name} did not boot: {_last_words(host)}")
        time.sleep(0.02)


def _wait_until_started(host: Host, after: str | None = None) -> None:
    """Wait until systemd in the host has finished starting, in another boot than `after` if given."""
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        if not cgroups.is_running(host.name):
            raise ToolError(f"{host.name} powered off while it started: {_last_words(host)}")
        if boot_id(host) not in (None, after):
            left = deadline - time.monotonic()
            # Its answer is "running" or "degraded" (with a status that says failure): both have started.
            ask(host, "systemctl is-system-running --wait || true", seconds=max(left, ASK_SECONDS))
            return
        time.sleep(0.2)
    raise ToolError(f"{host.name} does not answer ssh after {BOOT_SECONDS:.0f} s: see {host.log}")


def _last_words(host: Host) -> str:
    lines = [line for line in host.log.read_text(errors="replace").splitlines() if line.strip()]
    return f"{lines[-1].strip()} (see {host.log})" if lines else f"nothing in {host.log}"
