"""Starts simulators as processes and talks to them, as an operator and a client do."""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parents[3] / "tools"
FIXTURES = Path(__file__).parent / "fixtures"
PATIENCE = 20.0
"""Seconds after which a test gives up."""

SMALL = ("serve", "models/tiny", "--served-model-name", "frank-medium", "--kv-cache-memory", "0")
SMALL_SHAPE = ("--max-model-len", "16384", "--block-size", "128", "--enable-prefix-caching")
FAST = ("--time-scale", "0.01", "--sim-boot-seconds", "0")


@dataclass(frozen=True)
class Reply:
    """An answer: status, headers (lower-case names), body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of a stream's events; "[DONE]" and comments as text."""
        return list(_events(self.body.decode()))


def _events(text: str) -> Iterator[Any]:
    for line in text.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))
        elif line.startswith("data: "):
            yield line.removeprefix("data: ")


@dataclass
class Simulator:
    """A running simulator."""

    process: subprocess.Popen[str]
    port: int

    def open(self) -> http.client.HTTPConnection:
        """A connection of one's own."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send one request; a body that is not bytes is sent as JSON."""
        connection = self.open()
        try:
            send(connection, method, path, body, headers)
            return read(connection)
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        """Send a GET."""
        return self.call("GET", path)

    def post(self, path: str, body: Any) -> Reply:
        """Send a POST."""
        return self.call("POST", path, body)

    def metric(self, name: str, labels: str = "") -> float:
        """The sum of a metric's samples whose line contains `labels`."""
        lines = self.get("/metrics").body.decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{") and labels in line)

    def wait(self) -> tuple[int, str]:
        """Wait until it ends; its exit code and the rest of its output."""
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output


def send(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Send a request without waiting for its answer."""
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    defaults = {"Content-Type": "application/json"} if content is not None else {}
    connection.request(method, path, content, defaults | dict(headers or {}))


def read(connection: http.client.HTTPConnection) -> Reply:
    """Read an answer to its end."""
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, headers, response.read())


def spawn(*flags: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `python -m engine_simulator`."""
    return subprocess.Popen(
        [sys.executable, "-m", "engine_simulator", *flags],
        env=os.environ | {"PYTHONPATH": str(TOOLS)} | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def running(*flags: str, environment: Mapping[str, str] | None = None) -> Iterator[Simulator]:
    """A small simulator on a free port, with more flags; killed at the end if it still runs."""
    process = spawn(*SMALL, *SMALL_SHAPE, *FAST, "--host", "127.0.0.1", "--port", "0", *flags, environment=environment)
    try:
        assert process.stdout
        seen = ""
        while not (found := re.search(r"server on http://127.0.0.1:(\d+)", seen)):
            line = process.stdout.readline()
            assert line, f"the simulator ended: {seen}"
            seen += line
        yield Simulator(process, int(found[1]))
    finally:
        process.kill()
        process.communicate()


def fixture(name: str) -> Reply:
    """A recorded answer of vLLM."""
    head, _, body = (FIXTURES / f"{name}.txt").read_bytes().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(status.split()[1]), headers, body)
