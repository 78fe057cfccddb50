"""The admin port of a routing proxy, for the tests of modules that drain."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Admin:
    """A fleet of replicas as a proxy's admin port shows and changes it."""

    def __init__(self, **states: str) -> None:
        self.replicas = {
            name: {"name": name, "url": f"http://{name}", "state": state, "reason": "", "in_flight": 0}
            for name, state in states.items()
        }
        # In flight in each replica at each look, the last one for good; and the state once it is asked to serve.
        self.running: list[int] = []
        self.serves_as = "up"
        self.asked: list[str] = []
        admin = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._say(200, admin.look())

            def do_POST(self) -> None:
                admin.asked.append(self.path)
                self._say(*admin.act(self.path))

            def _say(self, code: int, content: object) -> None:
                data = json.dumps(content).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def look(self) -> list[dict[str, object]]:
        """The answer to GET /replicas."""
        in_flight = self.running.pop(0) if len(self.running) > 1 else (self.running or [0])[0]
        return [{**replica, "in_flight": in_flight} for replica in self.replicas.values()]

    def act(self, path: str) -> tuple[int, object]:
        """Drain or undrain, as routing_proxy.admin does."""
        verb, _, name = path.partition("?")[0].strip("/").partition("/")
        up = [other for other, replica in self.replicas.items() if replica["state"] == "up"]
        if verb == "drain" and up == [name] and "force=1" not in path:
            return 409, {"error": "the last"}
        self.replicas[name]["state"] = "draining" if verb == "drain" else self.serves_as
        return 200, self.replicas[name]
