"""What is on record: which replica served what, bounded, the longest unused forgotten first."""

from collections import Counter, OrderedDict
from collections.abc import Iterable

Entry = tuple[bytes, str, bytes]
"""(key, replica, conversation): 16-byte digests and a replica's name."""


class Records:
    """A bounded map from a digest to the replica that served it, in order of last use."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` entries."""
        self._limit = limit
        self._entries: OrderedDict[bytes, tuple[str, bytes]] = OrderedDict()
        self._conversations: dict[str, Counter[bytes]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> str | None:
        """Return the replica on record for `key` and mark the entry as used, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: bytes, replica: str, conversation: bytes) -> None:
        """Record that `replica` served `key`, a part of `conversation`; the longest unused entry makes room."""
        old = self._entries.pop(key, None)
        if old is not None:
            self._uncount(*old)
        self._entries[key] = (replica, conversation)
        self._conversations.setdefault(replica, Counter())[conversation] += 1
        if len(self._entries) > self._limit:
            self._uncount(*self._entries.popitem(last=False)[1])

    def forget(self, replica: str) -> None:
        """Drop every entry of `replica`."""
        for key in [key for key, entry in self._entries.items() if entry[0] == replica]:
            del self._entries[key]
        self._conversations.pop(replica, None)

    def conversations(self, replica: str) -> int:
        """Return how many different conversations have an entry at `replica`."""
        return len(self._conversations.get(replica, ()))

    def entries(self) -> list[Entry]:
        """Return all entries, the longest unused first."""
        return [(key, replica, conversation) for key, (replica, conversation) in self._entries.items()]

    def restore(self, entries: Iterable[Entry]) -> None:
        """Put `entries`, as `entries()` returned them, on record."""
        for key, replica, conversation in entries:
            self.put(key, replica, conversation)

    def _uncount(self, replica: str, conversation: bytes) -> None:
        counts = self._conversations[replica]
        counts[conversation] -= 1
        if not counts[conversation]:
            del counts[conversation]
