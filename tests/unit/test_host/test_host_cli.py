"""What the command line refuses, in one line each."""

import os
from pathlib import Path

import pytest
from test_host import machine
from test_host.cli import main
from test_host.common import ToolError


@pytest.fixture
def no_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


@pytest.fixture
def no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("no_root")  # a name that slipped through must not boot a host
@pytest.mark.parametrize("name", ["", "Web", "a b", "-x", "a/b", "../a", "a" * 41, "1a"])
def test_a_bad_name_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["up", "--", name])
    assert stopped.value.code == 2
    assert "is no host name" in capsys.readouterr().err


@pytest.mark.usefixtures("no_root")
def test_a_bad_package_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["rootfs", "--packages", "prometheus,--force"])
    assert "'--force' is no Debian package name" in capsys.readouterr().err


@pytest.mark.usefixtures("no_root")
@pytest.mark.parametrize(
    "command", [["up", "nobody"], ["down", "nobody"], ["reboot", "nobody"], ["rootfs"], ["install"]]
)
def test_without_root_one_line_says_so(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 1
    error = capsys.readouterr().err
    assert error.startswith("host: not root") and error.count("\n") == 1


def test_missing_packages_are_named_with_the_line_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda thing: None if thing in ("systemd-nspawn", "ssh") else f"/bin/{thing}")
    with pytest.raises(ToolError, match="apt-get install openssh-client systemd-container`"):
        machine.require_ready()


def test_a_kernel_that_forbids_rootless_containers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = tmp_path / "restricted"
    switch.write_text("1\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "missing_packages", lambda: [])
    monkeypatch.setattr(machine, "USERNS_RESTRICTION", switch)
    with pytest.raises(ToolError, match=r"kernel\.apparmor_restrict_unprivileged_userns=0"):
        machine.require_ready()
    switch.write_text("0\n")
    machine.require_ready()


def test_a_shell_on_no_host_says_how_to_get_one(no_hosts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "web"]) == 1
    assert capsys.readouterr().err == "host: web doesn't exist: run `tools/test_host/host up web`\n"


def test_status_of_no_host_is_off_and_fails(no_hosts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "nobody"]) == 1
    assert capsys.readouterr().out.splitlines()[1].split() == ["nobody", "-", "off", "-", "-"]
