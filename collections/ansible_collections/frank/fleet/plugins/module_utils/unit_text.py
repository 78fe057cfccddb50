"""What our unit files carry besides their settings: the marker line and the spec label."""

from __future__ import annotations

import hashlib
import re

#: First line of every unit file we write. A file without it belongs to somebody else.
MARKER = "# Managed by frank-fleet"

#: Container label that says which rendered unit a running container was started from.
SPEC_LABEL = "io.frank-fleet.spec"

PLACEHOLDER = "@SPEC@"

#: 64 bits: short enough to read in `podman ps`, far more than accidental collisions need.
SPEC_LENGTH = 16

_LABEL_LINE = re.compile(rf"^Label={re.escape(SPEC_LABEL)}=(\S*)$", re.MULTILINE)


def is_managed(text: str) -> bool:
    """True if the unit text carries our marker on a comment line of its own."""
    return any(line.startswith(MARKER) for line in text.splitlines())


def spec_of(text: str) -> str | None:
    """The value of the spec label in a rendered unit, or None when there is no (or more than one) such line."""
    found = _LABEL_LINE.findall(text)
    return found[0] if len(found) == 1 else None


def port_of(text: str) -> int | None:
    """The port that the unit's environment names with PORT."""
    found = re.search(r"^Environment=\"?PORT=(\d+)\"?$", text, re.MULTILINE)
    return int(found[1]) if found else None


def stamp_spec(text: str) -> str:
    """Put the hash of a rendered unit into its spec label.

    Scripts that the container runs are in folders named after their content, so a change of theirs is one of the text.
    Raises ValueError unless the text has exactly one placeholder line.
    """
    if text.count(PLACEHOLDER) != 1 or spec_of(text) != PLACEHOLDER:
        raise ValueError(
            f"the unit must have the line 'Label={SPEC_LABEL}={PLACEHOLDER}' exactly once, and no other {PLACEHOLDER}"
        )
    digest = hashlib.sha256(text.encode()).hexdigest()[:SPEC_LENGTH]
    return text.replace(PLACEHOLDER, digest)
