"""The real proxy process in front of one stub engine that replays recorded vLLM answers."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.proxy_overhead.peers import PROXY_PATH
from bench.proxy_overhead.processes import Child, free_ports, python_env
from replay_engine import ReplayEngine

READY_TIMEOUT = 10.0  # seconds


@pytest.fixture(scope="session")
def replay_engine() -> Iterator[ReplayEngine]:
    """One stub engine for all tests of this directory."""
    engine = ReplayEngine()
    yield engine
    engine.stop()


@pytest.fixture
def engine(replay_engine: ReplayEngine) -> ReplayEngine:
    """The stub engine, with nothing asked of it yet."""
    replay_engine.asked.clear()
    return replay_engine


@pytest.fixture(scope="session")
def base_url(replay_engine: ReplayEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy that sees its one replica up."""
    (port,) = free_ports(1)
    env = python_env(PROXY_PATH) | {"HOST": "127.0.0.1", "PORT": str(port), "HEALTH_INTERVAL": "0.2"}
    env["BACKENDS"] = f"stub={replay_engine.url}"
    log = tmp_path_factory.mktemp("proxy") / "proxy.log"
    proxy = Child("routing_proxy", [sys.executable, "-m", "routing_proxy"], env, log)
    try:
        proxy.wait_listening(port, READY_TIMEOUT)
        url = f"http://127.0.0.1:{port}"
        _wait_up(url, log)
        yield url
    finally:
        proxy.stop()


def _wait_up(url: str, log: Path) -> None:
    deadline = time.monotonic() + READY_TIMEOUT
    status = ""
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as response:
                status = json.load(response)["status"]
        except OSError as error:
            status = repr(error)
        if status == "ok":
            return
        time.sleep(0.05)
    pytest.fail(f"the proxy's health is {status!r}; it printed:\n{log.read_text()}")
