"""What stands between client and engines in each row of the table, and how it is started.

Every peer is configured for its own best case: nginx without buffering and with kept connections, the Rust routers with
their defaults and release logging. All are given the same two engines.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.proxy_overhead.interpreter import Interpreter
from bench.proxy_overhead.processes import REPOSITORY, Child, ChildError, free_ports, python_env

PROXY_PATH = REPOSITORY / "roles" / "routing_proxy" / "files"
THIS_PYTHON = Interpreter()
ROUTERS_VENV = Path.home() / ".cache" / "frank-fleet" / "bench-venv"

NGINX_CONF = """
daemon off;
worker_processes 1;
pid {scratch}/nginx.pid;
{user}
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_max_body_size 128m;
  client_body_buffer_size 1m;
  client_body_temp_path {scratch}/nginx-body;
  proxy_temp_path {scratch}/nginx-proxy;
  fastcgi_temp_path {scratch}/nginx-fastcgi;
  uwsgi_temp_path {scratch}/nginx-uwsgi;
  scgi_temp_path {scratch}/nginx-scgi;
  keepalive_requests 1000000000;
  upstream engines {{ {servers} keepalive 128; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Peer:
    """One row: a name, the port it answers on, and its process (of `direct`: the engine)."""

    name: str
    port: int
    child: Child


def require(program: str, package: str) -> str:
    """Return the path of `program`, or raise ChildError that names the Debian package to install."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        raise ChildError(f"{program} is not installed: apt-get install {package}")
    return path


def start_engine(port: int, scratch: Path) -> Child:
    """Start one mock engine on `port`."""
    argv = [sys.executable, "-m", "bench.proxy_overhead.mock_engine", str(port)]
    return Child(f"mock engine {port}", argv, python_env(REPOSITORY / "tools"), scratch / f"engine-{port}.log")


def start_nginx(engines: Sequence[int], scratch: Path) -> Peer:
    """Start nginx: one worker, round robin, kept upstream connections, no buffering either way."""
    binary = require("nginx", "nginx-light")
    (port,) = free_ports(1)
    servers = " ".join(f"server 127.0.0.1:{engine};" for engine in engines)
    user = "user root;" if os.geteuid() == 0 else ""
    conf = scratch / "nginx.conf"
    conf.write_text(NGINX_CONF.format(scratch=scratch, port=port, servers=servers, user=user))
    argv = [binary, "-c", str(conf), "-p", str(scratch), "-e", str(scratch / "nginx.log")]
    return Peer("nginx", port, Child("nginx", argv, os.environ, scratch / "nginx.log"))


def start_ours(
    engines: Sequence[int],
    scratch: Path,
    name: str = "ours",
    routing: str = "adaptive",
    python: Interpreter = THIS_PYTHON,
) -> Peer:
    """Start our routing proxy as it is deployed: adaptive routing unless told otherwise, pins kept on disk."""
    (port,) = free_ports(1)
    state = scratch / f"state-{routing}"
    state.mkdir()
    backends = ",".join(f"engine-{index}=http://127.0.0.1:{engine}" for index, engine in enumerate(engines))
    env = python.env(PROXY_PATH) | {"HOST": "127.0.0.1", "PORT": str(port), "BACKENDS": backends}
    env |= {"ROUTING": routing, "STATE_DIR": str(state)}
    argv = [*python.command, "-m", "routing_proxy"]
    return Peer(name, port, Child(f"routing_proxy {routing}", argv, env, scratch / f"ours-{routing}.log"))


def start_router(program: Path, policy: str, engines: Sequence[int], scratch: Path) -> Peer:
    """Start a Rust router from PyPI (vllm-router or sglang-router) with one of its policies, else its defaults."""
    port, metrics_port = free_ports(2)
    name = f"{program.name}/{policy}"
    launch = ["launch"] if program.name == "sglang-router" else []
    urls = [f"http://127.0.0.1:{engine}" for engine in engines]
    argv = [str(program), *launch, "--host", "127.0.0.1", "--port", str(port), "--policy", policy]
    argv += ["--prometheus-port", str(metrics_port), "--log-level", "error", "--worker-urls", *urls]
    log = scratch / f"{name.replace('/', '-')}.log"
    return Peer(name, port, Child(name, argv, os.environ, log))


def installed_routers(venv: Path) -> list[tuple[Path, str]]:
    """Return (program, policy) of every Rust router that can be run, from `venv` or PATH."""
    wanted = [
        ("vllm-router", "round_robin"),
        ("vllm-router", "cache_aware"),
        ("sglang-router", "round_robin"),
        ("sglang-router", "cache_aware"),
    ]
    found = (
        (shutil.which(name, path=f"{venv / 'bin'}:{os.environ.get('PATH', '')}"), policy) for name, policy in wanted
    )
    return [(Path(path), policy) for path, policy in found if path]
