"""Active checks: who answers, who was restarted, and who only seems alive."""

import asyncio

from .config import Config
from .fleet import Fleet, Member
from .replicas import State

# How often a replica that is down is checked, so that it serves again within two seconds of its return.
_PROBE_SECONDS = 0.5
# Counts engine steps, those of a prefill among them.
_STEPS = b"vllm:iteration_tokens_total_count"
_STARTED = b"process_start_time_seconds"


class Health:
    """Watches every replica until cancelled."""

    def __init__(self, config: Config, fleet: Fleet, pins_saved_at: float) -> None:
        """Watch `fleet`; pins that were read from disk are as old as `pins_saved_at`, in unix time."""
        self._config = config
        self._fleet = fleet
        self._pins_saved_at = pins_saved_at
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
            fast = min(self._config.health_interval, _PROBE_SECONDS)
            down = member.replica.state is State.DOWN
            try:
                await asyncio.wait_for(member.nudge.wait(), fast if down else self._config.health_interval)
                await asyncio.sleep(fast)
            except TimeoutError:
                pass
            member.nudge.clear()
            member.pool.drop_stale()
            await self._check(member)

    async def _check(self, member: Member) -> None:
        try:
            status, _ = await member.pool.fetch("/health", self._config.connect_timeout)
        except OSError as error:
            self._fleet.check_failed(member, error)
            return
        if status != 200:
            self._fleet.check_failed(member, f"/health answered {status}")
            return
        if member.started is None or member.may_have_restarted or member.pool.closed_by_engine:
            await self._notice_restart(member)
        self._fleet.check_passed(member)

    async def _notice_restart(self, member: Member) -> None:
        """Find out whether the process behind a replica is another one than before: its cache is empty then."""
        was_down = member.may_have_restarted and member.replica.state is State.DOWN
        restarted = was_down or member.was_gone
        member.may_have_restarted = member.was_gone = member.pool.closed_by_engine = False
        before, member.started = member.started, await self._read(member, _STARTED) or 0.0
        if member.started and before != 0.0:
            # Its own word counts more than what the failures look like.
            restarted = member.started > self._pins_saved_at if before is None else member.started != before
        if restarted:
            self._fleet.restarted(member)

    async def _watch_progress(self, member: Member) -> None:
        patience, progress = self._config.stall_after, member.progress
        while True:
            await asyncio.sleep(min(patience / 8, 5.0))
            stalled = bool(member.replica.stall_reason)
            # A request whose client does not read waits for that client, not for the engine.
            waiting = any(not work.paused for work in member.work)
            if progress.is_silent(self._loop.time()) and (waiting or stalled):
                progress.counted(await self._read(member, _STEPS), self._loop.time())
            now = self._loop.time()
            if stalled and not waiting and now - progress.moved_at >= 2 * patience:
                # Nothing is left that could show progress: new requests will tell.
                progress.moved(now)
            if stalled and not progress.is_stalled(now):
                self._fleet.stall(member, "")
            elif waiting and not stalled and progress.is_stalled(now):
                self._fleet.stall(member, f"requests in flight, but no byte and no engine step for {patience:g} s")

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
