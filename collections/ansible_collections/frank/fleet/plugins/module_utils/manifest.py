"""The record of which unit files this project installed: `{"owners": {owner: {unit: {"sha256", "spec", "good"}}}}`.

`good` is the last unit and image that became ready, what a failed change goes back to: `{"text", "spec", "image_id",
"port"}`, the port as the unit's environment names it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ansible_collections.frank.fleet.plugins.module_utils.files import write_atomically
from ansible_collections.frank.fleet.plugins.module_utils.unit_text import port_of, spec_of


class ManifestError(Exception):
    """The manifest cannot be read."""


def digest(text: str) -> str:
    """SHA-256 of a unit's text, as the manifest records it."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class Manifest:
    """The manifest file of one user; a missing file is an empty manifest."""

    def __init__(self, path: Path):
        self.path = path
        self._written = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        self.owners = self._parse()

    def _parse(self) -> dict[str, dict[str, dict]]:
        try:
            owners = json.loads(self._written or '{"owners": {}}')["owners"]
            if all(isinstance(entry, dict) for units in owners.values() for entry in units.values()):
                return owners
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise ManifestError(
            f"{self.path} is not a manifest of frank-fleet. Move it away: the next run writes it anew, and keeps "
            "a copy of every unit file that it can then no longer recognise as its own."
        )

    def digest_of(self, unit: str) -> str | None:
        """Digest of the text we last installed under this name, None if the file is not ours."""
        for units in self.owners.values():
            if unit in units:
                return units[unit].get("sha256")
        return None

    def record(self, owner: str, unit: str, text: str) -> None:
        """Note a unit as installed by `owner`, whoever had it before."""
        good = self.good(unit)
        self.forget(unit)
        entry = {"sha256": digest(text), "spec": spec_of(text)}
        self.owners.setdefault(owner, {})[unit] = {**entry, "good": good} if good else entry

    def good(self, unit: str) -> dict | None:
        """The last text, spec and image ID of a unit that became ready, None if there are none."""
        return next((units[unit].get("good") for units in self.owners.values() if unit in units), None)

    def mark_good(self, unit: str, text: str, image_id: str | None) -> None:
        """Note that a unit of ours became ready; one that is not in the manifest is left out."""
        for units in self.owners.values():
            if unit in units:
                units[unit]["good"] = {
                    "text": text,
                    "spec": spec_of(text),
                    "image_id": image_id,
                    "port": port_of(text),
                }

    def forget(self, unit: str) -> None:
        """Drop a unit, and an owner that has no more of them."""
        for owner in list(self.owners):
            self.owners[owner].pop(unit, None)
            if not self.owners[owner]:
                del self.owners[owner]

    @property
    def changed(self) -> bool:
        """True if the file does not say what the manifest says now."""
        return self._text() != self._written and bool(self.owners or self._written)

    def save(self) -> None:
        """Write the file if it says something else."""
        if self.changed:
            write_atomically(self.path, self._text())
            self._written = self._text()

    def _text(self) -> str:
        return json.dumps({"owners": self.owners}, indent=2, sort_keys=True) + "\n"
