"""What Podman's generator makes of unit files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Generated:
    """What the generator made: service text by name, the services wanted at boot, and what it said."""

    files: dict[str, str]
    wants: frozenset[str]
    stderr: str
    returncode: int


#: Unit files as name -> text, to what the generator makes of them.
Generate = Callable[[dict[str, str]], Generated]
