"""What is done with a request: answered here, refused, or forwarded."""

import msgspec

from . import errors, log
from .account import NOBODY, Account
from .auth import Keys
from .config import Config
from .fleet import Fleet
from .forward import LARGE_BODY_BYTES, Forward
from .http1 import JSON, Request
from .identity import Identity, generates, identify, remember
from .metrics import CONTENT_TYPE, Metrics
from .prefixes import Prefixes
from .requests import Refusal
from .routes import Api, Route, route
from .server import ClientConnection


class App:
    """The endpoint: /health and /metrics are the proxy's own, everything else is the replicas'."""

    def __init__(self, config: Config, fleet: Fleet, metrics: Metrics, keys: Keys | None) -> None:
        self._log_requests = config.log_requests
        # The prefix that the affinity policy goes by costs 4 us; the others have no use for it.
        self._affinity_bytes = config.affinity_bytes if config.routing == "affinity" else 0
        # A counter needs no more of a body than the stored response that it follows up.
        self._only_counts = config.routing == "roundrobin"
        self._prefixes = Prefixes()
        self._fleet = fleet
        self._metrics = metrics
        self._keys = keys

    def serve(self, client: ClientConnection, request: Request) -> None:
        """Answer or forward one request."""
        if request.path in (b"/health", b"/metrics"):
            self._serve_own(client, request)
            return
        where = route(request.path)
        if self._keys is not None and request.method != b"OPTIONS" and not self._keys.accept(request):
            self._turned_away(request, where, 401)
            # The engine's own words for this (vLLM with --api-key).
            client.respond(401, [JSON, (b"WWW-Authenticate", b"Bearer")], b'{"error":"Unauthorized"}')
        elif where.refused:
            self._turned_away(request, where, 403)
            message = "this route of the engine is for its developers and is not served here"
            client.respond(403, [JSON], errors.body(where.api, 403, message))
        else:
            account = Account(self._metrics, request, where, self._log_requests)
            Forward(self._fleet, client, request, where, account).start(self._identify)
            remember(self._prefixes)

    def refuse(self, client: ClientConnection, refusal: Refusal) -> None:
        """Answer what could not be read as a request."""
        self._metrics.count(NOBODY, "other", refusal.status, NOBODY)
        if self._log_requests:
            log.say(f"request refused with {refusal.status}: {refusal.message}")
        client.respond(refusal.status, [JSON], errors.body(Api.OPENAI, refusal.status, refusal.message))

    def _identify(self, request: Request) -> Identity:
        method, path = request.method.decode(), request.path.decode("latin-1")
        if self._only_counts and route(request.path).endpoint != "responses":
            return Identity(asks=generates(method, path))
        session = request.noted.get(b"x-session-id")
        return identify(
            method,
            path,
            session.decode("latin-1") if session else None,
            request.body,
            self._affinity_bytes,
            # Larger ones are read in threads of their own, which the prefixes are not made for.
            self._prefixes if len(request.body) <= LARGE_BODY_BYTES else None,
        )

    def _turned_away(self, request: Request, where: Route, status: int) -> None:
        Account(self._metrics, request, where, self._log_requests).closed(status, NOBODY, NOBODY)

    def _serve_own(self, client: ClientConnection, request: Request) -> None:
        if request.method not in (b"GET", b"HEAD"):
            client.respond(405, [JSON, (b"Allow", b"GET, HEAD")], b'{"detail":"Method Not Allowed"}')
        elif request.path == b"/metrics":
            client.respond(200, [(b"Content-Type", CONTENT_TYPE)], self._metrics.render())
        else:
            alive, report = self._fleet.health()
            client.respond(200 if alive else 503, [JSON], msgspec.json.encode(report))
