"""The state of one replica. Pure: it is told what was seen and when."""

from dataclasses import dataclass
from enum import StrEnum

# Bad answers in a row before active checks take a replica out, so that one slow or odd answer does not flap it.
FAILED_CHECKS = 3


class State(StrEnum):
    """What a replica shows as."""

    UP = "up"
    DOWN = "down"
    DRAINING = "draining"
    STALLED = "stalled"


@dataclass(slots=True)
class Replica:
    """What is known of one replica. Times are the caller's clock; `since` is when the state last changed."""

    name: str
    since: float
    draining: bool = False
    down_reason: str = "not checked yet"
    stall_reason: str = ""
    reachable: bool = False
    failed_checks: int = 0

    @property
    def state(self) -> State:
        """Return the state; what keeps requests away longest comes first."""
        if self.down_reason:
            return State.DOWN
        if self.draining:
            return State.DRAINING
        return State.STALLED if self.stall_reason else State.UP

    @property
    def reason(self) -> str:
        """Return why the state is not up, or nothing."""
        if self.down_reason:
            return self.down_reason + (", draining" if self.draining else "")
        return "drained by an operator" if self.draining else self.stall_reason

    def check_passed(self, now: float) -> bool:
        """Take a good answer to a health check; return whether the state changed."""
        self.failed_checks = 0
        self.reachable = True
        return self._change(now, down_reason="")

    def check_failed(self, reason: str, reachable: bool, now: float) -> bool:
        """Take a bad answer, or none, to a health check; return whether the state changed."""
        self.failed_checks += 1
        self.reachable = reachable
        if self.failed_checks < FAILED_CHECKS and not self.down_reason:
            return False
        return self._change(now, down_reason=reason)

    def connect_failed(self, reason: str, now: float) -> bool:
        """Take a connection that could not be made: that counts at once. Return whether the state changed."""
        self.reachable = False
        return self._change(now, down_reason=reason)

    def drain(self, wanted: bool, now: float) -> bool:
        """Take the operator's word; return whether the state changed."""
        return self._change(now, draining=wanted)

    def stall(self, reason: str, now: float) -> bool:
        """Take that requests make no progress (or, with no reason, that they do again)."""
        return self._change(now, stall_reason=reason)

    def badness(self) -> int | None:
        """Return how bad a choice this is when no replica is up, 0 the least; None when trying is pointless.

        A replica that refuses connections is not worth a try: the fast probe notices its return within a second.
        """
        if self.draining:
            return None
        if not self.down_reason:
            return 0
        return 1 if self.reachable else None

    def _change(
        self,
        now: float,
        *,
        down_reason: str | None = None,
        draining: bool | None = None,
        stall_reason: str | None = None,
    ) -> bool:
        before = self.state
        if down_reason is not None:
            self.down_reason = down_reason
        if draining is not None:
            self.draining = draining
        if stall_reason is not None:
            self.stall_reason = stall_reason
        changed = self.state is not before
        if changed:
            self.since = now
        return changed
