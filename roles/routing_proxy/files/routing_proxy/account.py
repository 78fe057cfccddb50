"""The books of one request: what it took, for the metrics and for the access log."""

import time

from . import log
from .http1 import Request
from .metrics import Metrics
from .routes import Route

# The replica, and the decision, of a request that no replica got.
NOBODY = "none"


class Account:
    """Takes note of what happens to one request; `closed` ends it, once."""

    __slots__ = (
        "_first_byte",
        "_first_token",
        "_log",
        "_metrics",
        "_received",
        "_request",
        "_route",
        "_sent",
        "_stream",
        "_tail",
    )

    def __init__(self, metrics: Metrics, request: Request, route: Route, log_requests: bool) -> None:
        self._metrics = metrics
        self._request = request
        self._route = route
        self._log = log_requests
        self._received = len(request.body)
        self._sent = 0
        self._stream = False
        self._tail = b""
        self._first_byte: float | None = None
        self._first_token: float | None = None

    def began(self, stream: bool) -> None:
        """The answer began; `stream` says that it is a stream of events."""
        self._first_byte = time.monotonic() - self._request.started
        self._stream = stream

    def passed(self, pieces: list[bytes]) -> None:
        """Pieces of the body went to the client. The engine's first data line comes with its first token."""
        self._sent += sum(map(len, pieces))
        if not self._stream:
            return
        last = pieces[-1]
        self._tail = last if len(last) > 3 else self._tail[-4:] + last
        if self._first_token is None and any(b"data:" in piece for piece in pieces):
            self._first_token = time.monotonic() - self._request.started

    def inside_event(self) -> bool:
        """Tell whether the stream's last event has no end yet."""
        return bool(self._tail) and not self._tail.endswith((b"\n\n", b"\r\r", b"\n\r\n"))

    def closed(self, code: int, replica: str, decision: str) -> None:
        """The request is over."""
        request, endpoint = self._request, self._route.endpoint
        total = time.monotonic() - request.started
        self._metrics.count(replica, endpoint, code, decision)
        if self._first_byte is not None:
            self._metrics.timed(replica, endpoint, self._first_byte, self._first_token, total)
        if self._log:
            first = "" if self._first_byte is None else f" first byte {self._first_byte:.3f} s,"
            where = f"{request.method.decode()} {request.path.decode('latin-1')}"
            size = f"in {self._received} B, out {self._sent} B"
            log.say(f"request {where} {code} {replica} {decision},{first} total {total:.3f} s, {size}")
