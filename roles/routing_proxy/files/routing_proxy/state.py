"""Pins on disk: a snapshot of the router's records, written whole and atomically."""

import os
from pathlib import Path

import msgspec
from blake3 import blake3

from .routing import Router, Snapshot

FILE_NAME = "pins"
_MAGIC = b"routing-proxy pins 1\n"


def save(path: Path, snapshot: Snapshot) -> None:
    """Write `snapshot` to `path` so that a kill at any moment leaves the old file or the new one; OSError if it can't."""
    payload = msgspec.msgpack.encode(snapshot)
    scratch = path.with_suffix(".tmp")
    with scratch.open("wb") as file:
        file.write(_MAGIC + blake3(payload).digest() + payload)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def load(path: Path, router: Router) -> str:
    """Restore what `path` holds into `router` and return one line for the log; never raises for a bad file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return f"state: no {path} yet, starting without pins"
    except OSError as error:
        return f"state: cannot read {path} ({error.strerror}), starting without pins"
    head = len(_MAGIC)
    payload = data[head + 32 :]
    if not data.startswith(_MAGIC) or blake3(payload).digest() != data[head : head + 32]:
        return f"state: ignored {path} (damaged or of another version), starting without pins"
    try:
        router.load(msgspec.msgpack.decode(payload, type=Snapshot))
    except msgspec.DecodeError as error:
        return f"state: ignored {path} ({error}), starting without pins"
    return f"state: pins restored from {path}"
