"""Where the root file system comes from, and when it is built anew."""

import pytest
from test_host import rootfs
from test_host.rootfs import MIRROR_VARIABLE, debian_sources, mirrors, rootfs_name, source_lines

DEB822 = """\
Types: deb
# URIs: http://commented.example/debian
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
"""
ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main
deb-src http://source.example/debian bookworm main
deb https://other.example/apt stable main
#deb http://commented.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
"""


@pytest.mark.parametrize("text", [DEB822, ONE_LINE], ids=["deb822", "one-line"])
def test_the_machines_own_mirror_is_read_from_either_form(text: str) -> None:
    assert mirrors(text) == ["http://mirror.example/debian", "http://mirror.example/debian-security"]


def test_our_suite_is_asked_from_those_mirrors() -> None:
    assert source_lines(mirrors(DEB822)) == [
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian trixie-updates main",
        "deb http://mirror.example/debian-security trixie-security main",
    ]


def test_the_order_of_the_machines_sources_does_not_matter() -> None:
    assert source_lines(["http://m.example/debian-security", "http://m.example/debian"]) == source_lines(
        ["http://m.example/debian", "http://m.example/debian-security"]
    )


def test_a_machine_without_debians_archive_leaves_the_mirror_to_mmdebstrap() -> None:
    assert source_lines(mirrors("deb http://archive.example/ubuntu noble main\n")) == []


def test_the_environment_names_another_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "http://near.example/debian")
    assert debian_sources() == ["deb http://near.example/debian trixie main"]


def test_the_same_packages_are_the_same_root_whatever_the_order() -> None:
    assert rootfs_name(["b", "a", "podman"]) == rootfs_name(["a", "b"])


def test_more_packages_are_another_root_of_the_same_recipe() -> None:
    assert rootfs_name() != rootfs_name(["prometheus"]) != rootfs_name(["grafana"])
    assert rootfs_name(["prometheus"]).startswith(f"{rootfs_name()}-")


def test_another_hook_is_another_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rootfs_name()
    monkeypatch.setattr(rootfs, "HOOKS", (*rootfs.HOOKS, "true"))
    assert rootfs_name() != before
    assert len(rootfs_name()) == len(before)
