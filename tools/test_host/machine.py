"""What the outer machine must bring: root, a few packages, a kernel that allows rootless containers."""

import os
import shutil
import subprocess
from pathlib import Path

from test_host.common import ToolError, say

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What is looked for, and the package (Debian and Ubuntu) that brings it.
NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    KEYRING: "debian-archive-keyring",
}
# Ubuntu 24.04 and later forbid user namespaces to unprivileged processes, so no rootless container starts on them.
USERNS_RESTRICTION = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def missing_packages() -> list[str]:
    """Return the packages that `up` needs and this machine hasn't, sorted."""
    return sorted({package for thing, package in NEEDED.items() if not _present(thing)})


def _present(thing: str) -> bool:
    return Path(thing).exists() if thing.startswith("/") else shutil.which(thing) is not None


def userns_restricted() -> bool:
    """Tell whether the kernel refuses user namespaces to unprivileged processes."""
    return USERNS_RESTRICTION.exists() and USERNS_RESTRICTION.read_text().strip() != "0"


def require_root() -> None:
    """Raise ToolError unless we are root."""
    if os.geteuid() != 0:
        raise ToolError("not root: namespaces, mounts and nspawn need it; run this again with sudo")


def require_ready() -> None:
    """Raise ToolError naming the first thing that keeps this machine from running a host."""
    require_root()
    if packages := missing_packages():
        names = " ".join(packages)
        raise ToolError(f"missing packages: {names}; run `tools/test_host/host install` or `apt-get install {names}`")
    if userns_restricted():
        raise ToolError(
            "this kernel forbids rootless containers; run `tools/test_host/host install` or "
            "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
        )


def install() -> None:
    """Install what is missing, without questions; safe to run twice."""
    require_root()
    packages = missing_packages()
    if packages:
        if not shutil.which("apt-get"):
            raise ToolError(f"no apt-get here: install {' '.join(packages)} with this machine's own package manager")
        say(f"host: installing {' '.join(packages)} (usually 15 s)")
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *packages)
    if userns_restricted():
        say("host: setting kernel.apparmor_restrict_unprivileged_userns=0 until the next boot")
        USERNS_RESTRICTION.write_text("0\n")
    if not packages:
        say("host: nothing to install")


def _apt_get(*words: str) -> None:
    """Run apt-get non-interactively; it waits for another apt's lock instead of failing."""
    command = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *words]
    done = subprocess.run(
        command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise ToolError(f"`{' '.join(command)}` failed: {reason}")
