"""An answer's way to the client: an engine's, piece by piece as it comes, or an error of the proxy's own."""

from . import errors, log
from .account import NOBODY, Account
from .fleet import Fleet, Member
from .http1 import JSON, Header
from .identity import response_id_in
from .routes import Route
from .routing import Decision
from .server import ClientConnection
from .upstream import Answer

# The id of a stored response is in its first event, or near the start of its JSON.
_MAX_ID_BYTES = 16 * 1024


class Delivery:
    """The answer to one request. `status` is 0 until the client has begun to get an engine's answer."""

    __slots__ = (
        "_account",
        "_client",
        "_decision",
        "_fleet",
        "_id_search",
        "_is_stream",
        "_member",
        "_route",
        "status",
    )

    def __init__(
        self, fleet: Fleet, client: ClientConnection, account: Account, route: Route, makes_response: bool
    ) -> None:
        """Deliver to `client`; `makes_response` says that the answer is a stored response, with an id to learn."""
        self._fleet = fleet
        self._client = client
        self._account = account
        self._route = route
        self._id_search: bytes | None = b"" if makes_response else None
        self._member: Member | None = None
        self._decision = Decision.SPREAD
        self._is_stream = False
        self.status = 0

    def comes_from(self, member: Member | None, decision: Decision = Decision.SPREAD) -> None:
        """Name the replica that has the request now, None if none has, and why it was chosen."""
        self._member = member
        self._decision = decision

    def begin(self, answer: Answer) -> None:
        """Take the head of an engine's answer."""
        self.status = answer.status
        headers: list[Header] = [*answer.headers, *self._labels()]
        noted = answer.noted
        if noted.get(b"content-type", b"").startswith(b"text/event-stream"):
            self._is_stream = b"content-encoding" not in noted
            if b"x-accel-buffering" not in noted:
                headers.append((b"X-Accel-Buffering", b"no"))
        self._account.began(self._is_stream)
        self._client.start(answer.status, answer.reason, headers, answer.length)

    def pass_on(self, pieces: list[bytes], last: bool) -> None:
        """Send pieces of the body, each as it came; `finish` must follow the last."""
        client = self._client
        if pieces:
            client.write(pieces)
        client.flush(last)
        # Books are kept when the client has what it waits for.
        if pieces:
            self._account.passed(pieces)
            if self._id_search is not None:
                self._learn_id(self._id_search + b"".join(pieces))

    def finish(self) -> None:
        """End an answer that is whole."""
        self._close(self.status)
        self._client.finish()

    def fail(self, status: int, message: str) -> None:
        """Answer with an error of the proxy's own."""
        headers: list[Header] = [JSON, *self._labels()]
        if status == 503:
            headers.append((b"Retry-After", b"%d" % errors.RETRY_AFTER_SECONDS))
        self._close(status)
        self._client.respond(status, headers, errors.body(self._route.api, status, message))

    def cut(self, why: str) -> None:
        """Break an answer off, with an event that says so if it is a stream of events."""
        log.say(f"answer cut: {why}")
        if self._member is not None:
            self._fleet.metrics.cut(self._member.name)
        words = b""
        if self._is_stream:
            words = (b"\n\n" if self._account.inside_event() else b"") + errors.event(self._route.api, why)
        self._close(self.status)
        self._client.cut(words)

    def abandon(self) -> None:
        """The client is gone."""
        self._close(499)

    def _labels(self) -> list[Header]:
        if self._member is None:
            return []
        return [(b"X-Fleet-Replica", self._member.label), (b"X-Fleet-Decision", self._decision.encode())]

    def _learn_id(self, head: bytes) -> None:
        """Look for the id of a stored response, which only this replica can answer for."""
        found = response_id_in(head)
        if found is not None and self._member is not None:
            self._fleet.router.record_response(found, self._member.name)
        self._id_search = None if found is not None or len(head) > _MAX_ID_BYTES else head

    def _close(self, code: int) -> None:
        if self._member is None:
            self._account.closed(code, NOBODY, NOBODY)
        else:
            self._account.closed(code, self._member.name, self._decision.value)
