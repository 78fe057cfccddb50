"""Active checks: who answers, who was restarted, and who only seems alive."""

import asyncio

from .config import Config
from .fleet import Fleet, Member
from .replicas import State
from .upstream import os_reason

# How often a replica that is down is checked, so that it serves again within two seconds of its return.
_PROBE_SECONDS = 0.5
_STEPS = b"vllm:iteration_tokens_total_count"
_STARTED = b"process_start_time_seconds"


class Health:
    """Watches every replica until cancelled."""

    def __init__(self, config: Config, fleet: Fleet) -> None:
        self._config = config
        self._fleet = fleet
        self._loop = asyncio.get_running_loop()

    async def check_all(self) -> None:
        """Check every replica once."""
        await asyncio.gather(*(self._check(member) for member in self._fleet.members.values()))

    async def watch_all(self) -> None:
        """Check every replica for ever: every HEALTH_INTERVAL, and faster while it is down."""
        async with asyncio.TaskGroup() as tasks:
            for member in self._fleet.members.values():
                tasks.create_task(self._watch(member))
                tasks.create_task(self._watch_progress(member))

    async def _watch(self, member: Member) -> None:
        while True:
            interval = self._config.health_interval
            if member.replica.state is State.DOWN:
                interval = min(interval, _PROBE_SECONDS)
            try:
                await asyncio.wait_for(member.nudge.wait(), interval)
                await asyncio.sleep(min(self._config.health_interval, _PROBE_SECONDS))
            except TimeoutError:
                pass
            member.nudge.clear()
            member.pool.drop_stale()
            await self._check(member)

    async def _check(self, member: Member) -> None:
        try:
            status, _ = await member.pool.fetch("/health", self._config.connect_timeout)
        except OSError as error:
            # A refused or unreachable port can't serve; a health check that timed out may still be one that can.
            self._fleet.check_failed(member, os_reason(error), isinstance(error, TimeoutError))
            return
        if status != 200:
            self._fleet.check_failed(member, f"/health answered {status}", reachable=True)
            return
        if member.may_have_restarted or member.pool.closed_by_engine:
            await self._notice_restart(member)
        self._fleet.check_passed(member)

    async def _notice_restart(self, member: Member) -> None:
        """Find out whether the process behind a replica is another one than before."""
        was_down = member.replica.state is State.DOWN
        first = member.may_have_restarted and member.started == 0.0 and not self._fleet.router.pins(member.name)
        member.may_have_restarted = member.pool.closed_by_engine = False
        started = (await self._read(member, _STARTED)) or 0.0
        before, member.started = member.started, started
        if not first and (started != before if started and before else was_down):
            self._fleet.restarted(member)

    async def _watch_progress(self, member: Member) -> None:
        """Mark a replica whose requests get neither bytes nor engine steps: a long prefill steps, a hung engine not."""
        patience = self._config.stall_after
        interval = min(patience / 8, 5.0)
        steps: float | None = None
        while True:
            await asyncio.sleep(interval)
            silent = self._loop.time() - member.progress
            waiting = any(not work.paused for work in member.work)
            if silent < patience / 4 or (not waiting and not member.replica.stall_reason):
                steps = None
                if member.replica.stall_reason and silent < patience:
                    self._fleet.stall(member, "")
                continue
            seen = await self._read(member, _STEPS)
            if seen is not None and steps is not None and seen != steps:
                member.progress = self._loop.time()
            steps = seen if seen is not None else steps
            silent = self._loop.time() - member.progress
            if silent >= patience and waiting and not member.replica.stall_reason and steps is not None:
                self._fleet.stall(member, f"requests in flight, but no byte and no engine step for {silent:.0f} s")

    async def _read(self, member: Member, name: bytes) -> float | None:
        """Return the sum of a metric over its series, None if the replica does not tell."""
        try:
            status, body = await member.pool.fetch("/metrics", self._config.connect_timeout)
        except OSError:
            return None
        values = [line.rpartition(b" ")[2] for line in body.splitlines() if line.startswith((name + b"{", name + b" "))]
        try:
            return sum(map(float, values)) if status == 200 and values else None
        except ValueError:
            return None
