"""Every process of a host is in one cgroup of ours: that says whether it runs, and ends exactly what is ours.

No pid file can go stale, and no pid that the kernel gave to somebody else is ever signalled.
"""

import time
from pathlib import Path

from test_host.common import ToolError

STOP_SECONDS = 10.0
# Below a host's cgroup: the process that boots it. nspawn makes two more, for itself and for the host's processes.
LOOP = "loop"


def hierarchy(mountinfo: str) -> Path:
    """Return where cgroup v2 is mounted, given the text of /proc/self/mountinfo; raise ToolError if nowhere."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[:1] == ["cgroup2"]:
            return Path(before.split()[4])
    raise ToolError("no cgroup v2 is mounted: run `mkdir -p /run/cgroup2 && mount -t cgroup2 cgroup2 /run/cgroup2`")


def cgroup_of(name: str) -> Path:
    """Return the cgroup of a host, which need not exist."""
    return hierarchy(Path("/proc/self/mountinfo").read_text()) / f"frank-fleet-{name}"


def has_controller(controller: str) -> bool:
    """Tell whether a host can limit by this controller; on a machine with v1 hierarchies those hold them."""
    root = hierarchy(Path("/proc/self/mountinfo").read_text())
    return controller in (root / "cgroup.subtree_control").read_text().split()


def is_running(name: str) -> bool:
    """Tell whether the host is up, with the loop that boots it again: what outlived its loop only waits for kill()."""
    return _populated(cgroup_of(name) / LOOP)


def _populated(cgroup: Path) -> bool:
    try:
        return "populated 1" in (cgroup / "cgroup.events").read_text()
    except FileNotFoundError:
        return False


def first_pid(name: str) -> int | None:
    """Return the pid (as this machine sees it) of the host's own PID 1, or None before it has started."""
    try:
        pids = (cgroup_of(name) / "payload/init.scope/cgroup.procs").read_text().split()
    except FileNotFoundError:
        return None
    return int(pids[0]) if pids else None


def kill(name: str) -> None:
    """End every process of the host at once and remove its cgroup; raise ToolError if one outlives 10 s."""
    cgroup = cgroup_of(name)
    if not cgroup.exists():
        return
    deadline = time.monotonic() + STOP_SECONDS
    (cgroup / "cgroup.kill").write_text("1")
    while _populated(cgroup):
        if time.monotonic() > deadline:
            raise ToolError(f"processes of {name} don't end: see {cgroup}/cgroup.procs")
        time.sleep(0.02)
    for folder in sorted(cgroup.rglob("*/"), reverse=True):
        folder.rmdir()
    cgroup.rmdir()
