"""Which replica gets a request. Pure: no sockets, no clock.

Two kinds of request want opposite things. A request that goes on with a conversation belongs on the replica that has
the conversation cached: measured on two R9700, 1.1 s to the first token of a 90k-token turn against 2.7 s when turns
alternate. Everything else belongs on all replicas at once: a cold burst of 16 requests took 20.0 s spread by a counter
and 30.1 s placed by a hash of its shared prefix, because one card did all the prefilling. So sharing a prefix is not
enough to be pinned; only having been served before is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from blake3 import blake3

from .canonical import DIGEST_BYTES
from .identity import Identity
from .records import Entry, Records

POLICIES = ("adaptive", "roundrobin", "affinity")
"""adaptive: continuations are pinned, the rest is spread. roundrobin: a counter alone. affinity: a hash of the first
AFFINITY_BYTES. The last two are there to measure the first one against."""

MAX_RECORDS = 32_768
"""Records kept by default, one a request, 15 MB when full: a conversation is remembered for so many requests."""


class Decision(StrEnum):
    """Why a replica was chosen: the value of the X-Fleet-Decision header and of the metrics' `decision` label."""

    PINNED = "pinned"
    SPREAD = "spread"
    SESSION = "session"
    FAILOVER = "failover"


class Choice(msgspec.Struct, frozen=True):
    """The replica a request goes to, and why."""

    replica: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a router has on record, the longest unused first."""

    conversations: list[Entry]
    responses: list[Entry]


class Turns:
    """A counter over replicas that come and go: of equals, the turn is the one's that had none for longest."""

    def __init__(self) -> None:
        self._count = 0
        self._last: dict[str, int] = {}

    def take(self, replicas: Sequence[str], load: Mapping[str, int]) -> str:
        """Return the least loaded of `replicas` whose turn it is, and count its turn."""
        replica = min(replicas, key=lambda name: (load.get(name, 0), self._last.get(name, 0)))
        self._count += 1
        self._last[replica] = self._count
        return replica


class Router:
    """A routing policy and its records."""

    def __init__(self, policy: str, replicas: Sequence[str], max_records: int = MAX_RECORDS) -> None:
        """Route over the configured `replicas` by `policy`, one of POLICIES; ValueError for any other."""
        if policy not in POLICIES:
            raise ValueError(f"unknown routing policy {policy!r}, use one of {', '.join(POLICIES)}")
        self._policy = policy
        self._replicas = frozenset(replicas)
        self._conversation_turns = Turns()
        self._other_turns = Turns()
        self._conversations = Records(max_records)
        self._responses = Records(max_records)

    def choose(self, identity: Identity, serving: Sequence[str], in_flight: Mapping[str, int]) -> Choice | None:
        """Return the replica for a request, one of `serving`; None when `serving` is empty.

        `serving` names the replicas that can take new work, `in_flight` their requests now (0 if absent). FAILOVER
        means that the request belongs to a replica that is not serving. That the same request was tried elsewhere
        before is the caller's knowledge.
        """
        if not serving:
            return None
        decision, home = self._home(identity, serving)
        if home is not None and home not in serving:
            decision, home = Decision.FAILOVER, None
        return Choice(home or self._spread(identity, serving, in_flight), decision)

    def owner(self, identity: Identity) -> str | None:
        """Return the replica that made the stored response a request is about; None if unknown or not about one.

        Engines keep responses in their memory, so no other replica can answer. One that is only drained or stalled
        still can, though `choose` avoids it; when it is dead so is the response, and any replica's "not found" is true.
        """
        return self._responses.get(_key(identity.response_id)) if identity.response_id else None

    def record(self, identity: Identity, replica: str) -> None:
        """Record that `replica` was given the request: after `choose`, and again for another one at a failover."""
        conversation = identity.boundaries[0] if identity.boundaries else b""
        if identity.session is not None:
            conversation = _key(identity.session)
            self._conversations.put(conversation, replica, conversation)
        if identity.boundaries:
            self._conversations.put(identity.boundaries[-1], replica, conversation)

    def record_response(self, response_id: str, replica: str) -> None:
        """Record that `replica` made the stored response `response_id`."""
        self._responses.put(_key(response_id), replica, b"")

    def forget(self, replica: str) -> None:
        """Drop the conversations of a replica that restarted: its cache is gone.

        Its responses stay on record: asked for one, it says "not found" itself, and nobody else is bothered.
        """
        self._conversations.forget(replica)

    def pins(self, replica: str) -> int:
        """Return how many conversations (a named session is one) are on record at `replica`."""
        return self._conversations.conversations(replica)

    @property
    def revision(self) -> int:
        """A number that grows with every change of what `dump` returns."""
        return self._conversations.changes + self._responses.changes

    def dump(self) -> Snapshot:
        """Return a copy of everything on record."""
        return Snapshot(self._conversations.entries(), self._responses.entries())

    def load(self, snapshot: Snapshot) -> None:
        """Record what `snapshot` holds of the configured replicas."""
        self._conversations.restore(entry for entry in snapshot.conversations if entry[1] in self._replicas)
        self._responses.restore(entry for entry in snapshot.responses if entry[1] in self._replicas)

    def _home(self, identity: Identity, serving: Sequence[str]) -> tuple[Decision, str | None]:
        """Return where the request belongs by the policy (None: anywhere) and the decision to report for that."""
        home = self.owner(identity)  # under every policy: elsewhere the request fails
        if home is None and self._policy == "affinity" and identity.prefix is not None:
            home = _by_hash(identity.prefix, serving)
        if home is None and self._policy == "adaptive":
            if identity.session is not None:
                home = self._conversations.get(_key(identity.session))
                return Decision.SESSION, home or self._continued(identity, serving)
            home = self._continued(identity, serving)
        return (Decision.SPREAD if home is None else Decision.PINNED), home

    def _continued(self, identity: Identity, serving: Sequence[str]) -> str | None:
        """Return the replica that served what the request goes on with: the longest earlier list on record."""
        for boundary in reversed(identity.boundaries[:-1]):
            replica = self._conversations.get(boundary)
            if replica is not None:
                return replica
        if identity.history and identity.root is not None:
            return _by_hash(identity.root, serving)  # nobody remembers: at least the same replica every time
        return None

    def _spread(self, identity: Identity, serving: Sequence[str], in_flight: Mapping[str, int]) -> str:
        """Return the replica with fewest requests in flight, of equals the one whose turn it is."""
        # A client that lists the models or counts tokens before every chat must not send all its chats to one replica.
        asks = identity.asks or identity.boundaries
        turns = self._conversation_turns if asks else self._other_turns
        return turns.take(serving, {} if self._policy == "roundrobin" else in_flight)


def _key(name: str) -> bytes:
    return blake3(name.encode(errors="surrogatepass")).digest(DIGEST_BYTES)


def _by_hash(key: bytes, replicas: Sequence[str]) -> str:
    """Return one of `replicas` by rendezvous hashing: when one goes, only the keys it had move."""
    return max(replicas, key=lambda name: blake3(key + name.encode()).digest(DIGEST_BYTES))
