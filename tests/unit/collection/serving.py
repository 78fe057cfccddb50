"""An engine and a service for the tests of quadlet_service."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from unit.collection.fakehost import FakeHost

SERVICE, IMAGE = "a.service", "localhost/engine:1"


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Have a server answer while the context is open."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Engine:
    """An HTTP endpoint whose answers a test sets: path to (code, body), and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {
            "/health": (200, ""),
            "/v1/models": (200, {"data": [{"id": "frank-medium"}]}),
            "/v1/chat/completions": (200, {"choices": [{"message": {"content": None}}]}),
        }
        self.headers: dict[str, str] = {}
        self.later: list[dict[str, tuple[int, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.spy: Callable[[], None] = lambda: None
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.spy()
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                engine.asked.append((self.path, json.loads(body or "{}"), self.headers.get("Authorization")))
                code, answer = engine.answers[self.path]
                if self.path == "/health" and engine.later:
                    engine.answers.update(engine.later.pop(0))
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                for name, value in engine.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"


def arguments(**changes: Any) -> dict[str, Any]:
    """Arguments of the module for what the fixture `running` runs."""
    return {"name": "a", "spec": "s1", "image": IMAGE, "stop_timeout": 5, **changes}


def ready(url: str, **changes: Any) -> dict[str, Any]:
    """When an endpoint counts as ready, with short waits."""
    return {"url": url, "interval": 0.01, "timeout": 5, **changes}


def restarts(host: FakeHost) -> int:
    """How often the service was restarted."""
    return host.changes().count(f"systemctl --user restart --no-block {SERVICE}")


def failing(host: FakeHost, **properties: Any) -> None:
    """Have the service end in a failed state when it is started."""
    host.set(containers=[])
    after = {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code", **properties}
    host.unit(
        SERVICE, ActiveState="inactive", SubState="dead", InvocationID="", on_start={**after, "InvocationID": "n"}
    )
