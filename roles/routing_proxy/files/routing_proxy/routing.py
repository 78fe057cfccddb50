"""Which replica gets a request. Pure: no sockets, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from blake3 import blake3

from .identity import Identity
from .records import Entry, Records


class Decision(StrEnum):
    """Why a replica was chosen: the value of the X-Fleet-Decision header and of the `decision` label."""

    PINNED = "pinned"
    SPREAD = "spread"
    SESSION = "session"
    FAILOVER = "failover"


@dataclass(frozen=True, slots=True)
class Choice:
    """The replica a request goes to, and why."""

    replica: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a router has on record, the longest unused first."""

    conversations: list[Entry]
    responses: list[Entry]


POLICIES = ("adaptive", "roundrobin", "affinity")


class Router:
    """The routing policy and its records."""

    def __init__(self, policy: str, replicas: Sequence[str], max_records: int = 65_536) -> None:
        """Route over `replicas` by `policy`, one of POLICIES; ValueError for another."""
        if policy not in POLICIES:
            raise ValueError(f"unknown routing policy {policy!r}: use one of {', '.join(POLICIES)}")
        self._policy = policy
        self._turn = dict.fromkeys(replicas, 0)
        self._turns = 0
        self._conversations = Records(max_records)
        self._responses = Records(max_records)
        self.revision = 0

    def choose(self, identity: Identity, serving: Sequence[str], in_flight: Mapping[str, int]) -> Choice | None:
        """Return the replica for a request, one of `serving`, or None when `serving` is empty."""
        if not serving:
            return None
        decision, home = self._home(identity, serving)
        if home is None:
            return Choice(self._spread(serving, in_flight), decision)
        if home in serving:
            return Choice(home, decision)
        return Choice(self._spread(serving, in_flight), Decision.FAILOVER)

    def owner(self, identity: Identity) -> str | None:
        """Return the one replica that can answer a request for a stored response, serving or not; None when any can."""
        return self._responses.get(_key("response", identity.response_id)) if identity.response_id else None

    def record(self, identity: Identity, replica: str) -> None:
        """Put on record that `replica` was given this request."""
        self.revision += 1
        if identity.session is not None:
            key = _key("session", identity.session)
            self._conversations.put(key, replica, key)
        if identity.boundaries and identity.root is not None:
            self._conversations.put(identity.boundaries[-1], replica, identity.root)

    def record_response(self, response_id: str, replica: str) -> None:
        """Put on record that `replica` made the stored response `response_id`."""
        self.revision += 1
        key = _key("response", response_id)
        self._responses.put(key, replica, key)

    def forget(self, replica: str) -> None:
        """Drop what `replica` had cached: it restarted. Its responses stay on record: nobody else has them either."""
        self.revision += 1
        self._conversations.forget(replica)

    def pins(self, replica: str) -> int:
        """Return how many conversations and sessions are on record at `replica`."""
        return self._conversations.conversations(replica)

    def dump(self) -> Snapshot:
        """Return everything on record."""
        return Snapshot(self._conversations.entries(), self._responses.entries())

    def load(self, snapshot: Snapshot) -> None:
        """Put `snapshot` on record, without what belongs to replicas that are not configured."""
        self._conversations.restore(entry for entry in snapshot.conversations if entry[1] in self._turn)
        self._responses.restore(entry for entry in snapshot.responses if entry[1] in self._turn)

    def _home(self, identity: Identity, serving: Sequence[str]) -> tuple[Decision, str | None]:
        owner = self.owner(identity)
        if owner is not None:
            return Decision.PINNED, owner
        if self._policy == "roundrobin":
            return Decision.SPREAD, None
        if self._policy == "affinity":
            if identity.prefix is None:
                return Decision.SPREAD, None
            return Decision.PINNED, _rendezvous(identity.prefix, serving)
        if identity.session is not None:
            home = self._conversations.get(_key("session", identity.session)) or self._continued(identity, serving)
            return Decision.SESSION, home
        home = self._continued(identity, serving)
        return (Decision.SPREAD if home is None else Decision.PINNED), home

    def _continued(self, identity: Identity, serving: Sequence[str]) -> str | None:
        for boundary in reversed(identity.boundaries[:-1]):
            replica = self._conversations.get(boundary)
            if replica is not None:
                return replica
        if len(identity.boundaries) > 1 and identity.root is not None:
            return _rendezvous(identity.root, serving)
        return None

    def _spread(self, serving: Sequence[str], in_flight: Mapping[str, int]) -> str:
        self._turns += 1
        loads = {} if self._policy == "roundrobin" else in_flight
        replica = min(serving, key=lambda name: (loads.get(name, 0), self._turn[name]))
        self._turn[replica] = self._turns
        return replica


def _key(kind: str, name: str) -> bytes:
    return blake3(f"{kind}\0{name}".encode("utf-8", "surrogatepass")).digest(16)


def _rendezvous(key: bytes, replicas: Sequence[str]) -> str:
    return max(replicas, key=lambda name: blake3(key + name.encode()).digest(8))
