"""One request's way to a replica, failover included.

What may be sent again, and when, is decided here and nowhere else:

* A connection that can't be made: the next replica, always; nothing was sent.
* Sent, and the connection ended before a byte of an answer: the next replica only if the port refuses connections now,
  which proves the process dead. A replica that lives on may be working on the request, so the client gets a 502.
* Refused by the engine itself (503, or the 500 of one that is shutting down): the next replica; it did not run.
* After the first byte reached the client: never. The answer is cut so that it can't be taken for a whole one.
"""

import asyncio
import errno
from collections.abc import Callable

from . import log, sockets
from .account import Account
from .delivery import Delivery
from .fleet import Fleet, Member
from .http1 import Request, lines
from .identity import Identity
from .routes import Route
from .routing import Decision
from .server import ClientConnection
from .upstream import Answer, EngineConnection

# What vLLM says in a 500 to requests that arrive while it finishes its last ones (--shutdown-timeout).
_STOPPING = b"cannot schedule new futures after shutdown"
# A refusal is a short JSON text; a longer body is an answer and is passed on.
_MAX_REFUSAL_BYTES = 64 * 1024
LARGE_BODY_BYTES = 2**20
"""Bodies larger than this are read in a thread: that takes milliseconds (0.6 for 400 kB), which other streams
need not wait."""
_UNKNOWN = Identity()
# Faults of the proxy's own machine, which say nothing about a replica.
_OWN_FAULTS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}


