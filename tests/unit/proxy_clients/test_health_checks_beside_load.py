"""Health checks and requests share a replica; no request may travel on a connection that a check has used up."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import aiohttp
from bench.proxy_overhead.mock_engine import CHAT_RESPONSE, GET_RESPONSES, MockEngine
from bench.proxy_overhead.peers import PROXY_PATH
from bench.proxy_overhead.processes import Child, free_ports, python_env

WORKERS = 8
REQUESTS = 200  # of each worker
BODY = {"model": "frank-medium", "messages": [{"role": "user", "content": "hello"}]}


class SlowToClose(MockEngine):
    """An engine that leaves it to the proxy to close after `Connection: close`; its parser rejects anything after."""

    def on_message_complete(self) -> None:
        self.transport.write(GET_RESPONSES.get(self.path, CHAT_RESPONSE))


async def _ask(base: str) -> Counter[str]:
    seen: Counter[str] = Counter()
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def worker() -> None:
            for _ in range(REQUESTS):
                try:
                    async with session.post(f"{base}/v1/chat/completions", json=BODY) as response:
                        await response.read()
                        seen[str(response.status)] += 1
                except TimeoutError:
                    seen["no answer in 10 s"] += 1

        await asyncio.gather(*(worker() for _ in range(WORKERS)))
    return seen


async def _run(log: Path) -> Counter[str]:
    """Ask through a proxy that checks its one engine a hundred times a second."""
    server = await asyncio.get_running_loop().create_server(SlowToClose, "127.0.0.1", 0)
    engine_port = server.sockets[0].getsockname()[1]
    (port,) = free_ports(1)
    env = python_env(PROXY_PATH) | {"HOST": "127.0.0.1", "PORT": str(port), "HEALTH_INTERVAL": "0.01"}
    env["BACKENDS"] = f"stub=http://127.0.0.1:{engine_port}"
    proxy = Child("routing_proxy", [sys.executable, "-m", "routing_proxy"], env, log)
    try:
        await asyncio.to_thread(proxy.wait_listening, port)
        return await _ask(f"http://127.0.0.1:{port}")
    finally:
        await asyncio.to_thread(proxy.stop)
        server.close()


def test_no_request_is_lost_to_a_health_check(tmp_path: Path) -> None:
    assert asyncio.run(_run(tmp_path / "proxy.log")) == {"200": WORKERS * REQUESTS}
