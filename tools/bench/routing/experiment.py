"""Runs one policy on one workload: through the real proxy in scaled time, or in virtual time."""

import asyncio
import tempfile
from pathlib import Path

from bench.harness.endpoint import Client, Endpoint
from bench.harness.loops import Turn, run

from .fleet import CPU_SHARE_LIMIT, MODEL, SimulatedFleet
from .policies import make
from .virtual import VirtualFleet, replica_names
from .workloads import Workload, scaled


class TooSlowError(RuntimeError):
    """The machine can't keep up with the time scale, so no figure would mean anything."""


async def through_proxy(workload: Workload, policy: str, time_scale: float) -> list[Turn]:
    """Serve a workload by fresh simulators behind the real proxy; return its turns, in wall seconds.

    Raises:
        TooSlowError: a simulator was busy for most of a core.
        ChildError: something did not start.
    """
    with tempfile.TemporaryDirectory(prefix="bench-routing-") as folder:
        async with SimulatedFleet(policy, workload.cards, time_scale, Path(folder)) as fleet:
            async with Client(Endpoint(fleet.url, MODEL), ignore_eos=True) as client:
                loops = [scaled(loop, time_scale) for loop in workload.loops]
                serving = asyncio.create_task(run(client, loops))
                if workload.kill_at is not None:
                    await asyncio.wait({serving}, timeout=workload.kill_at * time_scale)
                    fleet.kill(fleet.names[-1])
                turns = await serving
            if workload.kill_at is None and fleet.busiest_share() > CPU_SHARE_LIMIT:
                raise TooSlowError(
                    f"a simulator took {fleet.busiest_share():.0%} of a core at time scale {time_scale}: "
                    "use a larger --time-scale, or wait until the machine is idle"
                )
    return turns


def virtually(workload: Workload, policy: str) -> list[Turn]:
    """Serve a workload in virtual time; return its turns, in seconds of model time."""
    return VirtualFleet(make(policy, replica_names(workload.cards)), workload.cards).run(workload.loops)
