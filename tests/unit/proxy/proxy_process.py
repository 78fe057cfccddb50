"""The proxy as its users run it: a process of its own, spoken to over sockets."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stub_engine import StubEngine

PACKAGE_PARENT = Path(__file__).parents[3] / "roles/routing_proxy/files"
FIRST_TURN = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()


def free_port() -> int:
    """Return a free port below those that the kernel gives to outgoing connections."""
    for port in random.sample(range(15_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no free port found")


def run_once(**environment: str) -> subprocess.CompletedProcess[str]:
    """Run a proxy that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "routing_proxy"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE_PARENT), **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@dataclass
class Answer:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A client's connection: raw bytes out, answers in."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(15)
        self.sock.connect(("127.0.0.1", port))

    def send(self, data: bytes) -> "Client":
        self.sock.sendall(data)
        return self

    def post(self, target: str, body: bytes = FIRST_TURN, headers: Iterable[str] = ()) -> "Client":
        head = [f"POST {target} HTTP/1.1", "Host: fleet", "Content-Type: application/json", *headers]
        return self.send("\r\n".join([*head, f"Content-Length: {len(body)}"]).encode() + b"\r\n\r\n" + body)

    def read(self, method: str = "POST") -> Answer:
        """Read one answer; raises what http.client raises when it is cut."""
        response = http.client.HTTPResponse(self.sock, method=method)
        response.begin()
        body = response.read()
        return Answer(response.status, response.reason, response.getheaders(), body)

    def read_until(self, token: bytes) -> bytes:
        data = b""
        while token not in data:
            piece = self.sock.recv(65536)
            assert piece, f"closed after {data!r}"
            data += piece
        return data

    def read_to_end(self) -> bytes:
        """Read until the proxy closes; a reset is added as a word of its own."""
        data = b""
        try:
            while piece := self.sock.recv(65536):
                data += piece
        except ConnectionResetError:
            data += b"<reset>"
        return data

    def close(self) -> None:
        self.sock.close()


class ProxyProcess:
    """A running proxy."""

    def __init__(self, engines: Iterable[StubEngine], **environment: str) -> None:
        self.port, self.admin_port = free_port(), free_port()
        backends = ",".join(f"{engine.name}=http://127.0.0.1:{engine.port}" for engine in engines)
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(PACKAGE_PARENT),
            "HOST": "127.0.0.1",
            "BACKENDS": backends,
            "PORT": str(self.port),
            "ADMIN_PORT": str(self.admin_port),
            **environment,
        }
        self.lines: list[str] = []
        self._news = threading.Condition()

    def start(self) -> "ProxyProcess":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "routing_proxy"], env=self.environment, stderr=subprocess.PIPE
        )
        threading.Thread(target=self._read_log, daemon=True).start()
        self.wait_for_line("proxy: serving")
        return self

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.decode().rstrip("\n"))
                self._news.notify_all()

    def wait_for_line(self, text: str, seconds: float = 20.0) -> str:
        """Wait until the log has a line that contains `text`."""

        def found() -> str | None:
            return next((line for line in self.lines if text in line), None)

        with self._news:
            assert self._news.wait_for(found, seconds), f"no line with {text!r} in {self.lines}"
            line = found()
        assert line is not None
        return line

    def client(self, receive_buffer: int | None = None) -> Client:
        return Client(self.port, receive_buffer)

    def request(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, target, body, headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.reason, response.getheaders(), response.read())

    def post(
        self, target: str = "/v1/chat/completions", body: bytes = FIRST_TURN, headers: dict[str, str] | None = None
    ) -> Answer:
        return self.request("POST", target, body, headers)

    def get(self, target: str) -> Answer:
        return self.request("GET", target)

    def admin(self, method: str, target: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, target)
            response = connection.getresponse()
            return Answer(response.status, response.reason, response.getheaders(), response.read())

    def states(self) -> dict[str, str]:
        return {name: replica["state"] for name, replica in self.get("/health").json()["replicas"].items()}

    def metric(self, line_start: str) -> float:
        """Return the sum of the samples whose line starts with this."""
        text = self.get("/metrics").body.decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(line_start))

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


def turns(count: int, text: str = "x") -> bytes:
    """Return a chat of so many messages, the user's and the assistant's in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": f"{text}{number}"} for number in range(count)]
    return json.dumps({"messages": messages}).encode()


def pins(proxy: ProxyProcess) -> dict[str, int]:
    """Return how many conversations each replica has on record."""
    return {entry["name"]: entry["pins"] for entry in proxy.admin("GET", "/replicas").json()}
