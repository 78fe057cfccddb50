"""A stub engine that replays recorded vLLM answers and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FIXTURES = Path(__file__).with_name("fixtures")
# path -> (whole answer, streamed answer, answer to an unknown model)
POST_ANSWERS = {
    "/v1/chat/completions": ("chat", "chat-stream-usage", "unknown-model-404"),
    "/v1/completions": ("completion", "completion-stream", "unknown-model-404"),
    "/v1/responses": ("responses", "responses-stream", "unknown-model-404"),
    "/v1/messages": ("messages", "messages-stream", "messages-unknown-model"),
    "/v1/messages/count_tokens": ("messages-count_tokens", "messages-count_tokens", "messages-unknown-model"),
}
SPECIAL_MODELS = {"slow-prefill": "chat-stream-sse-keepalive", "too-long": "too-long-400"}


@dataclass(frozen=True)
class Asked:
    """One request as the engine received it."""

    method: str
    path: str
    version: str
    headers: dict[str, str]  # lower-case names
    body: bytes

    def end_to_end_headers(self) -> dict[str, str]:
        """The headers that no proxy may change; Host and Connection are between neighbours."""
        return {name: value for name, value in self.headers.items() if name not in ("host", "connection")}


@dataclass(frozen=True)
class Recorded:
    """One recorded answer."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


def recorded(name: str) -> Recorded:
    """Read a fixture."""
    head, _, body = (FIXTURES / f"{name}.txt").read_bytes().partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    _, status, reason = first.split(" ", 2)
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return Recorded(int(status), reason, headers, body)


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: ReplayEngine

    def do_GET(self) -> None:
        """The proxy's own polls of /health and /metrics get an empty answer and are not remembered."""
        if self.path in ("/health", "/metrics"):
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._remember(b"")
        self._replay(recorded("models" if self.path == "/v1/models" else "method-405"))

    do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET

    def do_POST(self) -> None:
        """Replay the answer that fits path, `stream` and `model`."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._remember(body)
        request = json.loads(body)
        whole, streamed, unknown = POST_ANSWERS[self.path]
        name = SPECIAL_MODELS.get(request["model"]) or (streamed if request.get("stream") else whole)
        self._replay(recorded(unknown if request["model"] == "nope" else name))

    def _remember(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(Asked(self.command, self.path, self.request_version, headers, body))

    def _replay(self, answer: Recorded) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if ("transfer-encoding", "chunked") not in answer.headers:
            self.wfile.write(answer.body)
            return
        for event in answer.body.split(b"\n\n")[:-1]:
            self.wfile.write(b"%x\r\n%b\n\n\r\n" % (len(event) + 2, event))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


class ReplayEngine(ThreadingHTTPServer):
    """The stub, on a free loopback port, in threads of its own."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Close the port and end the serving thread."""
        self.shutdown()
        self.server_close()
        self.thread.join(5)
