"""One proxy in front of two engines that can be killed and started again on their ports."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from bench.proxy_overhead.peers import Peer
from bench.proxy_overhead.processes import REPOSITORY, Child, python_env, reserve_port

ENGINES = ("a", "b")
REQUEST_TIMEOUT = 15.0  # seconds


class Stage:
    """Use as an asynchronous context manager; every process has ended on exit."""

    def __init__(self, start_peer: Callable[[Sequence[int], Path], Peer], scratch: Path) -> None:
        self._start_peer = start_peer
        self._scratch = scratch
        self._reserved: list[socket.socket] = []
        self._ports: dict[str, int] = {}
        self.engines: dict[str, Child] = {}

    async def __aenter__(self) -> Stage:
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT))
        try:
            for name in ENGINES:
                self._reserved.append(reserve_port())
                self._ports[name] = self._reserved[-1].getsockname()[1]
                await self.start(name)
            self._peer = self._start_peer(list(self._ports.values()), self._scratch)
            await asyncio.to_thread(self._peer.child.wait_listening, self._peer.port)
        except BaseException:
            await self.__aexit__()
            raise
        self.base = f"http://127.0.0.1:{self._peer.port}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.session.close()
        for child in [*self.engines.values(), *([self._peer.child] if hasattr(self, "_peer") else [])]:
            await asyncio.to_thread(child.stop)
        for reserved in self._reserved:
            reserved.close()

    async def start(self, name: str) -> None:
        """Start the engine `name` and wait until it listens."""
        argv = [sys.executable, "-m", "bench.proxy_behaviour.engine", name, str(self._ports[name])]
        log = self._scratch / f"engine-{name}.log"
        self.engines[name] = Child(f"engine {name}", argv, python_env(REPOSITORY / "tools"), log)
        await asyncio.to_thread(self.engines[name].wait_listening, self._ports[name])

    def kill(self, name: str) -> None:
        """SIGKILL the engine `name`; its port refuses from then on."""
        self.engines[name].kill()

    async def seen(self, key: str) -> list[dict[str, Any]]:
        """Return what each living engine tells about a request."""
        told = []
        for port in self._ports.values():
            async with self.session.get(f"http://127.0.0.1:{port}/seen/{key}") as response:
                told.append(await response.json())
        return told
