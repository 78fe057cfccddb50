"""Reading requests: whole HTTP/1.1 messages out of the bytes of one connection. Pure: no sockets, no clock."""

from collections import deque

import httptools

from .http1 import HOP_BY_HOP, Headers, Request, lines, named_in_connection

# The engine takes headers of 64 kB; whoever sends far more than that is not a client.
MAX_HEAD_BYTES = 256 * 1024
# Headers that are noted for the proxy's own use; all others are only passed on.
_NOTED = frozenset(
    b"authorization connection content-length expect host transfer-encoding upgrade x-api-key x-session-id".split()
)
# Headers that are not passed on as they are: those of the connection, and those the engine's side writes itself.
_REWRITTEN = frozenset((b"content-length", b"expect", b"host"))
_WITHHELD = HOP_BY_HOP | _REWRITTEN


class Refusal:
    """What takes a request's place in the order of answers when it can't be accepted."""

    __slots__ = ("message", "status")

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message


class RequestReader:
    """Reads one connection's requests. Framing is llhttp's, which refuses what is ambiguous; a refusal is the last."""

    def __init__(self, max_body_bytes: int) -> None:
        self.ready: deque[Request | Refusal] = deque()
        # Nothing more is read: what follows a request that could not be read has no known beginning.
        self.finished = False
        # The client waits for a 100 before it sends the body.
        self.continue_due = False
        self._max_body_bytes = max_body_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._ended = False
        self._start_over()

    def _start_over(self) -> None:
        self._request: Request | None = None
        self._url = b""
        self._headers: Headers = []
        self._noted: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._begun = False
        self._head_bytes = 0
        self._upgrading = False
        self.continue_due = False

    @property
    def in_request(self) -> bool:
        """Tell whether a request has begun and not ended."""
        return self._begun and not self.finished

    def feed(self, data: bytes) -> None:
        """Take bytes; requests that are whole are then `ready`."""
        while data and not self.finished:
            data = self._feed(data)

    def _feed(self, data: bytes) -> bytes:
        """Take bytes, and return those that are to be taken next: a declined upgrade is read again from its head."""
        self._ended = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade() + data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            self._refuse(400, f"the request is not valid HTTP/1.1: {error}")
        # Of a read that brought the end of a request, nobody says how much of it is the next one's head.
        if self._request is None and not self._ended:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"the request's head exceeds {MAX_HEAD_BYTES} bytes")
        return b""

    def _without_upgrade(self) -> bytes:
        """Return the head of the current request without its wish for an upgrade, which declines it (RFC 9110, 7.8).

        Java's HTTP client asks for h2c with every request, bodies included. llhttp stops behind the head of such a
        request, so a fresh parser gets the same request as if it had not asked.
        """
        request, noted = self._request, self._noted
        if request is None or self.finished:
            return b""
        headers: Headers = [(name, noted[name]) for name in (*_REWRITTEN, b"transfer-encoding") if name in noted]
        if not request.keep_alive:
            headers.append((b"connection", b"close"))
        head = b"%b %b HTTP/1.%d\r\n" % (request.method, self._url, 0 if request.http10 else 1)
        head += lines(request.headers) + lines(headers) + b"\r\n"
        self._start_over()
        self._parser = httptools.HttpRequestParser(self)
        return head

    def _refuse(self, status: int, message: str) -> None:
        if not self.finished:
            self.finished = True
            self._body.clear()
            self.ready.append(Refusal(status, message))

    def _refuse_size(self) -> None:
        self._refuse(413, f"the request's body exceeds MAX_BODY_BYTES ({self._max_body_bytes} bytes)")

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        self._begun = True

    def on_url(self, url: bytes) -> None:
        """Take the target, or a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are dropped."""
        if self._request is not None:
            return
        lower = name.lower()
        if lower in _NOTED:
            before = self._noted.get(lower)
            self._noted[lower] = value if before is None else before + b", " + value
        if lower not in _WITHHELD:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Look at a request whose head is complete."""
        noted, parser = self._noted, self._parser
        version = parser.get_http_version()
        request = self._request = Request(parser.get_method(), _origin_form(self._url), self._headers, noted)
        request.http10 = version == "1.0"
        request.keep_alive = parser.should_keep_alive() and not request.http10
        if b"connection" in noted:
            named = named_in_connection(noted[b"connection"])
            request.headers = [header for header in self._headers if header[0].lower() not in named]
        self._upgrading = parser.should_upgrade()
        coding = noted.get(b"transfer-encoding")
        if version not in ("1.0", "1.1") or request.method == b"CONNECT":
            self._refuse(400, "only HTTP/1.0 and HTTP/1.1 requests, and no tunnels, are served here")
        elif coding is not None and (coding.lower() != b"chunked" or request.http10):
            self._refuse(400, "the only transfer coding that is understood is HTTP/1.1's chunked")
        elif int(noted.get(b"content-length", 0)) > self._max_body_bytes:
            self._refuse_size()
        else:
            self.continue_due = noted.get(b"expect", b"").lower() == b"100-continue" and not request.http10

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self.finished:
            return
        self._body.append(body)
        self._size += len(body)
        if self._size > self._max_body_bytes:
            self._refuse_size()

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        request = self._request
        if request is None or self.finished or self._upgrading:
            return
        request.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self.ready.append(request)
        self._start_over()
        self._ended = True


def _origin_form(target: bytes) -> bytes:
    """Return a request target without the scheme and authority that clients of forward proxies put there."""
    if target.startswith(b"/") or target == b"*":
        return target
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target
    return (url.path or b"/") + (b"?" + url.query if url.query is not None else b"")
