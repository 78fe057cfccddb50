"""Boot one host and boot it again whenever it reboots; runs as a process of its own until the host powers off.

Started as `unshare --mount python3 -m test_host.boot NAME ROOT`, so that every mount below disappears with it.
"""

import os
import subprocess
import sys
from pathlib import Path

from test_host.cgroups import LOOP, cgroup_of
from test_host.common import run
from test_host.network import namespace_path

# nspawn with --keep-unit ends with this status when the guest asked for a reboot.
REBOOT_STATUS = 133
PRIVATE = Path("/run/systemd")


def main(name: str, root: str) -> int:
    """Prepare this mount namespace and run the host until it powers off; return nspawn's exit status."""
    _unify_cgroups()
    cgroup = cgroup_of(name)
    # Not in the host's cgroup itself: one that hands out controllers may hold no process.
    _enter(cgroup / LOOP)
    _make_devices()
    environment = {
        **os.environ,
        "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
        # Rootless Podman sets net.ipv4.ping_group_range, which is read-only otherwise.
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
    }
    while True:
        status = subprocess.call(_nspawn(name, root), env=environment, preexec_fn=lambda: _enter(cgroup))
        if status != REBOOT_STATUS:
            return status


def _unify_cgroups() -> None:
    """Put cgroup v2 where a guest's systemd wants it, if this machine still has v1 there."""
    if run("stat", "--file-system", "--format=%T", "/sys/fs/cgroup").strip() != "cgroup2fs":
        run("umount", "--recursive", "/sys/fs/cgroup")
        run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")


def _enter(cgroup: Path) -> None:
    cgroup.mkdir(parents=True, exist_ok=True)
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


def _make_devices() -> None:
    """Make device nodes that unprivileged users may open, on a tmpfs that hides the outer /run/systemd.

    nspawn keeps its own files there too, and stops at a reboot if that is on a disk.
    """
    PRIVATE.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", PRIVATE)
    run("mknod", "--mode=666", PRIVATE / "fuse", "c", "10", "229")
    run("mknod", "--mode=666", PRIVATE / "tun", "c", "10", "200")


def _nspawn(name: str, root: str) -> list[str]:
    return [
        *("systemd-nspawn", "--boot", "--quiet", f"--directory={root}", f"--machine={name}"),
        *("--register=no", "--keep-unit", f"--network-namespace-path={namespace_path(name)}"),
        *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
        # Nested containers: all capabilities, and the system calls that nspawn filters and crun wants.
        *("--capability=all", "--system-call-filter=@keyring bpf"),
        *(f"--bind={PRIVATE}/fuse:/dev/fuse", f"--bind={PRIVATE}/tun:/dev/net/tun"),
    ]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
