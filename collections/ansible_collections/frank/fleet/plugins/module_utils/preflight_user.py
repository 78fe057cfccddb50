"""Is the service user, with its ids, groups and manager, as a deploy can take it from here?"""

from __future__ import annotations

import pwd
import shlex

from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report

#: Stands for a user that does not exist yet, so that what everybody may access counts as accessible.
NOBODY = 65534


def identity_of(host: Host, name: str, groups: list[str]) -> Identity:
    """The service user as a deploy leaves it: with the groups that it is in and those that it will be put in."""
    wanted = {number for number in map(host.group_id, groups) if number is not None}
    account = host.account(name)
    if account is None:
        return Identity(name, NOBODY, NOBODY, tuple(sorted(wanted)), f"/home/{name}", exists=False)
    member = host.groups_of(account) | wanted
    return Identity(name, account.pw_uid, account.pw_gid, tuple(sorted(member)), account.pw_dir, exists=True)


def check_user(host: Host, user: Identity, groups: list[str], subids: int, report: Report) -> None:
    """Look at the user, its subordinate ids and its running manager. What a deploy makes itself is no fault."""
    account = host.account(user.name)
    if account is None:
        report.row("user", f"{user.name} does not exist yet: a deploy creates it")
        return
    if account.pw_uid == 0:
        report.fault(
            f"the service user is {user.name}, which is root",
            "llm_user in the inventory",
            "the units are rootless: devices, image store and linger are those of an ordinary user",
            "name an ordinary user in llm_user; a deploy creates it",
        )
        return
    if not host.path(account.pw_dir).is_dir():
        owner = f"{account.pw_uid}:{account.pw_gid}"
        report.fault(
            f"the home of {user.name} does not exist",
            account.pw_dir,
            "units, image store and caches live there",
            f"sudo mkhomedir_helper {shlex.quote(user.name)} || sudo install -d -m 0750 "
            f"-o {owner.split(':')[0]} -g {owner.split(':')[1]} {shlex.quote(account.pw_dir)}",
        )
    parts = [f"{user.name} (uid {account.pw_uid})", _check_subids(host, account, subids, report)]
    parts.append("lingers" if host.path(f"/var/lib/systemd/linger/{user.name}").exists() else "will linger")
    parts.append(_check_groups(host, account, groups, report))
    report.row("user", ", ".join(parts))


def ranges_of(text: str) -> list[tuple[str, int, int]]:
    """(owner, first id, how many) of each line of /etc/subuid or /etc/subgid; the owner is a login or a number."""
    fields = [line.strip().split(":") for line in text.splitlines()]
    whole = [entry for entry in fields if len(entry) == 3 and entry[1].isdigit() and entry[2].isdigit()]
    return [(owner, int(first), int(count)) for owner, first, count in whole]


def _check_subids(host: Host, account: pwd.struct_passwd, wanted: int, report: Report) -> str:
    name, totals = account.pw_name, []
    for file, option in (("/etc/subuid", "--add-subuids"), ("/etc/subgid", "--add-subgids")):
        ranges = ranges_of(host.read(file))
        mine = [entry for entry in ranges if entry[0] in (name, str(account.pw_uid))]
        totals.append(sum(count for _, _, count in mine))
        if mine and totals[-1] < wanted:
            free = max(first + count for _, first, count in ranges)
            report.fault(
                f"{name} has {totals[-1]} subordinate ids, wanted are {wanted}",
                file,
                "an image layer with a file of an id that cannot be mapped does not unpack",
                f"sudo usermod {option} {free}-{free + wanted - 1} {name} && sudo -iu {name} podman system migrate",
            )
        for other, first, count in (entry for entry in ranges if entry not in mine):
            if any(first < start + size and start < first + count for _, start, size in mine):
                report.warn(f"{file}: the ids of {name} and {other} overlap, so each can touch the other's files")
    return f"{min(totals)} subordinate ids" if min(totals) else "will get subordinate ids"


def _check_groups(host: Host, account: pwd.struct_passwd, groups: list[str], report: Report) -> str:
    unit = f"user@{account.pw_uid}.service"
    # Nothing runs without a manager, and a deploy starts one, after it has put the user into its groups.
    pid = host.run("systemctl", "show", "--property=MainPID", "--value", unit)[1]
    if not pid.isdigit() or pid == "0":
        return f"groups {' '.join(groups)} when its manager starts"
    status = host.read(f"/proc/{pid}/status")
    has = {
        int(number)
        for line in status.splitlines()
        if line.startswith(("Groups:", "Gid:"))
        for number in line.split()[1:]
    }
    lacking = [name for name in groups if host.group_id(name) not in has]
    if not lacking:
        return f"groups {' '.join(groups)}"
    if not _serves(host, account.pw_uid):
        return f"groups {' '.join(groups)} once a deploy has restarted its manager"
    report.fault(
        f"the running manager of {account.pw_name} lacks the group(s) {' '.join(lacking)}",
        f"{unit} (process {pid})",
        "a process keeps the groups of its start, so engines cannot open the GPU; containers run, so a deploy does not "
        "restart it by itself",
        f"{_enrol(host, account.pw_name, lacking)} && sudo systemctl restart {unit}   (ends all services of the user)",
    )
    return f"without {' '.join(lacking)}"


def _enrol(host: Host, name: str, groups: list[str]) -> str:
    missing = [group for group in groups if host.group_id(group) is None]
    return " && ".join(
        [*(f"sudo groupadd --system {group}" for group in missing), f"sudo usermod -aG {','.join(groups)} {name}"]
    )


def _serves(host: Host, uid: int) -> bool:
    """True if a container of the user runs: each has a conmon process beside it."""
    for process in host.path("/proc").glob("[0-9]*"):
        try:
            if host.owner(process) == uid and (process / "comm").read_text().strip() == "conmon":
                return True
        except OSError:
            continue  # The process ended meanwhile.
    return False
