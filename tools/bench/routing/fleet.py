"""Engines as processes with the real proxy in front of them, fresh and with cold caches."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import aiohttp
from bench.proxy_overhead.peers import PROXY_PATH
from bench.proxy_overhead.processes import REPOSITORY, Child, free_ports, python_env
from bench.proxy_soak.replicas import wait_up
from engine_simulator.deployment import DEPLOYED_FLAGS

from .virtual import replica_names

MODEL = "frank-medium"
CPU_SHARE_LIMIT = 0.8
"""Share of a core above which a simulator counts as too slow for its time scale."""


def start_proxy(policy: str, engines: Mapping[str, int], scratch: Path) -> tuple[Child, int]:
    """Start the routing proxy in front of engines (name to port); return it and its port."""
    (port,) = free_ports(1)
    backends = ",".join(f"{name}=http://127.0.0.1:{engine}" for name, engine in engines.items())
    env = python_env(PROXY_PATH)
    env |= {"HOST": "127.0.0.1", "PORT": str(port), "BACKENDS": backends, "ROUTING": policy}
    return Child("routing_proxy", [sys.executable, "-m", "routing_proxy"], env, scratch / "proxy.log"), port


class SimulatedFleet:
    """Simulated replicas and the proxy. Use as an asynchronous context manager; every process has ended on exit."""

    def __init__(self, policy: str, cards: int, time_scale: float, scratch: Path) -> None:
        self._policy = policy
        self._scratch = scratch
        self._flags = [*DEPLOYED_FLAGS, "--time-scale", str(time_scale), "--sim-boot-seconds", "0"]
        self.names = replica_names(cards)
        self.engines: dict[str, Child] = {}
        self.urls: list[str] = []

    async def __aenter__(self) -> "SimulatedFleet":
        ports = dict(zip(self.names, free_ports(len(self.names)), strict=True))
        self.urls = [f"http://127.0.0.1:{port}" for port in ports.values()]
        try:
            for name, port in ports.items():
                self.engines[name] = self._start_engine(name, port)
            for name, port in ports.items():
                await asyncio.to_thread(self.engines[name].wait_listening, port)
            self._proxy, port = start_proxy(self._policy, ports, self._scratch)
            await asyncio.to_thread(self._proxy.wait_listening, port)
            self.url = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession() as session:
                await wait_up(session, self.url, len(self.names))
        except BaseException:
            await self._stop()
            raise
        self._began = asyncio.get_running_loop().time()
        self._cpu = {name: child.cpu_seconds() for name, child in self.engines.items()}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    def kill(self, name: str) -> None:
        """SIGKILL a replica; its port refuses from then on."""
        self.engines[name].kill()

    def restart(self, name: str) -> None:
        """Start a killed replica again, on its old port and with a cold cache."""
        port = int(self.urls[self.names.index(name)].rpartition(":")[2])
        self.engines[name] = self._start_engine(name, port)

    def busiest_share(self) -> float:
        """Return the share of a core that the busiest simulator took since the fleet came up."""
        seconds = asyncio.get_running_loop().time() - self._began
        return max(self.engines[name].cpu_seconds() - before for name, before in self._cpu.items()) / seconds

    def _start_engine(self, name: str, port: int) -> Child:
        argv = [sys.executable, "-m", "engine_simulator", "serve", MODEL, "--served-model-name", MODEL]
        argv += ["--host", "127.0.0.1", "--port", str(port), "--enable-prompt-tokens-details", *self._flags]
        return Child(name, argv, python_env(REPOSITORY / "tools"), self._scratch / f"{name}.log")

    async def _stop(self) -> None:
        children: Sequence[Child] = [*([self._proxy] if hasattr(self, "_proxy") else []), *self.engines.values()]
        for child in children:
            await asyncio.to_thread(child.stop)
