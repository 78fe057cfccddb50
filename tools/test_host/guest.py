"""One host as files: where its root, address and console log are kept, and what makes it itself."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from test_host import cgroups, network
from test_host.common import cache_dir, run
from test_host.rootfs import copy_tree, remove_tree

USER = 1000


@dataclass(frozen=True)
class Host:
    """A host of this cache, by name; it need not exist."""

    name: str

    @property
    def folder(self) -> Path:
        """Everything that `down` deletes."""
        return cache_dir() / "hosts" / self.name

    @property
    def root(self) -> Path:
        """The root file system."""
        return self.folder / "root"

    @property
    def log(self) -> Path:
        """What the host printed on its console since it was last brought up."""
        return self.folder / "console.log"

    @property
    def address(self) -> str | None:
        """The address it was first brought up with; None if the host doesn't exist."""
        file = self.folder / "host.json"
        return str(json.loads(file.read_text())["address"]) if file.exists() else None

    def remember(self, address: str) -> None:
        """Write the address down: from now on the host exists."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "host.json").write_text(json.dumps({"address": address}) + "\n")


def all_hosts() -> list[Host]:
    """Return every host that was brought up and not taken down, by name."""
    return [Host(file.parent.name) for file in sorted((cache_dir() / "hosts").glob("*/host.json"))]


def ssh_key() -> Path:
    """Return the private key that opens every host, made on first use."""
    key = cache_dir() / "ssh_key"
    if not key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "frank-fleet test host", "-f", key)
    return key


def ssh_command(address: str) -> list[str]:
    """Return the start of a command that logs in as root; this user's own ssh settings have no say in it."""
    return [
        *("ssh", "-F", "/dev/null", "-i", str(ssh_key()), "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=2"),
        *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
        f"root@{address}",
    ]


def create_root(host: Host, base: Path, address: str) -> None:
    """Make a host's root out of the cached one; a run that is cut short leaves nothing that looks like a root."""
    unfinished = host.folder / "root.unfinished"
    remove_tree(unfinished)
    copy_tree(base, unfinished)
    _personalise(unfinished, host.name, address)
    unfinished.rename(host.root)


def _personalise(root: Path, name: str, address: str) -> None:
    """Write a host's name, its address, who may log in, and what Podman can't have on this machine."""
    etc = root / "etc"
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n{address} {name}\n")
    # No gateway: nothing in a test may depend on a registry, and what tries fails at once.
    (etc / "systemd/network/10-host0.network").write_text(
        f"[Match]\nName={network.GUEST_LINK}\n\n[Network]\nAddress={address}/{network.SUBNET.prefixlen}\n"
    )
    public_key = ssh_key().with_suffix(".pub").read_text()
    _authorise(root / "root/.ssh", public_key, 0)
    _authorise(root / "home/dank/.ssh", public_key, USER)
    limits = etc / "containers/containers.conf.d/90-no-pids-controller.conf"
    if not cgroups.has_controller("pids"):
        limits.parent.mkdir(parents=True, exist_ok=True)
        reason = "# The machine below keeps its controllers on cgroup v1, so crun can't set this limit."
        limits.write_text(f"{reason}\n[containers]\npids_limit = 0\n")


def _authorise(folder: Path, public_key: str, owner: int) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / "authorized_keys"
    file.write_text(public_key)
    file.chmod(0o600)
    for path in (folder, file):
        os.chown(path, owner, owner)