class Forward:
    """One request on its way. Driven by callbacks: the client's, the engine's, and two tasks for what takes waiting."""

    __slots__ = (
        "_client",
        "_connection",
        "_delivery",
        "_fleet",
        "_held",
        "_identity",
        "_member",
        "_refusal",
        "_request",
        "_task",
        "_tried",
        "paused",
    )

    def __init__(
        self, fleet: Fleet, client: ClientConnection, request: Request, route: Route, account: Account
    ) -> None:
        self._fleet = fleet
        self._client = client
        self._request = request
        self._identity = _UNKNOWN
        makes_response = route.endpoint == "responses" and request.method == b"POST"
        self._delivery = Delivery(fleet, client, account, route, makes_response)
        self._tried: tuple[str, ...] = ()
        self._member: Member | None = None
        self._connection: EngineConnection | None = None
        self._task: asyncio.Task[None] | None = None
        # What came of an answer that may be a refusal, and the last one that was.
        self._held: list[bytes] | None = None
        self._refusal: tuple[Member, Answer, list[bytes]] | None = None
        self.paused = False

    def start(self, identify: Callable[[Request], Identity]) -> None:
        """Set out, once it is known what conversation this is."""
        self._client.exchange = self
        if len(self._request.body) > LARGE_BODY_BYTES:
            self._task = asyncio.get_running_loop().create_task(self._start_apart(identify))
        else:
            self._identity = identify(self._request)
            self._go("", "")

    async def _start_apart(self, identify: Callable[[Request], Identity]) -> None:
        self._identity = await asyncio.to_thread(identify, self._request)
        self._task = None
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
        member = self._fleet.members[choice.replica]
        self._enter(member, Decision.FAILOVER if failed else choice.decision)
        connection = member.pool.take()
        if connection is not None:
            self._send(member, connection)
        else:
            self._task = asyncio.get_running_loop().create_task(self._connect(member))

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
            self._fleet.connect_failed(member, error)
            self._next(member, reason, "connect")
        else:
            self._task = None
            self._send(member, connection)

    def _send(self, member: Member, connection: EngineConnection) -> None:
        request = self._request
        self._connection = connection
        self._held = None
        framing = b"Host: %b\r\n" % member.host_header
        if request.body or b"content-length" in request.noted or b"transfer-encoding" in request.noted:
            framing += b"Content-Length: %d\r\n" % len(request.body)
        head = b"%b %b HTTP/1.1\r\n%b%b\r\n" % (request.method, request.target, framing, lines(request.headers))
        connection.send(head, request.body, self, request.method == b"HEAD")
        if self.paused:
            connection.pause()
        # Once it is sent, and not before: the engine need not wait for the records.
        self._fleet.router.record(self._identity, member.name)

    def _next(self, member: Member, reason: str, kind: str) -> None:
        """Go on to another replica: this one did not take the request."""
        self._fleet.metrics.failed_over(member.name, kind)
        self._leave()
        self._delivery.comes_from(None)
        self._tried += (member.name,)
        self._go(member.name, reason)

    def _give_up(self, failed: str, reason: str) -> None:
        """Answer a request that no replica is left for: with the last refusal of an engine if there was one."""
        if failed:
            log.say(f"{failed} unreachable ({reason}), and no other replica can serve")
        if self._refusal is None:
            self._fail(503, "no replica can serve at the moment")
            return
        member, answer, pieces = self._refusal
        self._enter(member, Decision.FAILOVER)
        self._deliver(answer, pieces, complete=True)

    # The way back.

    def on_read(self, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        """Pass on what one read brought, unless the answer may be a refusal."""
        member = self._member
        assert member is not None, "an engine answers only a request that is in flight there"
        self._fleet.moved(member)
        if complete:
            self._connection = None
        if self._delivery.status == 0 and answer.status in (500, 503):
            self._hold(member, answer, pieces, complete)
        else:
            self._deliver(answer, pieces, complete)

    def _deliver(self, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        delivery = self._delivery
        if delivery.status == 0:
            delivery.begin(answer)
            self._request.body = b""
        delivery.pass_on(pieces, complete)
        if complete:
            self._leave()
            delivery.finish()

    def _hold(self, member: Member, answer: Answer, pieces: list[bytes], complete: bool) -> None:
        """Hold an answer back until it is clear whether it says that the request was not taken."""
        held = self._held = (self._held or []) + pieces
        if not complete and sum(map(len, held)) <= _MAX_REFUSAL_BYTES:
            return
        stopping = answer.status == 500 and _STOPPING in b"".join(held)
        if complete and (stopping or answer.status == 503):
            self._refusal = (member, answer, held)
            self._next(member, "is shutting down" if stopping else "answered 503", "stopping" if stopping else "busy")
        else:
            self._deliver(answer, held, complete)

    # When it breaks.

    def on_lost(self, reason: str) -> None:
        """The engine's connection ended before the answer did."""
        member = self._member
        assert member is not None, "an engine loses only a request that is in flight there"
        self._connection = None
        member.may_have_restarted = True
        if self._delivery.status:
            self._cut(f"{member.name} {reason} in the middle of the answer")
        elif self._held is not None:
            self._fail(502, f"{member.name} {reason} in the middle of its answer")
        else:
            self._task = asyncio.get_running_loop().create_task(self._find_out(member, reason))

    async def _find_out(self, member: Member, reason: str) -> None:
        """Send the request again only if the replica is proven dead."""
        refusal = await member.pool.refuses()
        self._task = None
        if refusal is not None:
            self._fleet.connect_failed(member, refusal)
            self._next(member, f"{reason}, then connection refused", "died")
        else:
            log.say(f"{member.name} {reason} before it answered, and lives on: 502, the request is not sent again")
            self._fail(502, f"{member.name} {reason} before it answered; the request may have run and is not repeated")

    def _fail(self, status: int, message: str) -> None:
        self._leave()
        self._delivery.fail(status, message)

    def _cut(self, why: str) -> None:
        self._leave()
        self._delivery.cut(why)

    # Client and proxy.

    def cancel(self) -> None:
        """The client is gone: the engine's connection is closed at once, which ends its work there."""
        self._stop()
        self._leave()
        self._delivery.abandon()

    def interrupt(self) -> None:
        """The proxy stops."""
        self._stop()
        if self._delivery.status:
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
            self._fleet.moved(self._member)
        if self._connection is not None:
            self._connection.resume()

    def _enter(self, member: Member, decision: Decision) -> None:
        self._member = member
        self._fleet.enter(member, self)
        self._delivery.comes_from(member, decision)

    def _leave(self) -> None:
        if self._member is not None:
            self._fleet.leave(self._member, self)
            self._member = None
