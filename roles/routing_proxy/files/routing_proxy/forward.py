"""One request's way to a replica and its answer's way back, failover included.

What may be sent again, and when, is decided here and nowhere else:

* A connection that can't be made: the next replica, always; nothing was sent.
* Sent, and the connection ended before a byte of an answer: the next replica only if the port refuses connections now,
  which proves the process dead. A replica that lives on may be working on the request, so the client gets a 502.
* Refused by the engine itself (503, or the 500 of one that is shutting down): the next replica; it did not run.
* After the first byte reached the client: never. The answer is cut so that it can't be taken for a whole one.
"""

import asyncio
import errno

from . import errors, log, sockets
from .account import Account
from .fleet import Fleet, Member
from .http1 import Header, Request, lines
from .identity import Identity, response_id_in
from .routes import Route
from .routing import Decision
from .server import ClientConnection
from .upstream import Answer, EngineConnection

# What vLLM says in a 500 to requests that arrive while it finishes its last ones (--shutdown-timeout).
_STOPPING = b"cannot schedule new futures after shutdown"
# A refusal is a short JSON text; a longer body is an answer and is passed on.
_MAX_REFUSAL_BYTES = 64 * 1024
# The id of a stored response is in the first event, or near the start of the JSON.
_MAX_ID_BYTES = 16 * 1024
# Faults of the proxy's own machine, which say nothing about a replica.
_OWN_FAULTS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}


