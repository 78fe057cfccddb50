"""What both sides of the proxy share of HTTP/1.1: messages and their headers. Framing is left to llhttp."""

from collections.abc import Iterable
from http import HTTPStatus

Header = tuple[bytes, bytes]
Headers = list[Header]

# Headers that belong to one connection (RFC 9110, 7.6.1), never forwarded.
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer"
    b" transfer-encoding upgrade http2-settings".split()
)
JSON: Header = (b"Content-Type", b"application/json")
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class Request:
    """A request as it came, its body whole and without transfer coding.

    `headers` are those to pass on, as they were spelled; `noted` those that mean something to the proxy, by lower-case
    name. `started` is when it was whole, in seconds of the monotonic clock.
    """

    __slots__ = ("body", "headers", "http10", "keep_alive", "method", "noted", "path", "started", "target")

    def __init__(self, method: bytes, target: bytes, headers: Headers, noted: dict[bytes, bytes]) -> None:
        self.method = method
        self.target = target
        self.path = target.partition(b"?")[0]
        self.headers = headers
        self.noted = noted
        self.http10 = False
        self.keep_alive = True
        self.body = b""
        self.started = 0.0


def named_in_connection(value: bytes) -> frozenset[bytes]:
    """Return the lower-case header names that a Connection header declares as belonging to this connection."""
    return frozenset(token.strip().lower() for token in value.split(b","))


def lines(headers: Iterable[Header]) -> bytes:
    """Return headers as they go on the wire."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def reason_phrase(status: int) -> bytes:
    """Return the standard reason phrase of a status, or nothing."""
    return _REASONS.get(status, b"")
