"""Pins on disk: written whole, read with suspicion."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3
from routing_proxy import state
from routing_proxy.identity import Identity
from routing_proxy.routing import Choice, Decision, Router, Snapshot

A, B = "replica-a", "replica-b"
FIRST = Identity(None, None, (b"1" * 16,), b"1" * 16)
SECOND = Identity(None, None, (b"1" * 16, b"2" * 16), b"1" * 16)
NAMED = Identity("my session")
STORED = Identity(None, "resp_1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / state.FILE_NAME


def router(*replicas: str, max_records: int = 100) -> Router:
    return Router("adaptive", replicas or (A, B), max_records)


@pytest.fixture
def saved(path: Path) -> Path:
    """The file of a proxy that knew a conversation, a session and a response, all at B."""
    known = router()
    known.record(FIRST, B)
    known.record(NAMED, B)
    known.record_response("resp_1", B)
    state.save(path, known.dump())
    return path


def test_pins_sessions_and_responses_come_back(saved: Path) -> None:
    later = router()
    assert state.load(saved, later) == f"state: 2 pins and 1 response ids read from {saved}"
    assert later.choose(SECOND, (A, B), {B: 9}) == Choice(B, Decision.PINNED)
    assert later.choose(NAMED, (A, B), {B: 9}) == Choice(B, Decision.SESSION)
    assert later.choose(STORED, (A, B), {B: 9}) == Choice(B, Decision.PINNED)
    assert later.pins(B) == 2


def test_what_belonged_to_a_replica_that_is_gone_is_dropped(saved: Path) -> None:
    later = router(A)
    state.load(saved, later)
    assert later.pins(B) == 0
    assert later.owner(STORED) is None
    assert later.choose(SECOND, (A,), {}) == Choice(A, Decision.SPREAD)


def test_a_smaller_limit_keeps_the_newest(path: Path) -> None:
    known = router()
    for number in range(10):
        known.record(Identity(None, None, (bytes([number]) * 16,)), A)
    state.save(path, known.dump())
    later = router(max_records=3)
    state.load(path, later)
    assert [key[0] for key, _, _ in later.dump().conversations] == [7, 8, 9]


def test_no_file_is_a_fresh_start(path: Path) -> None:
    fresh = router()
    assert state.load(path, fresh) == f"state: {path} does not exist yet, starting without pins"
    assert fresh.dump() == Snapshot([], [])


def header(payload: bytes, magic: bytes = b"routing-proxy pins 1\n") -> bytes:
    return magic + blake3(payload).digest() + payload


DAMAGE = {
    "empty": (lambda data: b"", "not a state file of this version"),
    "truncated": (lambda data: data[:-1], "damaged: its checksum is wrong"),
    "only the header": (lambda data: data[:30], "damaged: its checksum is wrong"),
    "one bit": (lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:], "damaged: its checksum is wrong"),
    "longer": (lambda data: data + b"\0", "damaged: its checksum is wrong"),
    "garbage": (lambda data: b"\xff" * 1000, "not a state file of this version"),
    "next version": (lambda data: data.replace(b"pins 1", b"pins 2"), "not a state file of this version"),
    "not msgpack": (lambda data: header(b"\xc1"), "MessagePack data is malformed"),
    "not a snapshot": (lambda data: header(b"\x81\xa1x\x01"), "missing required field"),
    "wrong types": (lambda data: header(b"\x82\xadconversations\x91\x01\xa9responses\x90"), "Expected `array`"),
}


@pytest.mark.parametrize(("damage", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_a_bad_file_is_reported_in_one_line_and_ignored(saved: Path, damage, reason: str) -> None:
    saved.write_bytes(damage(saved.read_bytes()))
    fresh = router()
    line = state.load(saved, fresh)
    assert line.startswith(f"state: {saved} ignored (")
    assert reason in line
    assert line.endswith("starting without pins")
    assert "\n" not in line
    assert fresh.dump() == Snapshot([], [])


def test_an_oversized_file_is_not_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_MAX_FILE_BYTES", saved.stat().st_size - 1)
    assert "larger than" in state.load(saved, router())


def test_a_directory_in_its_place_is_reported(path: Path) -> None:
    path.mkdir(parents=True)
    assert "Is a directory" in state.load(path, router())
    with pytest.raises(OSError, match="directory"):
        state.save(path, Snapshot([], []))


def test_a_failed_write_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        state.save(saved, Snapshot([], []))
    assert saved.read_bytes() == before


def test_a_write_replaces_the_file_and_leaves_nothing_else(saved: Path) -> None:
    state.save(saved, Snapshot([], []))
    assert [entry.name for entry in saved.parent.iterdir()] == [state.FILE_NAME]
    assert state.load(saved, router()).startswith("state: 0 pins")


WRITER = """
import sys
from pathlib import Path
from routing_proxy import state
from routing_proxy.routing import Snapshot
entries = [(number.to_bytes(16), "replica-a", b"c" * 16) for number in range(20000)]
while True:
    state.save(Path(sys.argv[1]), Snapshot(entries, []))
    print("saved", flush=True)
"""


@pytest.mark.parametrize("saves", range(1, 6))
def test_a_kill_at_any_moment_leaves_a_whole_file(path: Path, saves: int) -> None:
    package = Path(state.__file__).parents[1]
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(package)}) as writer:
        assert writer.stdout is not None
        for _ in range(saves):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)  # in the middle of the next one
    assert state.load(path, router()).startswith("state: 20000 pins")
