"""Fixtures of the black-box tests: stub engines and a proxy in front of them."""

from collections.abc import Callable, Iterator

import pytest
from one_engine import Fleet
from proxy_process import ProxyProcess
from stub_engine import StubEngine


@pytest.fixture
def engines() -> Iterator[list[StubEngine]]:
    """Two running engines, frank-medium-a and frank-medium-b."""
    both = [StubEngine("frank-medium-a").start(), StubEngine("frank-medium-b").start()]
    yield both
    for engine in both:
        engine.stop()


@pytest.fixture
def start_proxy(engines: list[StubEngine]) -> Iterator[Callable[..., ProxyProcess]]:
    """Start a proxy in front of the engines; keywords are environment variables."""
    started: list[ProxyProcess] = []

    def start(**environment: str) -> ProxyProcess:
        proxy = ProxyProcess(engines, **environment)
        started.append(proxy)
        return proxy.start()

    yield start
    for proxy in started:
        proxy.kill()


@pytest.fixture
def proxy(start_proxy: Callable[..., ProxyProcess]) -> ProxyProcess:
    """A proxy with its defaults in front of both engines."""
    return start_proxy()


@pytest.fixture(scope="session")
def one_engine() -> Iterator[StubEngine]:
    engine = StubEngine("frank-medium-a").start()
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def shared_proxy(one_engine: StubEngine) -> Iterator[ProxyProcess]:
    proxy = ProxyProcess([one_engine], MAX_BODY_BYTES=str(10 * 2**20)).start()
    yield proxy
    proxy.kill()


@pytest.fixture
def fleet(one_engine: StubEngine, shared_proxy: ProxyProcess) -> Iterator[Fleet]:
    one_engine.requests.clear()
    one_engine.script = lambda call: call.answer()
    yield Fleet(one_engine, shared_proxy)
    assert shared_proxy.states() == {"frank-medium-a": "up"}
