"""A simulated fleet with the real proxy, scraped by a real Prometheus under the jobs and labels of the deployment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.routing.fleet import MODEL, SimulatedFleet

from .prometheus import Prometheus, Target, rootfs, running

HOST = "dankserver"


def targets(fleet: SimulatedFleet) -> list[Target]:
    """Return what Prometheus scrapes: each engine and the proxy."""
    engines = [
        Target(MODEL, url.removeprefix("http://"), {"fleet": MODEL, "replica": name, "host": HOST})
        for name, url in zip(fleet.names, fleet.urls, strict=True)
    ]
    return [*engines, Target(f"{MODEL}-proxy", fleet.url.removeprefix("http://"), {"fleet": MODEL, "host": HOST})]


@asynccontextmanager
async def scraped_fleet(
    folder: Path, interval: float, time_scale: float
) -> AsyncIterator[tuple[SimulatedFleet, Prometheus]]:
    """Run two simulated cards, the proxy and Prometheus, which keeps its data in `folder`.

    `interval` is in seconds, `time_scale` in wall seconds a second of model time.
    """
    root = await asyncio.to_thread(rootfs)
    async with SimulatedFleet("adaptive", 2, time_scale, folder) as fleet:
        with running(root, folder, targets(fleet), interval) as prometheus:
            yield fleet, prometheus
