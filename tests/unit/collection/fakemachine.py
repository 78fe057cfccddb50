"""A machine for the preflight's tests: a folder for its files, and answers for what is no file."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Any

from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_user import identity_of

DANK = pwd.struct_passwd(("dank", "x", 1000, 1000, "", "/home/dank", "/bin/bash"))
PROGRAMS = ("podman", "crun", "newuidmap", "newgidmap", "getsubids", "flock", "systemctl")
GENERATOR = "/usr/lib/systemd/user-generators/podman-user-generator"
FILES = {
    "/run/systemd/system/keep": "",
    "/usr/lib/systemd/user/dbus.socket": "",
    GENERATOR: "",
    "/usr/libexec/podman/quadlet": "",
    "/home/dank/keep": "",
    "/etc/subuid": "dank:100000:65536\n",
    "/etc/subgid": "dank:100000:65536\n",
    "/proc/cmdline": "quiet iommu=pt\n",
    "/proc/meminfo": "MemTotal:       65536000 kB\n",
    "/dev/kfd": "",
    "/dev/dri/renderD128": "",
    "/dev/dri/renderD129": "",
    "/models/target/config.json": "{}",
    "/models/drafter/config.json": "{}",
    "/patches/patch.py": "",
    "/r4d/r4d.so": "",
}


class FakeMachine(Host):
    """Sound until a test breaks something of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(None, root)
        self.programs = set(PROGRAMS)
        self.answers = {"podman --version": "podman version 5.4.2"}
        self.accounts = {"dank": DANK}
        self.groups = {"dank": 1000, "render": 105, "video": 44}
        self.members = {"dank": {1000, 105, 44}}
        self.forbidden: set[str] = set()
        self.free = 500.0
        self.owners: dict[int, int] = {}
        for path, text in FILES.items():
            self.write(path, text)

    def write(self, path: str, text: str) -> Path:
        """Write a file, with its folders."""
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def remove(self, *paths: str) -> None:
        """Take files away."""
        for path in paths:
            self.path(path).unlink()

    def process(self, pid: int, comm: str, cgroup: str = "", status: str = "", socket: str = "") -> None:
        """Have a process run; `socket` is the inode of one that it holds."""
        for name, text in (("comm", comm), ("cgroup", cgroup), ("status", status)):
            self.write(f"/proc/{pid}/{name}", f"{text}\n")
        descriptors = self.path(f"/proc/{pid}/fd")
        descriptors.mkdir()
        (descriptors / "0").symlink_to("/dev/null")
        (descriptors / "3").symlink_to(f"socket:[{socket}]")

    def manager(self, groups: str) -> None:
        """Have dank's manager run with these supplementary groups."""
        self.answers["systemctl show --property=MainPID --value user@1000.service"] = "700"
        self.process(700, "systemd", status=f"Name:\tsystemd\nGid:\t1000\t1000\t1000\t1000\nGroups:\t{groups}")

    def listen(self, port: int, inode: str, table: str = "tcp", state: str = "0A") -> None:
        """Have a socket listen on a port."""
        head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        address = "00000000" if table == "tcp" else "0" * 32
        known = self.read(f"/proc/net/{table}") or head
        queues = "00000000:00000000 00:00000000 00000000"
        line = f"   0: {address}:{port:04X} {address}:0000 {state} {queues}  1000 0 {inode} 1\n"
        self.write(f"/proc/net/{table}", known + line)

    @property
    def dank(self) -> Identity:
        """The service user."""
        return identity_of(self, "dank", ["render", "video"])

    def run(self, *command: str) -> tuple[int, str]:
        return (0, self.answers[" ".join(command)]) if " ".join(command) in self.answers else (127, "")

    def program(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def account(self, name: str) -> pwd.struct_passwd | None:
        return self.accounts.get(name)

    def group_id(self, name: str) -> int | None:
        return self.groups.get(name)

    def group_name(self, number: int) -> str:
        return next((name for name, known in self.groups.items() if known == number), "root")

    def groups_of(self, account: pwd.struct_passwd) -> set[int]:
        return self.members[account.pw_name]

    def owner(self, process: Path) -> int:
        return self.owners.get(int(process.name), 1000)

    def denied(self, who: Identity, wanted: list[tuple[str, int]]) -> list[str]:
        return [path for path, _ in wanted if path in self.forbidden]

    def space(self, path: str) -> tuple[int, float]:
        return 1, self.free


def gpu(address: str, index: int, **changes: Any) -> dict[str, Any]:
    """A GPU as pcie_atomics_info returns it."""
    return {
        "address": address, "ids": "1002:7551", "driver": "amdgpu", "kfd_node": index + 1,
        "render_node": f"/dev/dri/renderD{128 + index}", "verdict": "ok", "reason": "fine", "fix": None, **changes,
    }  # fmt: skip


def pcie(*gpus: dict[str, Any], ignored: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A result of pcie_atomics_info; two sound cards if none is given."""
    return {"gpus": list(gpus) or [gpu("0000:03:00.0", 0), gpu("0000:43:00.0", 1)], "ignored": list(ignored)}


UNFIT = gpu("0000:0b:00.0", 1, verdict="missing", reason="it sits behind 05:00.0", fix="move the card to a CPU slot")
KNOBS = {
    "TP": 1, "MAXLEN": 114688, "KV_MEM": 0, "MAXSEQS": 4, "CHUNK": 8192, "GPU_UTIL": 0.98, "SPEC_METHOD": "dflash",
    "SPEC": 7, "SNAP": "/models/target", "DRAFTER": "/models/drafter",
}  # fmt: skip


def fleet(**changes: Any) -> dict[str, Any]:
    """The production fleet, with some keys changed."""
    return {
        "name": "frank-medium",
        "served_model_name": "frank-medium",
        "port": 7770,
        "shape": "auto",
        "knobs": dict(KNOBS),
        "replicas": [
            {"name": "frank-medium-a", "gpu": 0, "port": 7771},
            {"name": "frank-medium-b", "gpu": 1, "port": 7772},
        ],
        "tp2": {"name": "frank-medium", "gpus": [0, 1], "knobs": {"TP": 2, "KV_MEM": 18563072000, "MAXLEN": 262144}},
        **changes,
    }
