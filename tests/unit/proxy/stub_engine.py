"""A stub of an engine with real sockets: each request is answered by a script, and everything it saw is on record."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

OK = b'{"object":"chat.completion"}'


@dataclass
class Received:
    """A request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Call:
    """One request and the connection to answer it on."""

    engine: "StubEngine"
    request: Received
    sock: socket.socket
    closed: bool = False
    keep: bool = True

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, body: bytes = OK, status: str = "200 OK", headers: tuple[str, ...] = ()) -> None:
        lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def stream(self) -> None:
        """Begin a stream of server-sent events."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self.send(b"0\r\n\r\n")

    def wait_closed(self, seconds: float = 5.0) -> bool:
        """Wait until the proxy closes the connection; return whether it did."""
        self.sock.settimeout(seconds)
        try:
            while self.sock.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def drop(self) -> None:
        """Close without a word."""
        self.closed = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def reset(self) -> None:
        """Close with a reset, as the kernel does for a killed process."""
        self.closed = True
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def answer_ok(call: Call) -> None:
    call.answer()


@dataclass
class StubEngine:
    """Listens on a port of its own. `script` answers all but /health and /metrics, one thread a connection."""

    name: str
    script: Callable[[Call], None] = answer_ok
    port: int = 0
    health: int = 200
    metrics: str = 'process_start_time_seconds 1000\nvllm:iteration_tokens_total_count{engine="0"} 5\n'
    idle_seconds: float = 60.0
    requests: list[Received] = field(default_factory=list)
    scrapes: int = 0
    connections: int = 0
    news: threading.Condition = field(default_factory=threading.Condition)

    def start(self) -> "StubEngine":
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._socks: set[socket.socket] = set()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Die: the port refuses, every connection is reset."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._socks):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # A thread that is blocked in recv keeps the connection open; this wakes it.
                sock.shutdown(socket.SHUT_RDWR)
                sock.close()

    def wait_for(self, count: int, seconds: float = 10.0) -> list[Received]:
        """Wait until `count` requests have arrived in all."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.requests) >= count, seconds), f"{len(self.requests)} of {count}"
        return self.requests

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._socks.add(sock)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            for request in _requests(sock, self.idle_seconds):
                call = Call(self, request, sock)
                if request.target == "/health":
                    call.answer(b"", f"{self.health} X")
                elif request.target == "/metrics":
                    self.scrapes += 1
                    call.answer(self.metrics.encode())
                else:
                    with self.news:
                        self.requests.append(request)
                        self.news.notify_all()
                    self.script(call)
                if call.closed or not call.keep:
                    break
        self._socks.discard(sock)
        with contextlib.suppress(OSError):
            sock.close()


def _requests(sock: socket.socket, idle_seconds: float) -> Iterator[Received]:
    file = sock.makefile("rb")
    while True:
        sock.settimeout(idle_seconds)
        line = file.readline()
        if not line:
            return
        sock.settimeout(60)
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers: list[tuple[str, str]] = []
        while (line := file.readline()) not in (b"\r\n", b""):
            key, _, value = line.decode("latin-1").rstrip("\r\n").partition(": ")
            headers.append((key, value))
        length = sum(int(value) for key, value in headers if key.lower() == "content-length")
        body = file.read(length)
        if len(body) < length:
            return
        yield Received(method, target, headers, body)


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what no event tells, such as what another process says about itself."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time given"
        time.sleep(0.02)
