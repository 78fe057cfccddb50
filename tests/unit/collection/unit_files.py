"""Unit files for the tests of quadlet_units."""

from __future__ import annotations

from typing import Any

from unit.collection.fakehost import FakeHost

INSTALL = "[Install]\nWantedBy=default.target\n"


def text(body: str = "", install: str = INSTALL) -> str:
    """A unit that the generator accepts, with more lines or another [Install]."""
    return f"# Managed by frank-fleet\n[Container]\nImage=localhost/x:1\nLabel=io.frank-fleet.spec=abc\n{body}{install}"


def install(host: FakeHost, check: bool = False, **units: str) -> dict[str, Any]:
    """Install units given as name=text."""
    return host.run("quadlet_units", check, **arguments(host, **units))


def arguments(host: FakeHost, **units: str) -> dict[str, Any]:
    """Arguments of the module for units given as name=text."""
    listed = [{"name": f"{name}.container", "content": content} for name, content in units.items()]
    return {"units": listed, "owner": "replicas", "generator": str(host.generator)}
