"""Pins on disk, so that they survive a restart of the proxy: a snapshot of the router's records, replaced whole."""

import os
from pathlib import Path

import msgspec
from blake3 import blake3

from .routing import Router, Snapshot

FILE_NAME = "pins"
"""Name of the snapshot in STATE_DIR."""

_MAGIC = b"routing-proxy pins 1\n"
_CHECKSUM_BYTES = 32
_MAX_FILE_BYTES = 64 * 1024 * 1024

_decode = msgspec.msgpack.Decoder(Snapshot).decode


def save(path: Path, snapshot: Snapshot) -> None:
    """Write `snapshot` to `path`; a kill at any moment leaves the old file or the new one. OSError if it cannot."""
    payload = msgspec.msgpack.encode(snapshot)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(_MAGIC + blake3(payload).digest(_CHECKSUM_BYTES) + payload)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load(path: Path, router: Router) -> str:
    """Restore the snapshot in `path` into `router` and return one line for the log; a bad file is only reported."""
    try:
        snapshot = _read(path)
    except FileNotFoundError:
        return f"state: {path} does not exist yet, starting without pins"
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        return f"state: {path} ignored ({error}), starting without pins"
    router.load(snapshot)
    return f"state: {len(snapshot.conversations)} pins and {len(snapshot.responses)} response ids read from {path}"


def _read(path: Path) -> Snapshot:
    """Return the snapshot in `path`; ValueError says what is wrong with it."""
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise ValueError(f"larger than {_MAX_FILE_BYTES} bytes")
    if not data.startswith(_MAGIC):
        raise ValueError("not a state file of this version")
    start = len(_MAGIC) + _CHECKSUM_BYTES
    if blake3(data[start:]).digest(_CHECKSUM_BYTES) != data[len(_MAGIC) : start]:
        raise ValueError("damaged: its checksum is wrong")
    return _decode(data[start:])
