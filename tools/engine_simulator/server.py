"""The life of one server: start (slowly, or not at all), serve, stop."""

import asyncio
import logging
import os
import signal
import sys

from aiohttp import web

from . import ENGINE_VERSION
from .app import build_app
from .cache_info import cache_labels
from .deployment import build_engine
from .faults import Faults
from .flags import BOOT_ERRORS, Settings
from .metrics import Metrics
from .runner import Runner
from .sizing import Ledger, ShapeRefused, size_kv_cache
from .state import State

_log = logging.getLogger("engine_simulator")

_LARGEST_HEADER = 2**17
"""vLLM takes a header of 64 kB."""
_DEATH_SECONDS = 0.15
"""How long vLLM answers /health with 503 after its engine died, before the port closes."""
_LAST_WORDS_SECONDS = 2.0
"""How long aborted requests may take to write their ends."""


class Server:
    """One simulated engine with its API server.

    Args:
        settings: the command line.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stop = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Start, serve until a signal or a fault ends it, and return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._request_stop)
        state = await self._start()
        if state is None:
            return self._exit_code
        loop.add_signal_handler(signal.SIGUSR1, state.runner.die)
        loop.add_signal_handler(signal.SIGUSR2, _toggle_hang, state.runner)
        engine_task = asyncio.create_task(state.runner.run())
        runner = web.AppRunner(
            build_app(state),
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=self.settings.keep_alive,
            shutdown_timeout=_LAST_WORDS_SECONDS,
            max_line_size=_LARGEST_HEADER,
            max_field_size=_LARGEST_HEADER,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self.settings.host, self.settings.port).start()
        except OSError as error:
            _log.error("%s", error.strerror)
            return 1
        port = runner.addresses[0][1]
        _log.info("Starting vLLM server on http://%s:%d", self.settings.host, port)
        state.runner.wake()
        await self._stop.wait()
        await self._finish_requests(state, runner)
        engine_task.cancel()
        await runner.cleanup()
        return self._exit_code

    async def _start(self) -> State | None:
        """Take the time of a start; None if it failed or was stopped."""
        settings = self.settings
        _log.info("vLLM API server version %s (simulated), model %s", ENGINE_VERSION, settings.model)
        try:
            await asyncio.wait_for(self._stop.wait(), settings.boot_seconds)
            return None
        except TimeoutError:
            pass
        try:
            if settings.boot_error:
                raise ShapeRefused(BOOT_ERRORS[settings.boot_error])
            ledger = size_kv_cache(settings.shape)
        except ShapeRefused as refusal:
            _log.error("EngineCore failed to start.\n%s", refusal)
            if settings.shape.kv_memory is None and settings.shape.block_override is None:
                _log.error("The flag was left out; to profile the shape pass --kv-cache-memory 0")
            self._exit_code = 1
            return None
        _log.info("GPU KV cache size: %s tokens", f"{ledger.tokens:,}")
        _log.info(
            "Maximum concurrency for %s tokens per request: %.2fx",
            f"{settings.shape.max_model_len:,}",
            ledger.max_concurrency,
        )
        return self._build_state(ledger)

    def _build_state(self, ledger: Ledger) -> State:
        settings = self.settings
        metrics = Metrics(settings.served_model_names[0], cache_labels(settings, ledger), settings.depth)
        engine = build_engine(settings, ledger)
        runner = Runner(engine, metrics, settings.faults, settings.time_scale, self._engine_died)
        return State(settings, ledger, metrics, runner)

    def _request_stop(self) -> None:
        if self._stop.is_set():
            os._exit(1)  # asked twice: do not wait for requests
        _log.info("Shutting down")
        self._stop.set()

    def _engine_died(self, faults: Faults) -> None:
        if faults.die_as == "process":
            os._exit(137)
        _log.error("EngineCore died unexpectedly")
        self._exit_code = 1
        asyncio.get_running_loop().call_later(_DEATH_SECONDS, self._stop.set)

    async def _finish_requests(self, state: State, runner: web.AppRunner) -> None:
        """Let requests end, or end them, as vLLM does at SIGTERM."""
        state.stopping = True
        if state.runner.faults.silent_stop:
            for site in list(runner.sites):
                await site.stop()
            await asyncio.Event().wait()
        if self.settings.shutdown_timeout and not state.runner.dead:
            try:
                await asyncio.wait_for(state.runner.wait_empty(), self.settings.shutdown_timeout)
            except TimeoutError:
                _log.warning("Requests still ran after %g s", self.settings.shutdown_timeout)
        state.runner.abort_all()


def main_loop(settings: Settings) -> int:
    """Run a server to its end and return the exit code."""
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(asctime)s [engine_simulator] %(message)s",
        datefmt="%m-%d %H:%M:%S",
    )  # fmt: skip
    try:
        import uvloop
    except ImportError:
        return asyncio.run(Server(settings).run())
    return uvloop.run(Server(settings).run())


def _toggle_hang(runner: Runner) -> None:
    runner.faults.hang = not runner.faults.hang
    runner.wake()