class Forward:
    """One request on its way. Driven by callbacks: the client's, the engine's, and two tasks for what takes waiting."""

    def __init__(
        self,
        fleet: Fleet,
        client: ClientConnection,
        request: Request,
        route: Route,
        identity: Identity,
        account: Account,
    ) -> None:
        self._fleet = fleet
        self._client = client
        self._request = request
        self._route = route
        self._identity = identity
        self._account = account
        # Where it is.
        self._tried: set[str] = set()
        self._member: Member | None = None
        self._decision = Decision.SPREAD
        self._connection: EngineConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self.paused = False
        # What came back: the status once the client has it, and an answer that is held because it may be a refusal.
        self._status = 0
        self._held: list[bytes] | None = None
        self._refusal: tuple[Member, Answer, list[bytes]] | None = None
        self._is_stream = False
        self._id_search: bytes | None = b"" if route.endpoint == "responses" and request.method == b"POST" else None

    def start(self) -> None:
        """Set out."""
        self._client.exchange = self
        self._go("", "")

    # The way there.

    def _go(self, failed: str, reason: str) -> None:
        """Send the request to the next replica; `failed` is the one that could not take it, if any, and why."""
        choice = self._fleet.choose(self._identity, self._tried)
        if choice is None:
            self._give_up(failed, reason)
            return
        if failed:
            log.failover(failed, reason, choice.replica)
        self._decision = Decision.FAILOVER if failed else choice.decision
        member = self._enter(self._fleet.members[choice.replica])
        connection = member.pool.take()
        if connection is not None:
            self._send(member, connection)
        else:
            self._task = asyncio.get_running_loop().create_task(self._connect(member))

    def _enter(self, member: Member) -> Member:
        self._member = member
        self._fleet.enter(member, self)
        return member

    async def _connect(self, member: Member) -> None:
        try:
            connection = await member.pool.connect()
        except OSError as error:
            self._task = None
            reason = sockets.problem(error)
            if error.errno in _OWN_FAULTS:
                log.say(f"cannot open a connection to {member.name}: {reason}")
                self._fail(503, f"the proxy is out of resources: {reason}")
                return
            self._fleet.connect_failed(member, reason)
            self._next(member, reason, "connect")
        else:
            self._task = None
            self._send(member, connection)

    def _send(self, member: Member, connection: EngineConnection) -> None:
        request = self._request
        self._connection = connection
        self._held = None
        self._fleet.router.record(self._identity, member.name)
        framing = b"Host: %b\r\n" % member.host_header
        if request.body or b"content-length" in request.noted or b"transfer-encoding" in request.noted:
            framing += b"Content-Length: %d\r\n" % len(request.body)
        head = b"%b %b HTTP/1.1\r\n%b%b\r\n" % (request.method, request.target, framing, lines(request.headers))
        connection.send(head, request.body, self, request.method == b"HEAD")
        if self.paused:
            connection.pause()

    def _next(self, member: Member, reason: str, kind: str) -> None:
        """Go on to another replica: this one did not take the request."""
        self._fleet.metrics.failed_over(member.name, kind)
        self._leave()
        self._tried.add(member.name)
        self._go(member.name, reason)

    def _give_up(self, failed: str, reason: str) -> None:
        """Answer a request that no replica is left for: with the last refusal of an engine if there was one."""
        if failed:
            log.say(f"{failed} unreachable ({reason}), and no other replica can serve")
        if self._refusal is None:
            self._fail(503, "no replica can serve at the moment")
            return
        member, answer, pieces = self._refusal
        self._enter(member)
        self._begin(member, answer)
        self._pass_on(member, pieces, complete=True)

    # The way back.

    def on_read(self, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        """Pass on what one read brought."""
        member = self._here()
        self._fleet.moved(member)
        if complete:
            self._connection = None
        if self._status == 0:
            if self._may_be_refusal(member, answer):
                self._hold(member, answer, pieces, complete)
                return
            self._begin(member, answer)
        self._pass_on(member, pieces, complete)

    def _may_be_refusal(self, member: Member, answer: Answer) -> bool:
        """Tell whether an answer may say that the request was not taken, and there is something to do about it."""
        if answer.status not in (500, 503) or (answer.length or 0) > _MAX_REFUSAL_BYTES:
            return False
        return self._held is not None or bool(self._fleet.candidates(self._tried | {member.name}))

    def _hold(self, member: Member, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        held = self._held = (self._held or []) + pieces
        if not complete and sum(map(len, held)) <= _MAX_REFUSAL_BYTES:
            return
        stopping = answer.status == 500 and _STOPPING in b"".join(held)
        if complete and (stopping or answer.status == 503):
            self._refusal = (member, answer, held)
            self._next(member, "is shutting down" if stopping else "answered 503", "stopping" if stopping else "busy")
        else:
            self._begin(member, answer)
            self._pass_on(member, held, complete)

    def _begin(self, member: Member, answer: Answer) -> None:
        """Pass on the head of an answer."""
        self._status = answer.status
        self._request.body = b""
        headers: list[Header] = [*answer.headers, *self._labels(member)]
        events = answer.header(b"content-type").startswith(b"text/event-stream")
        if events and not answer.header(b"x-accel-buffering"):
            headers.append((b"X-Accel-Buffering", b"no"))
        self._is_stream = events and not answer.header(b"content-encoding")
        self._account.began(self._is_stream)
        self._client.start(answer.status, answer.reason, headers, answer.length)

    def _labels(self, member: Member) -> list[Header]:
        return [(b"X-Fleet-Replica", member.name.encode()), (b"X-Fleet-Decision", self._decision.value.encode())]

    def _pass_on(self, member: Member, pieces: list[bytes], complete: bool) -> None:
        """Pass on pieces of the body."""
        if pieces:
            self._client.write(pieces)
            self._account.passed(pieces)
            if self._id_search is not None:
                self._learn_id(member, pieces)
        if complete:
            self._end(self._status)
            self._client.finish()
        else:
            self._client.flush()

    def _learn_id(self, member: Member, pieces: list[bytes]) -> None:
        """Look for the id of a stored response, which only this replica can answer for."""
        self._id_search = b"".join((self._id_search or b"", *pieces))
        found = response_id_in(self._id_search)
        if found is not None:
            self._fleet.router.record_response(found, member.name)
        if found is not None or len(self._id_search) > _MAX_ID_BYTES:
            self._id_search = None

    # When it breaks.

    def on_lost(self, reason: str) -> None:
        """The engine's connection ended before the answer did."""
        member = self._here()
        self._connection = None
        member.may_have_restarted = True
        if self._status:
            self._cut(member, f"{member.name} {reason} in the middle of the answer")
        elif self._held is not None:
            self._fail(502, f"{member.name} {reason} in the middle of its answer")
        else:
            self._task = asyncio.get_running_loop().create_task(self._find_out(member, reason))

    async def _find_out(self, member: Member, reason: str) -> None:
        """Send the request again only if the replica is proven dead."""
        dead = await member.pool.refuses()
        self._task = None
        if dead:
            self._fleet.connect_failed(member, "connection refused")
            self._next(member, f"{reason}, then connection refused", "died")
        else:
            log.say(f"{member.name} {reason} before it answered, and lives on: 502, the request is not sent again")
            self._fail(502, f"{member.name} {reason} before it answered; the request may have run and is not repeated")

    def _fail(self, status: int, message: str) -> None:
        """Answer with an error of the proxy's own."""
        headers: list[Header] = [(b"Content-Type", b"application/json")]
        if status == 503:
            headers.append((b"Retry-After", b"%d" % errors.RETRY_AFTER_SECONDS))
        if self._member is not None:
            headers += self._labels(self._member)
        self._end(status)
        self._client.respond(status, headers, errors.body(self._route.api, status, message))

    def _cut(self, member: Member, why: str) -> None:
        """Break the answer off, with an event that says so if it is a stream of events."""
        log.say(f"answer cut: {why}")
        self._fleet.metrics.cut(member.name)
        words = b""
        if self._is_stream:
            words = (b"\n\n" if self._account.inside_event() else b"") + errors.event(self._route.api, why)
        self._end(self._status)
        self._client.cut(words)

    # Client and proxy.

    def cancel(self) -> None:
        """The client is gone: the engine's connection is closed at once, which ends its work there."""
        self._stop()
        self._end(499)

    def interrupt(self) -> None:
        """The proxy stops."""
        self._stop()
        if self._status:
            self._cut(self._here(), "the proxy was stopped")
        else:
            self._fail(503, "the proxy was stopped")

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def pause(self) -> None:
        """The client reads too slowly: the engine waits."""
        self.paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """The client has caught up."""
        self.paused = False
        if self._member is not None:
            self._fleet.moved(self._member)
        if self._connection is not None:
            self._connection.resume()

    def _here(self) -> Member:
        assert self._member is not None, "an engine answers only a request that is in flight there"
        return self._member

    def _leave(self) -> None:
        if self._member is not None:
            self._fleet.leave(self._member, self)
            self._member = None

    def _end(self, code: int) -> None:
        """Close the books, and count the request out."""
        if self._member is not None:
            self._account.closed(code, self._member.name, self._decision.value)
        else:
            self._account.closed(code)
        self._leave()
