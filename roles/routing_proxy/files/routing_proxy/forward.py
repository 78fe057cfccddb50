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

from . import errors, log
from .fleet import Fleet, Member
from .http1 import Header, Request, lines
from .identity import Identity, identify, response_id_in
from .routes import Route
from .routing import Decision
from .server import ClientConnection
from .upstream import Answer, EngineConnection, os_reason

# What vLLM says in a 500 to requests that arrive while it finishes its last ones (--shutdown-timeout).
_STOPPING = b"cannot schedule new futures after shutdown"
# A refusal is a short JSON text; a longer body is an answer and is passed on.
_MAX_REFUSAL_BYTES = 64 * 1024
# Faults of the proxy's own machine, which say nothing about a replica.
_OWN_FAULTS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
# A process that is dying may still accept connections for a moment after it dropped one.
_DEATH_PROBES = 6
_DEATH_PROBE_SECONDS = 0.05


class Forward:
    """One request on its way."""

    def __init__(
        self, fleet: Fleet, client: ClientConnection, request: Request, route: Route, affinity_bytes: int
    ) -> None:
        self._fleet = fleet
        self._client = client
        self._request = request
        self._route = route
        self._loop = asyncio.get_running_loop()
        session = request.noted.get(b"x-session-id")
        self._identity: Identity = identify(
            request.method.decode(),
            request.path.decode("latin-1"),
            session.decode("latin-1") if session else None,
            request.body,
            affinity_bytes,
        )
        self._tried: set[str] = set()
        self._member: Member | None = None
        self._decision = Decision.SPREAD
        self._connection: EngineConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._refusal: tuple[Answer, list[bytes]] | None = None
        self._status = 0
        self._is_stream = False
        self._learn_id = route.endpoint == "responses" and request.method == b"POST"
        self._tail = b""
        self._first_byte = 0.0
        self._first_token: float | None = None
        self.paused = False

    def start(self) -> None:
        """Set out."""
        self._client.exchange = self
        self._go()

    # The way there.

    def _go(self, failed: str = "", reason: str = "") -> None:
        """Send the request to the next replica; `failed` is the one that could not take it, and why."""
        choice = self._fleet.choose(self._identity, self._tried)
        if choice is None:
            self._give_up(failed, reason)
            return
        if failed:
            log.failover(failed, reason, choice.replica)
        self._decision = Decision.FAILOVER if self._tried else choice.decision
        member = self._member = self._fleet.members[choice.replica]
        self._fleet.enter(member, self)
        connection = member.pool.take()
        if connection is not None:
            self._send(member, connection)
        else:
            self._task = self._loop.create_task(self._connect(member))

    async def _connect(self, member: Member) -> None:
        try:
            connection = await member.pool.connect()
        except OSError as error:
            self._task = None
            if error.errno in _OWN_FAULTS:
                log.say(f"cannot open a connection to {member.name}: {os_reason(error)}")
                self._fail(503, f"the proxy is out of resources: {os_reason(error)}")
                return
            reason = os_reason(error)
            self._fleet.connect_failed(member, reason)
            self._next(member, reason, "connect")
        else:
            self._task = None
            self._send(member, connection)

    def _send(self, member: Member, connection: EngineConnection) -> None:
        request = self._request
        self._connection = connection
        self._fleet.router.record(self._identity, member.name)
        framing = b"Host: %b\r\n" % member.backend.authority.encode()
        if request.body or b"content-length" in request.noted or b"transfer-encoding" in request.noted:
            framing += b"Content-Length: %d\r\n" % len(request.body)
        head = b"%b %b HTTP/1.1\r\n%b%b\r\n" % (request.method, request.target, framing, lines(request.headers))
        connection.send(head, request.body, self, request.method == b"HEAD")

    def _next(self, member: Member, reason: str, kind: str) -> None:
        """Go on to another replica: this one did not take the request."""
        self._fleet.metrics.failed_over(member.name, kind)
        self._leave()
        self._tried.add(member.name)
        self._go(member.name, reason)

    def _give_up(self, failed: str, reason: str) -> None:
        if self._refusal is not None:
            answer, pieces = self._refusal
            self._member = self._fleet.members[failed]
            self._fleet.enter(self._member, self)
            self._begin(answer)
            self._pass_on(pieces, complete=True)
            return
        if failed:
            log.say(f"{failed} unreachable ({reason}), and no other replica can serve")
        self._fail(503, "no replica can serve at the moment")

    # The way back.

    def on_read(self, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        """Pass on what one read brought."""
        member = self._member
        assert member is not None
        member.progress = self._loop.time()
        if self._status == 0:
            if self._is_refusal(member, answer):
                self._hold(member, answer, pieces, complete)
                return
            self._begin(answer)
        self._pass_on(pieces, complete)

    def _is_refusal(self, member: Member, answer: Answer) -> bool:
        """Tell whether an answer may say that the request was not taken, and there is another replica to ask."""
        if answer.status not in (500, 503) or (answer.length or 0) > _MAX_REFUSAL_BYTES:
            return False
        return self._refusal is not None or bool(self._fleet.candidates(self._tried | {member.name}))

    def _hold(self, member: Member, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        held = self._refusal[1] if self._refusal is not None and self._refusal[0] is answer else []
        held += pieces
        self._refusal = (answer, held)
        if not complete and sum(map(len, held)) <= _MAX_REFUSAL_BYTES:
            return
        stopping = answer.status == 500 and _STOPPING in b"".join(held)
        if complete and (stopping or answer.status == 503):
            self._connection = None
            self._next(member, "is shutting down" if stopping else "answered 503", "stopping" if stopping else "busy")
            return
        self._begin(answer)
        self._pass_on(held, complete)

    def _begin(self, answer: Answer) -> None:
        member = self._member
        assert member is not None
        self._status = answer.status
        self._first_byte = self._loop.time()
        self._request.body = b""
        headers: list[Header] = answer.headers
        if answer.header(b"content-type").startswith(b"text/event-stream"):
            self._is_stream = not answer.header(b"content-encoding")
            if not answer.header(b"x-accel-buffering"):
                headers = [*headers, (b"X-Accel-Buffering", b"no")]
        self._client.start(answer.status, answer.reason, [*headers, *self._labels(member)], answer.length)

    def _labels(self, member: Member) -> list[Header]:
        return [(b"X-Fleet-Replica", member.name.encode()), (b"X-Fleet-Decision", self._decision.value.encode())]

    def _pass_on(self, pieces: list[bytes], complete: bool) -> None:
        member = self._member
        assert member is not None
        if pieces:
            self._client.write(pieces)
            if self._is_stream:
                if self._first_token is None and any(b"data:" in piece for piece in pieces):
                    self._first_token = self._loop.time()
                self._tail = (self._tail + pieces[-1][-4:])[-4:]
            if self._learn_id:
                self._learn(member, pieces)
        if complete:
            self._connection = None
            self._end(self._status)
            self._client.finish()
        else:
            self._client.flush()

    def _learn(self, member: Member, pieces: list[bytes]) -> None:
        """Look for the id of a stored response, which only this replica can answer for."""
        found = response_id_in(b"".join(pieces))
        if found is not None:
            self._fleet.router.record_response(found, member.name)
            self._learn_id = False

    # When it breaks.

    def on_lost(self, reason: str) -> None:
        """The engine's connection ended before the answer did."""
        member = self._member
        assert member is not None
        self._connection = None
        member.may_have_restarted = True
        if self._status != 0:
            self._cut(f"{member.name} {reason} in the middle of the answer")
        elif self._refusal is not None and self._refusal[0].status and self._held_from(member):
            self._fail(502, f"{member.name} {reason} in the middle of its answer")
        else:
            self._task = self._loop.create_task(self._find_out(member, reason))

    def _held_from(self, member: Member) -> bool:
        return member.name not in self._tried

    async def _find_out(self, member: Member, reason: str) -> None:
        """Send the request again only if the replica is proven dead."""
        dead = await _refuses_connections(member)
        self._task = None
        if dead:
            self._fleet.connect_failed(member, "connection refused")
            self._next(member, f"{reason}, then connection refused", "died")
        else:
            log.say(f"{member.name} {reason} before it answered and lives on: 502, not sent again")
            self._fail(502, f"{member.name} {reason} before it answered; the request may have run and was not repeated")

    def _fail(self, status: int, message: str) -> None:
        """Answer with an error of the proxy's own."""
        member = self._member
        headers = [(b"Content-Type", b"application/json")]
        if status == 503:
            headers.append((b"Retry-After", b"%d" % errors.RETRY_AFTER_SECONDS))
        if member is not None:
            headers += self._labels(member)
        self._end(status)
        self._client.respond(status, headers, errors.body(self._route.api, status, message))

    def _cut(self, why: str) -> None:
        member = self._member
        assert member is not None
        log.say(f"answer cut: {why}")
        self._fleet.metrics.cut(member.name)
        words = b""
        if self._is_stream:
            boundary = self._tail.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")) or not self._tail
            words = (b"" if boundary else b"\n\n") + errors.event(self._route.api, why)
        self._end(self._status)
        self._client.cut(words)

    # Client and proxy.

    def cancel(self) -> None:
        """The client is gone: so is what the engine was doing for it, within the time a FIN takes."""
        self._stop()
        self._end(499)

    def interrupt(self) -> None:
        """The proxy stops."""
        self._stop()
        if self._status:
            self._cut("the proxy was stopped")
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
            self._member.progress = self._loop.time()
        if self._connection is not None:
            self._connection.resume()

    def _leave(self) -> None:
        if self._member is not None:
            self._fleet.leave(self._member, self)
            self._member = None

    def _end(self, code: int) -> None:
        """Account for the request, once."""
        member = self._member
        name, decision = (member.name, self._decision.value) if member is not None else ("none", "none")
        metrics, now, started = self._fleet.metrics, self._loop.time(), self._request.started
        metrics.count(name, self._route.endpoint, code, decision)
        if self._status:
            first_token = None if self._first_token is None else self._first_token - started
            metrics.timed(name, self._route.endpoint, self._first_byte - started, first_token, now - started)
        self._leave()


async def _refuses_connections(member: Member) -> bool:
    """Tell whether a replica's port refuses connections, now or within a third of a second."""
    for probe in range(_DEATH_PROBES):
        if probe:
            await asyncio.sleep(_DEATH_PROBE_SECONDS)
        try:
            (await member.pool.connect()).abort()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
