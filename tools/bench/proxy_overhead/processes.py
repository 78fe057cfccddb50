"""Children of a bench: start on loopback, wait until they answer, read their CPU and memory, end them by pid."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
LOADERS = ("lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1")
READY_TIMEOUT = 60.0  # seconds; the Rust routers wait for their workers' health before they listen
STOP_TIMEOUT = 10.0  # seconds between SIGTERM and SIGKILL


class ChildError(RuntimeError):
    """A child did not start or did not answer; the message is one line."""


def python_env(*paths: Path) -> dict[str, str]:
    """Return an environment in which `paths` are importable."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONUNBUFFERED": "1"}


def program_of(root: Path, program: str) -> list[str]:
    """Return how to start a program of another root file system, with that one's own loader and libraries.

    ChildError if it has no loader of a known architecture.
    """
    loader = next((root / name for name in LOADERS if (root / name).exists()), None)
    if loader is None:
        raise ChildError(f"{root} has no loader of a known architecture: {', '.join(LOADERS)}")
    libraries = ":".join(str(path) for path in sorted((root / "usr/lib").glob("*-linux-gnu")))
    return [str(loader), "--library-path", libraries, str(root / "usr/bin" / program)]


def free_ports(count: int) -> list[int]:
    """Return `count` distinct loopback TCP ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def reserve_port() -> socket.socket:
    """Return a socket that holds a loopback port without listening, for a server that is killed and started again.

    While the server is dead its port refuses connections and nobody else gets it; the server must bind with
    SO_REUSEPORT.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


class Child:
    """One started process and everything below it."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                list(argv), env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def wait_listening(self, port: int, timeout: float = READY_TIMEOUT) -> None:
        """Return when 127.0.0.1:`port` accepts; raise ChildError if the process ends or `timeout` seconds pass."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ChildError(f"{self.name} ended with code {self.process.returncode}: {self.last_log_line()}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise ChildError(f"{self.name} does not listen on port {port} after {timeout:.0f} s: {self.last_log_line()}")

    def last_log_line(self) -> str:
        """Return the last non-empty line the process printed, to name the cause of a failed start."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "no output"

    def cpu_seconds(self) -> float:
        """Return user plus system time of the whole tree since its start, ended children included."""
        ticks = 0
        for pid in self._tree():
            fields = _stat_fields(pid)
            ticks += sum(map(int, fields[11:15]))  # utime stime cutime cstime
        return ticks / TICKS_PER_SECOND

    def rss_mb(self) -> float:
        """Return the resident memory of the whole tree in MB (10^6 bytes)."""
        pages = sum(int(_stat_fields(pid)[21]) for pid in self._tree())
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def kill(self) -> None:
        """SIGKILL the process itself and reap it."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, then SIGKILL to what is left of the tree after STOP_TIMEOUT seconds."""
        if self.process.poll() is not None:
            return
        tree = self._tree()
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            for pid in tree[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.kill()

    def _tree(self) -> list[int]:
        """Return the pids of the process and its living descendants, parents first."""
        pids = [self.process.pid]
        for pid in pids:  # grows while it is walked
            try:
                for children in Path(f"/proc/{pid}/task").glob("*/children"):
                    pids.extend(int(child) for child in children.read_text().split())
            except OSError:
                continue
        return pids


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command name (proc(5): field 3, the state, comes first)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 50
