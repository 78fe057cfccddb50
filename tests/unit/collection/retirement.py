"""A unit to retire, for the tests of retired_units."""

from __future__ import annotations

from typing import Any

from unit.collection.fakehost import FakeHost

NAME, SERVICE = "old.container", "old.service"
TEXT = "# Managed by frank-fleet\n[Container]\nImage=localhost/x:1\n"


def retire(host: FakeHost, check: bool = False, **changes: Any) -> dict[str, Any]:
    """Retire old.container, which must succeed."""
    return host.ok("retired_units", check, **{"names": [NAME], **changes})


def trashed(host: FakeHost) -> dict[str, str]:
    """Files in the trash: path below this run's folder -> content, or target of a link."""
    found = {}
    for path in host.trash.rglob("*"):
        if path.is_symlink() or path.is_file():
            relative = str(path.relative_to(host.trash).relative_to(path.relative_to(host.trash).parts[0]))
            found[relative] = str(path.readlink()) if path.is_symlink() else path.read_text()
    return found
