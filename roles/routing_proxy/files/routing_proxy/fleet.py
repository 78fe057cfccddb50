"""The replicas together: which of them serve, what each is working on, and what changes that."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from . import log, sockets
from .config import Backend, Config
from .identity import Identity
from .metrics import Metrics
from .pool import Pool
from .progress import Progress
from .replicas import Replica, State
from .routing import Choice, Decision, Router

# A replica that gets no new conversations in these states, but answers for what it has.
_STILL_ANSWERS = (State.DRAINING, State.STALLED)


class Work(Protocol):
    """A request in flight at a replica."""

    paused: bool

    def interrupt(self) -> None:
        """End it now: the proxy stops."""


@dataclass(eq=False, slots=True)
class Member:
    """A replica, the connections to it and the requests in flight at it; `label` is its name in headers."""

    backend: Backend
    replica: Replica
    pool: Pool
    progress: Progress
    label: bytes
    host_header: bytes
    work: set[Work] = field(default_factory=set)
    # Something was seen that a restart would explain: the next good health check finds out.
    may_have_restarted: bool = False
    # Its port refused connections, so that whatever answers there now is a new process.
    was_gone: bool = False
    # The unix time its process started, 0 if it does not tell, None before it was asked.
    started: float | None = None
    # Wakes its health check.
    nudge: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """Return the replica's name."""
        return self.backend.name


class Fleet:
    """All replicas, and the one place where their states change."""

    def __init__(self, config: Config, router: Router, metrics: Metrics) -> None:
        self.router = router
        self.metrics = metrics
        self._loop = asyncio.get_running_loop()
        now = time.time()
        self.members = {
            backend.name: Member(
                backend,
                Replica(backend.name, now),
                Pool(backend, config.connect_timeout),
                Progress(config.stall_after),
                backend.name.encode(),
                backend.authority.encode(),
            )
            for backend in config.backends
        }
        self._in_flight = dict.fromkeys(self.members, 0)
        self._up: tuple[str, ...] = ()
        # Replicas that a health check took out and that no request has had to do without yet, with the reason.
        self._missing: dict[str, str] = {}
        metrics.gauges = self._gauges

    # Requests.

    def choose(self, identity: Identity, tried: Collection[str]) -> Choice | None:
        """Return where a request goes, never to a replica it `tried`; None when no replica is worth a try."""
        maker = self.router.owner(identity)
        if maker is not None and maker not in tried and self.members[maker].replica.state in _STILL_ANSWERS:
            # Only it has the response; another engine's "not found" would be wrong.
            return Choice(maker, Decision.PINNED)
        choice = self.router.choose(identity, self.candidates(tried), self._in_flight)
        if choice is not None and self._missing:
            self._tell_missing(choice.replica)
        return choice

    def _tell_missing(self, following: str) -> None:
        """Leave the failover line of replicas that a health check took out before a request could find out."""
        for name, reason in self._missing.items():
            log.failover(name, reason, following)
        self._missing.clear()

    def candidates(self, tried: Collection[str]) -> tuple[str, ...]:
        """Return the replicas a request may go to: those that are up; if there is none, the least bad ones."""
        serving = tuple(name for name in self._up if name not in tried) if tried else self._up
        if serving:
            return serving
        badness = {name: member.replica.badness() for name, member in self.members.items() if name not in tried}
        least = min((bad for bad in badness.values() if bad is not None), default=None)
        return () if least is None else tuple(name for name, bad in badness.items() if bad == least)

    def enter(self, member: Member, work: Work) -> None:
        """Count a request in, before it is sent, so that a burst sees itself."""
        if not member.work:
            self.moved(member)
        member.work.add(work)
        self._in_flight[member.name] += 1

    def leave(self, member: Member, work: Work) -> None:
        """Count a request out."""
        member.work.discard(work)
        self._in_flight[member.name] -= 1

    def moved(self, member: Member) -> None:
        """A replica got on with a request."""
        member.progress.moved(self._loop.time())

    # What is seen of a replica.

    def check_passed(self, member: Member) -> None:
        """A health check was answered well."""
        self._missing.pop(member.name, None)
        self._note(member, member.replica.check_passed(time.time()))

    def check_failed(self, member: Member, problem: str | OSError) -> None:
        """A health check was answered badly, or not at all."""
        member.may_have_restarted = True
        member.was_gone |= isinstance(problem, ConnectionRefusedError)
        # Nothing can be sent to a port that refuses; a replica too slow for a check may still be able to serve.
        reachable = isinstance(problem, str | TimeoutError)
        reason = problem if isinstance(problem, str) else sockets.problem(problem)
        served = member.name in self._up
        self._note(member, member.replica.check_failed(reason, reachable, time.time()))
        if served and member.name not in self._up:
            self._missing[member.name] = reason

    def connect_failed(self, member: Member, problem: OSError) -> None:
        """A connection could not be made: no request goes there until a health check passes."""
        member.may_have_restarted = True
        member.was_gone |= isinstance(problem, ConnectionRefusedError)
        self._note(member, member.replica.connect_failed(sockets.problem(problem), time.time()))
        member.pool.close()
        member.nudge.set()

    def stall(self, member: Member, reason: str) -> None:
        """Requests make no progress; no reason takes that back."""
        self._note(member, member.replica.stall(reason, time.time()))

    def drain(self, member: Member, wanted: bool) -> None:
        """An operator drains a replica, or takes that back."""
        self._note(member, member.replica.drain(wanted, time.time()))

    def restarted(self, member: Member) -> None:
        """A replica runs as a new process: whatever it had cached is gone."""
        log.say(f"{member.name} restarted, its {self.router.pins(member.name)} conversations are forgotten")
        self.router.forget(member.name)
        self.stall(member, "")

    def _note(self, member: Member, changed: bool) -> None:
        if not changed:
            return
        replica = member.replica
        self._up = tuple(name for name, other in self.members.items() if other.replica.state is State.UP)
        log.say(f"{member.name} is {replica.state}" + (f" ({replica.reason})" if replica.reason else ""))

    # What is told of it.

    def is_last_serving(self, member: Member) -> bool:
        """Tell whether without this replica none would be left that serves."""
        return self._up == (member.name,)

    def health(self) -> tuple[bool, dict[str, object]]:
        """Return whether any replica can serve, and the answer to GET /health."""
        states = {
            name: {"state": member.replica.state, "reason": member.replica.reason}
            for name, member in self.members.items()
        }
        alive = any(member.replica.state in (State.UP, State.STALLED) for member in self.members.values())
        status = "ok" if len(self._up) == len(self.members) else "degraded" if alive else "down"
        return alive, {"status": status, "replicas": states}

    def replicas(self) -> list[dict[str, object]]:
        """Return the answer to GET /replicas; `since` is unix time in seconds."""
        return [
            {
                "name": member.name,
                "url": member.backend.url,
                "state": member.replica.state,
                "reason": member.replica.reason,
                "since": round(member.replica.since, 3),
                "in_flight": len(member.work),
                "pins": self.router.pins(member.name),
            }
            for member in self.members.values()
        ]

    def _gauges(self) -> list[tuple[str, int, bool, int]]:
        return [
            (name, len(member.work), name in self._up, self.router.pins(name)) for name, member in self.members.items()
        ]
