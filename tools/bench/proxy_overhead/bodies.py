"""Chat requests of a given size, as conversations whose later turns extend the earlier ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

SYSTEM = "You are a careful assistant that reads and edits a code base. Answer briefly and name the file you changed."
# bytes of a body -> messages in it: short chats have short messages, a 400 kB agent session has hundreds.
MESSAGES_BY_SIZE = {1_000: 8, 20_000: 25, 400_000: 470}
TURNS = 4


def _filler(length: int) -> str:
    """Return `length` characters of pseudo-random words, the same in every run."""
    rng = random.Random(length)
    letters = rng.choices("abcdefghijklmnopqrstuvwxyz", k=length)
    return "".join(" " if rng.random() < 0.15 else letter for letter in letters)


FILLER = _filler(200_000)


def conversation(number: int, size: int, messages: int, turns: int = TURNS) -> list[bytes]:
    """Return `turns` request bodies of one conversation; the last has `messages` messages and about `size` bytes."""
    rng = random.Random(number * 1_000_003 + size)
    per_message = max(16, (size - len(SYSTEM) - 80) // (messages - 1) - 36)  # 36: role, quotes and commas
    history = [{"role": "system", "content": SYSTEM}]
    for index in range(messages - 1):
        role = "user" if index % 2 == 0 else "assistant"
        start = rng.randrange(len(FILLER) - per_message)
        history.append(
            {"role": role, "content": f"{number:05d}-{index:03d} {FILLER[start : start + per_message - 10]}"}
        )
    history[-1]["role"] = "user"
    ends = [messages - 2 * back for back in reversed(range(turns)) if messages - 2 * back >= 2]
    return [json.dumps({"model": "frank-medium", "messages": history[:end], "max_tokens": 64}).encode() for end in ends]


def write_pool(path: Path, size: int, messages: int, conversations: Iterable[int], turns: int = TURNS) -> None:
    """Write the bodies of these conversations, first turns first, as `<decimal length>\\n<body>` records.

    One pass over the file is every conversation's first turn, then every second turn, and so on: later turns find the
    earlier ones on record, and a router that pins them is measured while pinning.
    """
    of_each = [conversation(number, size, messages, turns) for number in conversations]
    with path.open("wb") as pool:
        for of_one_turn in zip(*of_each, strict=True):
            for body in of_one_turn:
                pool.write(b"%d\n%b" % (len(body), body))
