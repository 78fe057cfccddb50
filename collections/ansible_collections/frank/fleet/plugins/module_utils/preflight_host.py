"""What the preflight asks of the machine. Reads only; tests replace what is no file."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.basic import AnsibleModule

GIB = 1024**3
READ, READ_WRITE, ENTER = os.R_OK, os.R_OK | os.W_OK, os.R_OK | os.X_OK


class Identity(NamedTuple):
    """Who will use devices and folders: the service user with the groups that a deploy leaves it in."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    exists: bool


class Host:
    """The machine, its files below `root`. Paths are given and named as the machine knows them."""

    def __init__(self, module: AnsibleModule, root: Path = Path("/")):
        self.module, self.root = module, root

    def path(self, path: str) -> Path:
        """Where a path of the machine is for this process."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> str:
        """Text of a file, empty where there is none or it cannot be read."""
        try:
            return self.path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def names_in(self, path: str) -> list[str] | None:
        """Names in a folder, None where root may not look (a file server that trusts no root)."""
        try:
            return sorted(entry.name for entry in self.path(path).iterdir())
        except OSError:
            return None

    def run(self, *command: str) -> tuple[int, str]:
        """Exit code and output of a command that only looks; 127 where it is not installed."""
        if not self.program(command[0]):
            return 127, ""
        code, output, _ = self.module.run_command(list(command))
        return code, output.strip()

    def program(self, name: str) -> str | None:
        """Path of a program, None where it is not installed."""
        return self.module.get_bin_path(name)

    def account(self, name: str) -> pwd.struct_passwd | None:
        """The user's entry."""
        try:
            return pwd.getpwnam(name)
        except KeyError:
            return None

    def group_id(self, name: str) -> int | None:
        """Number of a group."""
        try:
            return grp.getgrnam(name).gr_gid
        except KeyError:
            return None

    def group_name(self, number: int) -> str:
        """Name of a group, its number where it has none."""
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)

    def groups_of(self, account: pwd.struct_passwd) -> set[int]:
        """Numbers of all groups that the user is in."""
        return set(os.getgrouplist(account.pw_name, account.pw_gid))

    def owner(self, process: Path) -> int:
        """Number of the user whose process this is, given as its folder in /proc."""
        return process.stat().st_uid

    def denied(self, who: Identity, wanted: list[tuple[str, int]]) -> list[str]:
        """Those of the (path, mode) pairs that `who` may not access, tried as `who`: root may do anything.

        Raises PermissionError where this process is not root and so cannot become somebody else.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os._exit(self._try_as(who, wanted, writer))
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            denied = pipe.read().decode("utf-8", "surrogateescape").split("\0")[:-1]
        _, status = os.waitpid(child, 0)
        if status:
            raise PermissionError(f"cannot try as {who.name} what it may access: run this as root (become: true)")
        return denied

    def _try_as(self, who: Identity, wanted: list[tuple[str, int]], writer: int) -> int:
        try:
            os.setgroups(who.groups)
            os.setgid(who.gid)
            os.setuid(who.uid)
            for path, mode in wanted:
                if not os.access(self.path(path), mode):
                    os.write(writer, f"{path}\0".encode("utf-8", "surrogateescape"))
        except OSError:
            return 1
        return 0

    def space(self, path: str) -> tuple[int, float]:
        """File system (its device number) that holds a path, which need not exist yet, and its free GiB."""
        here = self.path(path)
        while not here.exists():
            here = here.parent
        return here.stat().st_dev, shutil.disk_usage(here).free / GIB

    def shown(self, path: str) -> str:
        """A path with its type, mode and owner, as ls shows them."""
        try:
            found = self.path(path).stat()
        except OSError:
            return path
        try:
            owner = pwd.getpwuid(found.st_uid).pw_name
        except KeyError:
            owner = str(found.st_uid)
        return f"{path} ({stat.filemode(found.st_mode)} {owner}:{self.group_name(found.st_gid)})"
