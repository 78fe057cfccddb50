"""Fixtures of the collection's tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import service
from ansible_collections.frank.fleet.plugins.modules import retired_units
from unit.collection import retirement, serving
from unit.collection.fakehost import FakeHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> FakeHost:
    """A fresh host with an idle user manager and no image."""
    return FakeHost(tmp_path, monkeypatch, capsys)


@pytest.fixture
def engine() -> Iterator[serving.Engine]:
    """An endpoint that answers like a ready engine until a test says otherwise."""
    engine = serving.Engine()
    with serving.serving(engine.server):
        yield engine


@pytest.fixture
def running(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host on which a.service runs spec s1 of image i1, and both are what is wanted; waits are short."""
    pause = time.sleep
    monkeypatch.setattr(service.time, "sleep", lambda seconds: pause(min(seconds, 0.01)))
    monkeypatch.setattr(service, "TIMEOUT", 5)
    host.set(images={serving.IMAGE: "i1"})
    host.unit(serving.SERVICE, starts={"ImageID": "i1", "Labels": {"io.frank-fleet.spec": "s1"}})
    host.container(serving.SERVICE, spec="s1", image="i1")
    return host


@pytest.fixture
def deployed(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host on which old.container is installed and runs; waits are short."""
    monkeypatch.setattr(retired_units, "SETTLE_SECONDS", 0.5)
    monkeypatch.setattr(retired_units, "PAUSE_SECONDS", 0.01)
    host.path.mkdir(parents=True)
    (host.path / retirement.NAME).write_text(retirement.TEXT)
    host.unit(retirement.SERVICE)
    host.container(retirement.SERVICE)
    return host
