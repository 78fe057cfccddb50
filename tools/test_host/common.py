"""What every part of the tool shares: its error, its cache folder, and how it runs commands."""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ToolError(Exception):
    """Something the user can act on; its text is one line."""


def cache_dir() -> Path:
    """Return the folder that keeps root file systems, hosts and the ssh key: outside the repository, safe to delete."""
    # Not XDG_CACHE_HOME: inventories name the key in it, and testinfra reads them without templating.
    return Path.home() / ".cache/frank-fleet"


def say(text: str) -> None:
    """Print progress where it doesn't mix with a command's answer on stdout."""
    print(text, file=sys.stderr, flush=True)


def run(*argv: str | Path) -> str:
    """Run a command and return its stdout; raise ToolError with the last line of its stderr if it fails."""
    command = [str(word) for word in argv]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ToolError(f"{command[0]} is not installed: run `tools/test_host/host install`") from error
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}").splitlines()[-1]
        raise ToolError(f"`{' '.join(command)}` failed: {reason}")
    return done.stdout


def succeeds(*argv: str | Path) -> bool:
    """Run a command only to learn whether it succeeds."""
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock of the cache folder, so that two runs of the tool don't build or pick the same thing at once."""
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run to finish with {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
