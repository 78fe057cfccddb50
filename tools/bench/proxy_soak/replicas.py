"""The three replicas: started, killed with SIGKILL, started again on the same port."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

import aiohttp
from bench.proxy_overhead.processes import REPOSITORY, Child, ChildError, python_env, reserve_port

NAMES = ("a", "b", "c")
UP_TIMEOUT = 20.0  # seconds until the proxy must have noticed that a replica is back
DOWN_TIME = (0.5, 1.0)  # seconds between a kill and the next start: time for the proxy to see the port refuse
OUTAGE_EVERY = 7  # every so many kills all replicas die at once


class Replica:
    """One replica: its port, its event log and the times (CLOCK_MONOTONIC ns) at which it was killed."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.name = name
        self.scratch = scratch
        self.kills: list[int] = []
        self.child: Child | None = None
        self.reserved = reserve_port()
        self.port: int = self.reserved.getsockname()[1]

    @property
    def log(self) -> Path:
        """The file of its events, of all its lives."""
        return self.scratch / f"{self.name}.events"

    def start(self) -> None:
        """Start a new life."""
        argv = [sys.executable, "-m", "bench.proxy_soak.engine", self.name, str(self.port), str(self.log)]
        self.child = Child(self.name, argv, python_env(REPOSITORY / "tools"), self.scratch / f"{self.name}.out")

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone, so that its port refuses."""
        assert self.child
        self.kills.append(time.monotonic_ns())
        self.child.kill()

    def stop(self) -> None:
        """End it for good and give up its port."""
        if self.child:
            self.child.stop()
        self.reserved.close()


async def wait_up(session: aiohttp.ClientSession, base: str, count: int) -> None:
    """Return when the proxy reports `count` replicas up; raise ChildError after UP_TIMEOUT seconds."""
    deadline = time.monotonic() + UP_TIMEOUT
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        async with session.get(f"{base}/health") as response:
            states = {name: entry["state"] for name, entry in (await response.json())["replicas"].items()}
        if sum(state == "up" for state in states.values()) == count:
            return
        await asyncio.sleep(0.05)
    raise ChildError(f"the proxy does not see {count} replicas up after {UP_TIMEOUT:.0f} s: {states}")


async def kill_in_turns(
    session: aiohttp.ClientSession, base: str, replicas: list[Replica], kills: int, rng: random.Random
) -> None:
    """Kill and restart replicas at random until `kills` have died; each round ends with all of them up again."""
    rounds = 0
    while sum(len(replica.kills) for replica in replicas) < kills:
        rounds += 1
        await asyncio.sleep(rng.uniform(0.1, 0.5))
        victims = replicas if rounds % OUTAGE_EVERY == 0 else rng.sample(replicas, rng.choice((1, 1, 2)))
        for victim in victims:
            victim.kill()
        await asyncio.sleep(rng.uniform(*DOWN_TIME))
        for victim in victims:
            victim.start()
        await wait_up(session, base, len(replicas))
