"""What is on record: which replica served what; bounded, the longest unused goes first."""

from collections import Counter, OrderedDict
from collections.abc import Iterable

Entry = tuple[bytes, str, bytes]
"""Key, replica and conversation of one record; key and conversation are 16-byte digests."""


class Records:
    """A bounded map from a digest to the replica that served it, in order of last use."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` records (under 500 bytes each). `changes` counts what was put and dropped."""
        self.changes = 0
        self._limit = limit
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._conversations: dict[str, Counter[bytes]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> str | None:
        """Return the replica on record for `key`, which counts as a use of it, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: bytes, replica: str, conversation: bytes) -> None:
        """Record that `replica` served `key`, which belongs to `conversation`, in place of what `key` had before."""
        self._drop(key)
        self.changes += 1
        self._entries[key] = (key, replica, conversation)
        self._conversations.setdefault(replica, Counter())[conversation] += 1
        if len(self._entries) > self._limit:
            self._drop(next(iter(self._entries)))

    def forget(self, replica: str) -> None:
        """Drop every record of `replica`."""
        for entry in self.entries():
            if entry[1] == replica:
                self._drop(entry[0])

    def conversations(self, replica: str) -> int:
        """Return how many different conversations `replica` has records of."""
        return len(self._conversations.get(replica, ()))

    def entries(self) -> list[Entry]:
        """Return all records, the longest unused first."""
        return list(self._entries.values())

    def restore(self, entries: Iterable[Entry]) -> None:
        """Record what `entries()` returned earlier."""
        for entry in entries:
            self.put(*entry)

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.changes += 1
        _, replica, conversation = entry
        counts = self._conversations[replica]
        counts[conversation] -= 1
        if not counts[conversation]:
            del counts[conversation]
