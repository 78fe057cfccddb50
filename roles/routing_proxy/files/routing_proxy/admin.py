"""The operator's port, on loopback only: GET /replicas, POST /drain/<name>, POST /undrain/<name>."""

from urllib.parse import parse_qs, unquote

import msgspec

from . import errors
from .fleet import Fleet
from .http1 import JSON, Request
from .requests import Refusal
from .routes import Api
from .server import ClientConnection


class Admin:
    """Answers the operator."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def serve(self, client: ClientConnection, request: Request) -> None:
        """Answer one request."""
        verb, _, name = request.path.decode("latin-1").removeprefix("/").partition("/")
        if verb == "replicas" and not name:
            expected = b"GET"
        elif verb in ("drain", "undrain") and name:
            expected = b"POST"
        else:
            _answer(client, 404, {"error": "not found: GET /replicas, POST /drain/<name>, POST /undrain/<name>"})
            return
        if request.method != expected:
            client.respond(
                405, [JSON, (b"Allow", expected)], msgspec.json.encode({"error": f"use {expected.decode()}"})
            )
        elif verb == "replicas":
            _answer(client, 200, self._fleet.replicas())
        else:
            query = parse_qs(request.target.partition(b"?")[2].decode("latin-1"))
            self._drain(client, unquote(name), verb == "drain", query.get("force") == ["1"])

    def refuse(self, client: ClientConnection, refusal: Refusal) -> None:
        """Answer what could not be read as a request."""
        client.respond(refusal.status, [JSON], errors.body(Api.OPENAI, refusal.status, refusal.message))

    def _drain(self, client: ClientConnection, name: str, wanted: bool, force: bool) -> None:
        member = self._fleet.members.get(name)
        if member is None:
            _answer(client, 404, {"error": f"no replica {name}, there are {', '.join(self._fleet.members)}"})
        elif wanted and not force and self._fleet.is_last_serving(member):
            _answer(client, 409, {"error": f"{name} is the last replica that serves; ?force=1 drains it all the same"})
        else:
            self._fleet.drain(member, wanted)
            _answer(client, 200, next(entry for entry in self._fleet.replicas() if entry["name"] == name))


def _answer(client: ClientConnection, status: int, content: object) -> None:
    client.respond(status, [JSON], msgspec.json.encode(content))
