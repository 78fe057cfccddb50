"""The books: what clients saw against what replicas did. Pure; the rules are the proxy's contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.proxy_soak.load import Outcome

SECOND = 1_000_000_000
NOTICE_TIME = 3 * SECOND  # ns after its boot in which the proxy may still think a replica down (health checks)
GONE_TIME = 1 * SECOND  # ns within which an engine must learn that its client went away
KILL_MARGIN = SECOND // 20  # ns around a kill in which an answer already written may be lost with its connection


@dataclass
class Copy:
    """One copy of a request that reached a replica; times in ns, None where it did not come to that."""

    replica: str
    start: int
    killed: int | None  # when the life of the replica ended in which this copy ran
    refused: bool = False
    byte: int | None = None
    end: int | None = None
    gone: int | None = None
    drop: int | None = None

    @property
    def failed(self) -> bool:
        """Whether the replica closed the connection, or was killed before its answer was complete and safely away."""
        died = self.killed is not None and (self.end is None or self.killed < self.end + KILL_MARGIN)
        return died or self.drop is not None


@dataclass
class Ledger:
    """Copies by request id, ids whose body arrived changed, and the times at which replicas were killed and booted."""

    copies: dict[str, list[Copy]] = field(default_factory=dict)
    corrupt: list[str] = field(default_factory=list)
    kills: dict[str, list[int]] = field(default_factory=dict)
    boots: dict[str, list[int]] = field(default_factory=dict)


def read_ledger(logs: Mapping[str, Iterable[str]], kills: Mapping[str, Sequence[int]]) -> Ledger:
    """Build the ledger from each replica's event lines (see engine.py) and kill times in ns."""
    ledger = Ledger(kills={name: sorted(times) for name, times in kills.items()})
    for name, lines in logs.items():
        ledger.boots[name] = []
        for line in lines:
            stamp, event, request_id = line.split()
            _enter(ledger, name, int(stamp), event, request_id)
    for copies in ledger.copies.values():
        copies.sort(key=lambda copy: copy.start)
    return ledger


def _enter(ledger: Ledger, replica: str, now: int, event: str, request_id: str) -> None:
    if event == "boot":
        ledger.boots[replica].append(now)
    elif event == "corrupt":
        ledger.corrupt.append(request_id)
    elif event in ("start", "refuse"):
        boot = ledger.boots[replica][-1]  # a dying replica may log a little past its kill, never past its next boot
        killed = min((time for time in ledger.kills[replica] if time > boot), default=None)
        ledger.copies.setdefault(request_id, []).append(Copy(replica, now, killed, refused=event == "refuse"))
    else:
        latest = [copy for copy in ledger.copies[request_id] if copy.replica == replica][-1]
        setattr(latest, event, now)


def violations(outcomes: Sequence[Outcome], ledger: Ledger) -> list[str]:
    """Return one sentence for every breach of contract; empty when every request is accounted for."""
    found = [f"{request_id}: its body arrived changed" for request_id in ledger.corrupt]
    asked = [outcome.request_id for outcome in outcomes]
    if len(set(asked)) != len(asked):
        found.append("a request has two outcomes")
    found += [f"{request_id}: nobody asked for it" for request_id in sorted(set(ledger.copies) - set(asked))]
    for outcome in outcomes:
        copies = ledger.copies.get(outcome.request_id, [])
        reasons = [*_run_twice(copies), *_wrong_outcome(outcome, copies, ledger)]
        found += [f"{outcome.request_id} ({outcome.kind}): {reason}" for reason in reasons]
    return found


def _run_twice(copies: Sequence[Copy]) -> Iterable[str]:
    """A further copy is allowed after a refusal, or when the replica died before it answered a byte."""
    for earlier, later in pairwise(copies):
        died_silent = earlier.killed is not None and earlier.killed <= later.start and earlier.byte is None
        if not earlier.refused and not died_silent:
            yield f"run on {earlier.replica}, which neither refused nor died silent, and again on {later.replica}"


def _wrong_outcome(outcome: Outcome, copies: Sequence[Copy], ledger: Ledger) -> Iterable[str]:
    """The outcome must follow from what happened to the request's copies."""
    ran = [copy for copy in copies if not copy.refused]
    if outcome.kind == "wrong":
        yield outcome.detail
    elif outcome.kind in ("answered", "rejected"):
        ended = [copy.replica for copy in ran if copy.end is not None or _killed_as_it_ended(copy, outcome)]
        if ended != [outcome.replica]:
            yield f"answered by {outcome.replica!r}, completed on {ended}"
    elif outcome.kind == "502":
        if not any(copy.failed and (copy.drop or copy.byte) for copy in ran):
            yield "neither dropped by a living replica nor lost in the middle of an answer, so it should have gone on"
    elif outcome.kind == "503":
        if not any(copy.refused for copy in copies) and not _all_down_during(outcome, ledger):
            yield "no replica refused it and not all were down"
    elif outcome.kind == "broken off":
        if not any(copy.failed for copy in ran):
            yield "broken off although no replica failed under it"
    elif outcome.kind == "abandoned":
        for copy in ran:
            learned = copy.end or copy.gone or copy.killed
            if learned is None or learned > outcome.ended + GONE_TIME:
                yield f"{copy.replica} was not told that its client had gone"


def _killed_as_it_ended(copy: Copy, outcome: Outcome) -> bool:
    """Whether the kill came between the last byte of an answer and the line in the log that says so."""
    answered_here = copy.replica == outcome.replica
    return answered_here and copy.killed is not None and abs(copy.killed - outcome.ended) < KILL_MARGIN


def _all_down_during(outcome: Outcome, ledger: Ledger) -> bool:
    """Whether there was an instant of the request at which every replica was down or just back."""
    instants = [outcome.started, *(time for times in ledger.kills.values() for time in times)]
    return any(
        all(_down_at(instant, ledger.kills[name], ledger.boots[name]) for name in ledger.kills)
        for instant in instants
        if outcome.started <= instant <= outcome.ended
    )


def _down_at(instant: int, kills: Sequence[int], boots: Sequence[int]) -> bool:
    """Whether a replica was dead at `instant`, or booted less than NOTICE_TIME before it after a kill."""
    last_kill = max((time for time in kills if time <= instant), default=None)
    if last_kill is None:
        return False
    back = min((time for time in boots if time > last_kill), default=None)
    return back is None or instant < back + NOTICE_TIME
