"""Run wrk over a pool of bodies and read its result."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from bench.proxy_overhead.processes import ChildError

SCRIPT = Path(__file__).with_name("replay.lua")
REQUEST_TIMEOUT = 20  # seconds until wrk counts a request as failed


@dataclass(frozen=True)
class Load:
    """What one wrk run saw: completed requests, latency percentiles in µs, failed requests of any kind."""

    requests: int
    seconds: float
    p50_us: int
    p99_us: int
    errors: int


def run_wrk(binary: str, port: int, pool: Path, connections: int, seconds: int, limit: int = 0) -> Load:
    """POST the bodies of `pool` over `connections` for `seconds`, or until about `limit` requests were sent."""
    argv = [binary, "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={REQUEST_TIMEOUT}s"]
    argv += ["-s", str(SCRIPT), f"http://127.0.0.1:{port}", "--", str(pool), str(limit)]
    result = None
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        guard = threading.Timer(seconds + 2 * REQUEST_TIMEOUT, process.kill)
        guard.start()
        assert process.stdout
        last = ""
        for line in process.stdout:
            if line == "LIMIT\n":
                process.send_signal(signal.SIGINT)  # wrk ends early, and still prints its result
            elif line.startswith("RESULT "):
                result = Load(**json.loads(line.removeprefix("RESULT ")))
            last = line.strip() or last
        guard.cancel()
    if result is None:
        raise ChildError(f"wrk gave no result: {last}")
    return result
