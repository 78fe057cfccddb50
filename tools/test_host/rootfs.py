"""The Debian root file system that every host is a copy of, built once for each recipe and cached."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from test_host.common import ToolError, cache_dir, locked, say
from test_host.machine import KEYRING

SUITE = "trixie"
MIRROR_VARIABLE = "FRANK_FLEET_DEBIAN_MIRROR"

# Everything is installed beforehand, so that a host needs no way out.
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "openssh-server", "sudo", "acl"),
    *("podman", "crun", "uidmap", "passt", "slirp4netns", "fuse-overlayfs", "netavark", "aardvark-dns", "catatonit"),
    *("nftables", "iproute2", "iputils-ping", "python3", "curl", "ca-certificates", "procps", "less"),
)
# Manuals and translations would only be copied for every host.
OPTIONS = (
    *("--mode=root", "--quiet", f"--keyring={KEYRING}", '--aptopt=Acquire::Languages "none"'),
    *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "doc", "locale")),
)

# The machine as an operator finds it: a user with sudo, ssh, a network, a journal that survives reboots. No linger, no
# groups of the GPU, and nothing that wants network-online.target: a plain Debian has none of it either.
HOOKS = (
    'chroot "$1" useradd --create-home --uid 1000 --shell /bin/bash --groups sudo dank',
    'echo "dank ALL=(ALL) NOPASSWD: ALL" > "$1/etc/sudoers.d/dank" && chmod 440 "$1/etc/sudoers.d/dank"',
    # udev brings this group to a machine with a GPU; a guest has no udev.
    'chroot "$1" groupadd --system --force render',
    'mkdir -p "$1/var/log/journal"',
    'chroot "$1" systemctl enable systemd-networkd.service',
    # A guest without modules of its own and with a shared kernel: loading them would only make it "degraded".
    'chroot "$1" systemctl mask systemd-modules-load.service',
    # No timer of Debian's own may start work in the middle of a test.
    'chroot "$1" systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer',
    ': > "$1/etc/machine-id" && rm -f "$1/etc/hostname" "$1/etc/resolv.conf"',
)


def recipe_hash() -> str:
    """Return 12 hex digits that change whenever the same build would give another root file system."""
    return _hash([SUITE, PACKAGES, OPTIONS, HOOKS])


def rootfs_name(extra: Iterable[str] = ()) -> str:
    """Return the cache name of the root file system with these extra packages, in any order."""
    packages = sorted(set(extra) - set(PACKAGES))
    return f"rootfs-{recipe_hash()}" + (f"-{_hash(packages)}" if packages else "")


def _hash(recipe: object) -> str:
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]


def rootfs(extra: Iterable[str] = ()) -> Path:
    """Return the root file system with these extra packages, building it (20-90 s) if it isn't cached.

    Raises ToolError if mmdebstrap fails; what it had built so far is removed.
    """
    target = cache_dir() / rootfs_name(extra)
    with locked("rootfs"):
        if not target.exists():
            _build(target, sorted({*PACKAGES, *extra}))
            _prune()
    return target


def _build(target: Path, packages: list[str]) -> None:
    say(f"host: building the Debian {SUITE} root file system (once; usually 20-90 s)")
    started = time.monotonic()
    unfinished = target.with_suffix(".unfinished")
    remove_tree(unfinished)
    debootstrap(unfinished, packages, ["--variant=minbase", *(f"--customize-hook={hook}" for hook in HOOKS)])
    unfinished.rename(target)
    say(f"host: built {target} in {time.monotonic() - started:.0f} s")


def debootstrap(target: Path, packages: Iterable[str], options: Iterable[str]) -> None:
    """Run mmdebstrap from this machine's mirror into target (a folder, or a tar by its name); raise ToolError."""
    # In a mount namespace, so that a build that is killed leaves no mounts in a tree that the next one removes.
    command = ["unshare", "--mount", "mmdebstrap", *OPTIONS, f"--include={','.join(packages)}"]
    command += [*options, SUITE, str(target), *debian_sources()]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        remove_tree(target)
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines()
        raise ToolError(
            f"mmdebstrap failed: {errors[0] if errors else 'no reason given'}; another mirror: {MIRROR_VARIABLE}=URL"
        )


def _prune() -> None:
    """Remove the roots of older recipes."""
    for old in cache_dir().glob("rootfs-*"):
        if not old.name.startswith(f"rootfs-{recipe_hash()}"):
            remove_tree(old)


def remove_tree(path: Path) -> None:
    """Remove a folder or file, never what is mounted below it."""
    if path.is_dir() and not path.is_symlink():
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(path)], check=True)
    else:
        path.unlink(missing_ok=True)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a root file system; raise ToolError if a host would not have room for its images afterwards."""
    if shutil.disk_usage(target.parent).free < 2 << 30:
        raise ToolError(f"less than 2 GiB free in {target.parent}: a host needs room for its root and its images")
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)


def debian_sources() -> list[str]:
    """Return mmdebstrap's mirror lines: from the environment, else this machine's apt; empty means its own default."""
    if mirror := os.environ.get(MIRROR_VARIABLE):
        return [_line(mirror, SUITE)]
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(file.read_text() for file in files if file.suffix in (".list", ".sources") and file.exists())
    return source_lines(mirrors(text))


def mirrors(apt_sources: str) -> list[str]:
    """Return the addresses in apt sources of either form (deb822 or one-line) whose path names Debian's archive."""
    found = []
    for line in apt_sources.splitlines():
        words = re.sub(r"\[.*?\]", "", line).split()
        if words[:1] == ["URIs:"]:
            found += words[1:]
        elif words[:1] == ["deb"] and len(words) > 1:
            found.append(words[1])
    archives = [uri.rstrip("/") for uri in found]
    return list(dict.fromkeys(uri for uri in archives if uri.endswith(("/debian", "/debian-security"))))


def source_lines(archives: list[str]) -> list[str]:
    """Turn mirror addresses into lines for our suite; a machine without Debian's own archive (Ubuntu) gives none."""
    lines = []
    main = [uri for uri in archives if uri.endswith("/debian")]
    security = [uri for uri in archives if uri.endswith("/debian-security")]
    if main:
        lines += [_line(main[0], SUITE), _line(main[0], f"{SUITE}-updates")]
        lines += [_line(uri, f"{SUITE}-security") for uri in security[:1]]
    return lines


def _line(mirror: str, suite: str) -> str:
    return f"deb {mirror} {suite} main"
