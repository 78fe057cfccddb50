"""secret_file: the user's alone, written in one step, and shown nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.collection.fakehost import FakeHost

KEY, OTHER = "s3cr3t-SENTINEL-0001", "s3cr3t-SENTINEL-0002"


def file_of(host: FakeHost) -> Path:
    return host.home / ".config/secrets/api_keys"


def modes(path: Path) -> tuple[int, int]:
    return path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777


def test_secrets_are_the_users_alone(host: FakeHost) -> None:
    assert host.ok("secret_file", path=str(file_of(host)), secrets=[KEY, OTHER])["changed"]
    assert file_of(host).read_text() == f"{KEY}\n{OTHER}\n" and modes(file_of(host)) == (0o600, 0o700)
    assert not host.ok("secret_file", path=str(file_of(host)), secrets=[KEY, OTHER])["changed"]


@pytest.mark.parametrize(("mode", "folder"), [(0o644, 0o700), (0o600, 0o755)])
def test_a_file_that_others_can_read_is_mended(host: FakeHost, mode: int, folder: int) -> None:
    host.ok("secret_file", path=str(file_of(host)), secrets=[KEY])
    file_of(host).chmod(mode)
    file_of(host).parent.chmod(folder)
    assert host.ok("secret_file", path=str(file_of(host)), secrets=[KEY])["changed"]
    assert modes(file_of(host)) == (0o600, 0o700)


def test_without_secrets_the_file_goes(host: FakeHost) -> None:
    assert not host.ok("secret_file", path=str(file_of(host)), secrets=[])["changed"]
    host.ok("secret_file", path=str(file_of(host)), secrets=[KEY])
    assert host.ok("secret_file", path=str(file_of(host)), secrets=[])["changed"] and not file_of(host).exists()


@pytest.mark.parametrize(
    ("secrets", "fault"),
    [(["short"], "secret 1 has 5 characters"), ([KEY, KEY], "secret 2 is the same"), ([KEY + " x"], "secret 1 has a"),
     ([KEY + "é"], "secret 1 has a"), (["#" + KEY], "secret 1 has a"), ([KEY + "\n" + OTHER], "secret 1 has a"),
     ([""], "secret 1 has 0 characters")],
)  # fmt: skip
def test_what_is_no_secret_is_refused_and_what_was_there_stays(host: FakeHost, secrets: list[str], fault: str) -> None:
    host.ok("secret_file", path=str(file_of(host)), secrets=[OTHER])
    error = host.error("secret_file", path=str(file_of(host)), secrets=secrets)
    assert fault in error and file_of(host).read_text() == f"{OTHER}\n"


def test_nothing_shows_them(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [host.run("secret_file", check, path=str(file_of(host)), secrets=[KEY]) for check in (True, False)]
    shown.append(host.run("secret_file", path=str(file_of(host)), secrets=[KEY, KEY]))
    assert "SENTINEL" not in json.dumps(shown)


def test_check_mode_writes_nothing(host: FakeHost) -> None:
    assert host.ok("secret_file", check=True, path=str(file_of(host)), secrets=[KEY])["changed"]
    assert not file_of(host).parent.exists()


def test_a_link_is_not_written_through(host: FakeHost) -> None:
    file_of(host).parent.mkdir(parents=True)
    file_of(host).symlink_to(host.root / "elsewhere")
    assert "symlink" in host.error("secret_file", path=str(file_of(host)), secrets=[KEY])


def test_what_a_killed_run_left_goes_with_the_next(host: FakeHost) -> None:
    file_of(host).parent.mkdir(parents=True)
    (file_of(host).parent / ".frank-fleet-abc.tmp").write_text(KEY)
    host.ok("secret_file", path=str(file_of(host)), secrets=[OTHER])
    assert [path.name for path in file_of(host).parent.iterdir()] == ["api_keys"]
