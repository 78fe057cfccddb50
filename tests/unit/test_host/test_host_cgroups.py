"""How a host's processes are found, on machines with cgroup v1 and v2 side by side and with v2 alone."""

from pathlib import Path

import pytest
from test_host import cgroups
from test_host.common import ToolError

HYBRID = """\
24 1 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 24 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_the_v2_hierarchy_is_found_beside_v1() -> None:
    assert cgroups.hierarchy(HYBRID) == Path("/sys/fs/cgroup/unified")


def test_the_v2_hierarchy_is_found_alone_and_with_optional_fields() -> None:
    assert cgroups.hierarchy(UNIFIED) == Path("/sys/fs/cgroup")


def test_a_machine_with_v1_only_is_told_what_to_mount() -> None:
    with pytest.raises(ToolError, match="mount -t cgroup2"):
        cgroups.hierarchy(HYBRID.splitlines()[1])


@pytest.fixture
def fake_hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroups, "hierarchy", lambda _: tmp_path)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(("controllers", "expected"), [("cpu pids\n", True), ("hugetlb\n", False), ("\n", False)])
def test_a_controller_counts_when_it_is_handed_down(fake_hierarchy: Path, controllers: str, expected: bool) -> None:
    write(fake_hierarchy / "cgroup.subtree_control", controllers)
    assert cgroups.has_controller("pids") is expected


def test_a_host_without_a_cgroup_is_off(fake_hierarchy: Path) -> None:
    assert not cgroups.is_running("web")
    assert cgroups.first_pid("web") is None


def test_a_host_is_up_while_the_loop_that_boots_it_lives(fake_hierarchy: Path) -> None:
    write(fake_hierarchy / "frank-fleet-web/loop/cgroup.events", "populated 1\nfrozen 0\n")
    assert cgroups.is_running("web")


def test_a_host_that_outlived_its_loop_is_not_up(fake_hierarchy: Path) -> None:
    write(fake_hierarchy / "frank-fleet-web/cgroup.events", "populated 1\nfrozen 0\n")
    write(fake_hierarchy / "frank-fleet-web/loop/cgroup.events", "populated 0\nfrozen 0\n")
    assert not cgroups.is_running("web")


def test_the_hosts_own_pid_1_is_read_from_its_cgroup(fake_hierarchy: Path) -> None:
    write(fake_hierarchy / "frank-fleet-web/payload/init.scope/cgroup.procs", "4711\n4712\n")
    assert cgroups.first_pid("web") == 4711
