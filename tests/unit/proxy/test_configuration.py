"""The configuration: defaults, and one clear line for whatever can't be used."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from proxy_process import PACKAGE_PARENT, Client, free_port, run_once
from routing_proxy import config

BACKENDS = "frank-medium-a=http://127.0.0.1:7771,frank-medium-b=http://127.0.0.1:7772"


def test_defaults() -> None:
    loaded = config.load({"BACKENDS": BACKENDS})
    assert [(backend.name, backend.host, backend.port, backend.authority) for backend in loaded.backends] == [
        ("frank-medium-a", "127.0.0.1", 7771, "127.0.0.1:7771"),
        ("frank-medium-b", "127.0.0.1", 7772, "127.0.0.1:7772"),
    ]
    assert (loaded.host, loaded.port, loaded.admin_port, loaded.routing) == ("0.0.0.0", 7770, None, "adaptive")
    assert (loaded.affinity_bytes, loaded.max_body_bytes) == (4096, 128 * 2**20)
    assert (loaded.health_interval, loaded.connect_timeout) == (2, 5)
    assert (loaded.shutdown_timeout, loaded.stall_after) == (30, 120)
    assert (loaded.state_dir, loaded.api_keys_file, loaded.log_requests) == (None, None, False)


def test_values_are_taken_and_empty_ones_are_unset() -> None:
    loaded = config.load(
        {
            "BACKENDS": "x=http://[::1]:80/ , y=http://engine.local",
            "PORT": " 1234 ",
            "ADMIN_PORT": "",
            "ROUTING": "affinity",
        }
    )
    assert [(backend.host, backend.url) for backend in loaded.backends] == [
        ("::1", "http://[::1]:80"),
        ("engine.local", "http://engine.local:80"),
    ]
    assert (loaded.port, loaded.admin_port, loaded.routing) == (1234, None, "affinity")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BACKENDS", ""),
        ("BACKENDS", ","),
        ("BACKENDS", "http://127.0.0.1:1"),
        ("BACKENDS", "a=127.0.0.1:1"),
        ("BACKENDS", "a=https://127.0.0.1:1"),
        ("BACKENDS", "a=http://127.0.0.1:99999"),
        ("BACKENDS", "a=http://127.0.0.1:0"),
        ("BACKENDS", "a=http://127.0.0.1:1/v1"),
        ("BACKENDS", "a=http://u:p@127.0.0.1:1"),
        ("BACKENDS", "a=http://[::1"),
        ("BACKENDS", "a=http://x:1,a=http://x:2"),
        ("BACKENDS", "a\nb=http://x:1"),
        ("BACKENDS", "a=http://x..y:1"),
        ("BACKENDS", "a=http://x y:1"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "77x"),
        ("PORT", "-1"),
        ("PORT", "٣"),
        ("ADMIN_PORT", "7770"),
        ("ROUTING", "Adaptive"),
        ("AFFINITY_BYTES", "0"),
        ("HEALTH_INTERVAL", "0"),
        ("HEALTH_INTERVAL", "nan"),
        ("CONNECT_TIMEOUT", "inf"),
        ("SHUTDOWN_TIMEOUT", "-1"),
        ("STALL_AFTER", "two"),
        ("MAX_BODY_BYTES", "1MB"),
        ("STATE_DIR", "/proc/nope"),
        ("API_KEYS_FILE", "/no/such/file"),
        ("LOG_REQUESTS", "yes"),
    ],
)
def test_an_invalid_value_is_one_line_and_exit_code_2(variable: str, value: str) -> None:
    result = run_once(**{"BACKENDS": BACKENDS, variable: value})
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert f"{variable}: " in result.stderr


def test_a_missing_backends_is_named() -> None:
    result = run_once()
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "BACKENDS: is not set" in result.stderr


def test_a_key_file_without_keys_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# none yet\n\n")
    result = run_once(BACKENDS=BACKENDS, API_KEYS_FILE=str(tmp_path / "keys"))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "API_KEYS_FILE: " in result.stderr


def test_a_socket_from_systemd_is_served() -> None:
    launcher = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid());"
        "os.execv(sys.executable, [sys.executable, '-m', 'routing_proxy'])"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        environment = {
            "PYTHONPATH": str(PACKAGE_PARENT),
            "BACKENDS": f"a=http://127.0.0.1:{free_port()}",
            "PORT": str(free_port()),
            "LISTEN_FDS": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-c", launcher, str(listener.fileno())],
            env=environment,
            pass_fds=[listener.fileno(), 3],
            stderr=subprocess.DEVNULL,
        )
    try:
        client = Client(port).send(b"GET /health HTTP/1.1\r\n\r\n")
        assert client.read("GET").json()["status"] == "down"
    finally:
        process.kill()
        process.wait(10)


def test_a_descriptor_that_is_no_socket_is_one_line_and_exit_code_1() -> None:
    result = subprocess.run(
        ["bash", "-c", 'LISTEN_PID=$$ exec "$0" -m routing_proxy 3</dev/null', sys.executable],
        env={"PYTHONPATH": str(PACKAGE_PARENT), "BACKENDS": BACKENDS, "LISTEN_FDS": "1"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (result.returncode, result.stderr.count("\n")) == (1, 1), result.stderr
    assert "LISTEN_FDS: descriptor 3 is not a socket" in result.stderr


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_here_is_one_line_and_exit_code_1(host: str) -> None:
    result = run_once(BACKENDS=BACKENDS, HOST=host, PORT=str(free_port()))
    assert (result.returncode, result.stderr.count("\n")) == (1, 1), result.stderr
    assert f"HOST: cannot listen on {host}:" in result.stderr


@pytest.mark.parametrize("variable", ["PORT", "ADMIN_PORT"])
def test_a_port_in_use_is_one_line_and_exit_code_1(variable: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = str(listener.getsockname()[1])
        environment = {"BACKENDS": BACKENDS, "HOST": "127.0.0.1", "PORT": str(free_port()), variable: taken}
        result = run_once(**environment)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1), result.stderr
    assert f"{variable}: cannot listen on 127.0.0.1:{taken}" in result.stderr
    assert "in use" in result.stderr
