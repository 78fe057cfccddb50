"""The one healthcheck: 200 is healthy, anything else is not, and it never waits for ever."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HEALTHCHECK = Path(__file__).parents[3] / "roles/quadlet_units/files/bin/healthcheck.sh"


def read_request(connection: socket.socket) -> None:
    """Read the whole head: closing with a rest unread would reset the connection, answer and all."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(4096)


@contextmanager
def server(answer: bytes | None) -> Iterator[int]:
    """Answer one connection with these bytes, or with silence; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if answer is None:
                    done.wait(10)
                else:
                    read_request(connection)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        done.set()
        thread.join()


def check(port: int | str | None, timeout: str = "5") -> int:
    environment = {"PATH": "/usr/bin:/bin", "HEALTH_TIMEOUT": timeout} | ({} if port is None else {"PORT": str(port)})
    return subprocess.run([HEALTHCHECK], env=environment, check=False, timeout=20, capture_output=True).returncode


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_200_is_healthy(version):
    with server(f"HTTP/{version} 200 OK\r\nContent-Length: 0\r\n\r\n".encode()) as port:
        assert check(port) == 0


@pytest.mark.parametrize("answer", [b"HTTP/1.1 503 Service Unavailable\r\n\r\n", b"HTTP/1.1 500 200\r\n\r\n", b""])
def test_anything_else_is_not(answer):
    with server(answer) as port:
        assert check(port) != 0


def test_silence_is_not():
    with server(None) as port:
        assert check(port, timeout="0.2") != 0


def test_a_closed_port_is_not():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert check(port) != 0


def test_no_port_is_not():
    assert check(None) != 0
