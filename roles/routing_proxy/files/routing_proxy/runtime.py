"""The running proxy: sockets, background tasks, signals, and the way down."""

import asyncio
import errno
import gc
import math
import os
import signal
import socket
from asyncio import AbstractServer
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from . import log, state
from .admin import Admin
from .app import App
from .auth import Keys
from .config import Config
from .fleet import Fleet
from .health import Health
from .metrics import Metrics
from .routing import Router
from .server import ClientConnection

_BACKLOG = 4096
# Pins are on disk within 5 s even when the proxy is killed.
_SAVE_SECONDS = 2.0
_LAG_SECONDS = 0.5
_RELOAD_SECONDS = 2.0
# How long an idle connection is kept at a stop: a request on its way there would be lost with it.
_GRACE_SECONDS = 1.0
# How long interrupted answers may take to leave the socket buffers.
_FLUSH_SECONDS = 0.5
_TICK_SECONDS = 0.02


class BindError(OSError):
    """An address that can't be listened on; its text is one line."""


class Runtime:
    """Everything that runs, from the first bind to the last save."""

    def __init__(self, config: Config, keys: Keys | None) -> None:
        self._config = config
        self._keys = keys
        self._connections: set[ClientConnection] = set()
        self._state_file: Path | None = config.state_dir / state.FILE_NAME if config.state_dir else None
        self._router = Router(config.routing, [backend.name for backend in config.backends])
        self._saved_revision = 0
        self._saving = asyncio.Lock()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; BindError when an address can't be had."""
        config, loop = self._config, asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        metrics = Metrics()
        fleet = Fleet(config, self._router, metrics)
        servers = await self._bind(App(config, fleet, metrics, self._keys), Admin(fleet))
        health = Health(config, fleet, self._load_pins())
        await health.check_all()
        # What was made so far stays for good: a full collection need not look at it (12 ms, measured).
        gc.freeze()
        # A task that fails ends the proxy, for systemd to start it afresh, instead of leaving it without health checks.
        async with asyncio.TaskGroup() as group:
            work = (health.watch_all(), _measure_lag(metrics), *self._chores(loop))
            tasks = [group.create_task(task) for task in work]
            for server in servers:
                await server.start_serving()
            log.say(f"serving {', '.join(fleet.members)} on {config.host}:{config.port}, routing {config.routing}")
            await stop.wait()
            await self._shut_down(servers, fleet)
            for task in tasks:
                task.cancel()
        await self._save()
        log.say("stopped")

    def _chores(self, loop: asyncio.AbstractEventLoop) -> list[Coroutine[Any, Any, None]]:
        chores = []
        if self._keys is not None:
            keys = self._keys
            loop.add_signal_handler(signal.SIGHUP, keys.reload, True)
            chores.append(_reload_often(keys))
        else:
            loop.add_signal_handler(signal.SIGHUP, log.say, "SIGHUP: nothing to read again, API_KEYS_FILE is not set")
        if self._state_file is not None:
            chores.append(self._save_often())
        return chores

    async def _bind(self, app: App, admin: Admin) -> list[AbstractServer]:
        config = self._config
        servers = [await self._listen(app, config.host, config.port, "PORT", _inherited_socket())]
        if config.admin_port is not None:
            servers.append(await self._listen(admin, "127.0.0.1", config.admin_port, "ADMIN_PORT", None))
        return servers

    async def _listen(
        self, app: App | Admin, host: str, port: int, variable: str, inherited: socket.socket | None
    ) -> AbstractServer:
        loop = asyncio.get_running_loop()

        def connection() -> ClientConnection:
            return ClientConnection(app, self._connections, self._config.max_body_bytes)

        try:
            if inherited is not None:
                return await loop.create_server(connection, sock=inherited, backlog=_BACKLOG, start_serving=False)
            return await loop.create_server(connection, host, port, backlog=_BACKLOG, start_serving=False)
        except OSError as error:
            is_name = isinstance(error, socket.gaierror)
            if is_name or error.errno == errno.EADDRNOTAVAIL:
                variable = "HOST"
            # uvloop puts the address into the error's own text.
            reason = error.strerror if is_name else os.strerror(error.errno or 0)
            raise BindError(f"{variable}: cannot listen on {host}:{port}: {reason}") from None

    async def _shut_down(self, servers: list[AbstractServer], fleet: Fleet) -> None:
        """Stop accepting, let what is in flight finish within SHUTDOWN_TIMEOUT, then break off what is left."""
        log.say("stopping: no new connections, finishing what is in flight")
        for server in servers:
            server.close()
        for connection in list(self._connections):
            connection.close_after_next()
        await self._gone(min(_GRACE_SECONDS, self._config.shutdown_timeout))
        for connection in list(self._connections):
            connection.close_when_done()
        await self._gone(self._config.shutdown_timeout - _GRACE_SECONDS)
        for member in fleet.members.values():
            for work in list(member.work):
                work.interrupt()
        await self._gone(_FLUSH_SECONDS)

    async def _gone(self, seconds: float) -> None:
        """Wait until every connection has ended, `seconds` at most."""
        for _ in range(math.ceil(seconds / _TICK_SECONDS)):
            if not self._connections:
                break
            await asyncio.sleep(_TICK_SECONDS)

    def _load_pins(self) -> float:
        """Read the pins; return when they were written, in unix time, infinity if there are none."""
        if self._state_file is None:
            return math.inf
        log.say(state.load(self._state_file, self._router))
        return self._state_file.stat().st_mtime if self._state_file.exists() else math.inf

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(_SAVE_SECONDS)
            # Shielded: no other save may begin while a thread still writes.
            await asyncio.shield(self._save())

    async def _save(self) -> None:
        """Write the pins if they changed; in a thread, as a disk may take its time."""
        async with self._saving:
            if self._state_file is None or self._router.revision == self._saved_revision:
                return
            revision = self._router.revision
            try:
                await asyncio.to_thread(state.save, self._state_file, self._router.dump())
            except OSError as error:
                log.say(f"STATE_DIR: cannot save pins to {self._state_file}: {error.strerror}")
                return
            self._saved_revision = revision


async def _reload_often(keys: Keys) -> None:
    while True:
        await asyncio.sleep(_RELOAD_SECONDS)
        keys.reload()


async def _measure_lag(metrics: Metrics) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SECONDS
        await asyncio.sleep(_LAG_SECONDS)
        metrics.loop_lag.observe(max(0.0, loop.time() - due))


def _inherited_socket() -> socket.socket | None:
    """Return the socket that systemd's socket activation passed on as descriptor 3, if it did."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS", "0") == "0":
        return None
    try:
        return socket.socket(fileno=3)
    except OSError as error:
        raise BindError(f"LISTEN_FDS: descriptor 3 is not a socket: {error.strerror}") from None
