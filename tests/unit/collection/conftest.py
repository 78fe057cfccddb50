"""Fixtures of the collection's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.collection.fakehost import FakeHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> FakeHost:
    """A fresh host with an idle user manager and no image."""
    return FakeHost(tmp_path, monkeypatch, capsys)
