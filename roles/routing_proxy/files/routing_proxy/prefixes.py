"""What was read of earlier bodies, found by their bytes, so that a longer body need not be read from its start again.

Clients send a conversation whole with every turn: 400 kB to add 2. JSON is read from left to right, so when a body
begins with the very bytes up to the end of an earlier body's last message, reading those gives the same again. They
are hashed for the comparison and cut out; what is left is read by the same rules, every other field included.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blake3 import blake3
from msgspec import Raw

MIN_BYTES = 8192
"""Size of the smallest body that is remembered; at 12 kB going on takes 20 us instead of 36, the first time 50."""

MAX_PREFIXES = 1024
"""Bodies remembered, 9.5 kB of memory each when they have 64 boundaries: 10 MB when full."""

_BLOCK_BYTES = 2048
_SAMPLE_BYTES = 64
# The only key of the message that stands for those that were cut out. Random, so that no client can send it.
_MARK = secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a list of messages has come to, which is all that reading a longer list needs.

    Messages that follow must leave root and prefix as they are: other lists are not remembered.
    """

    context: tuple[bytes, int]
    """The digest of tools and system, and `affinity_bytes`: all that the rest depends on beside the messages."""
    chain: blake3
    """The hash of everything up to the last message; to be copied, never updated."""
    boundaries: tuple[bytes, ...]
    prefix: bytes | None


@dataclass(frozen=True, slots=True)
class Prefix:
    """The bytes of a body up to the end of its last message."""

    start: int
    """Offset of the first message."""
    end: int
    """Offset after the last message."""
    hashed: blake3
    """The hash of the bytes before `end`; to be copied, never updated."""
    digest: bytes
    """Its digest."""
    reading: Reading


@dataclass(frozen=True, slots=True)
class Unlearned:
    """What has been read and is not remembered yet: a body, and if it begins with a prefix, what `cut` left of it."""

    body: bytes
    reading: Reading
    before: Prefix | None = None
    rest: bytes = b""


def cut(body: bytes, start: int, end: int) -> bytes:
    """Return the body with a mark in place of the messages between two offsets, to be read and given to `later`."""
    return b'%b{"%b":0}%b' % (body[:start], _MARK.encode(), body[end:])


def later(messages: list[dict[str, Any]] | str | None) -> list[dict[str, Any]] | None:
    """Return the messages after the mark.

    None when they do not begin with it: then `start` was not the offset of the first of them, or the body has a second
    list of messages, in whose favour readers forget the first.
    """
    return messages[1:] if isinstance(messages, list) and messages[:1] == [{_MARK: 0}] else None


def end_of(body: bytes, at: int, messages: Sequence[Raw]) -> int | None:
    """Return the offset after `messages`, the first of which begins at offset `at`.

    None if they do not lie there, or not with the same comma and white space between all of them.
    """
    first_end = at + len(messages[0])
    gap = body[first_end : body.find(b"{", first_end)]
    text = gap.join(messages)
    alike = body.startswith(text, at) and (len(messages) == 1 or gap.strip(b" \t\r\n") == b",")
    return at + len(text) if alike else None


class Prefixes:
    """The last MAX_PREFIXES bodies. Not for several threads at once."""

    def __init__(self, max_prefixes: int = MAX_PREFIXES) -> None:
        self.unlearned: Unlearned | None = None
        self._max = max_prefixes
        # By the last whole block's end and the bytes before it: cheap to look for, and then the digest decides.
        self._prefixes: dict[tuple[int, bytes], Prefix] = {}

    def find(self, body: bytes) -> Prefix | None:
        """Return a remembered prefix of `body`, the longest as far as its last bytes tell."""
        for end in range(len(body) // _BLOCK_BYTES * _BLOCK_BYTES, 0, -_BLOCK_BYTES):
            prefix = self._prefixes.get((end, body[end - _SAMPLE_BYTES : end]))
            if prefix is not None:  # only one is compared: hashing 400 kB takes 50 us
                return prefix if blake3(memoryview(body)[: prefix.end]).digest() == prefix.digest else None
        return None

    def add(self, body: bytes, start: int, end: int, reading: Reading, before: Prefix | None = None) -> None:
        """Remember what was read of the messages between two offsets of `body`, which begins with `before`."""
        if before is None:
            hashed = blake3(memoryview(body)[:end])
        else:
            hashed = before.hashed.copy()
            hashed.update(memoryview(body)[before.end : end])
        block = end // _BLOCK_BYTES * _BLOCK_BYTES
        key = (block, body[block - _SAMPLE_BYTES : block])
        self._prefixes.pop(key, None)
        self._prefixes[key] = Prefix(start, end, hashed, hashed.digest(), reading)
        if len(self._prefixes) > self._max:
            del self._prefixes[next(iter(self._prefixes))]
