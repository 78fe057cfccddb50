"""How an engine starts, stops, fails and refuses: each in a process of its own."""

import contextlib
import http.client
import signal
import socket
import time
from typing import Any

import pytest
from sim_process import FAST, PATIENCE, SMALL, SMALL_SHAPE, Simulator, fixture, read, running, send, spawn

CHAT = "/v1/chat/completions"
LONG: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 16_000, "ignore_eos": True}
SHORT = LONG | {"max_tokens": 4}


def begin_stream(simulator: Simulator) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Start a long stream and read its first event."""
    connection = simulator.open()
    send(connection, "POST", CHAT, LONG | {"stream": True})
    response = connection.getresponse()
    assert response.readline().startswith(b"data: ")
    return connection, response


def until_metric(simulator: Simulator, name: str, value: float) -> None:
    """Wait until a metric has a value."""
    deadline = time.monotonic() + PATIENCE
    while simulator.metric(name) != value:
        assert time.monotonic() < deadline, f"{name} is {simulator.metric(name)}"


def test_sigterm_ends_answers_where_they_are() -> None:
    with running("--time-scale", "1") as simulator:
        _, response = begin_stream(simulator)
        simulator.process.send_signal(signal.SIGTERM)
        end = response.read().decode()
        assert '"finish_reason":"abort"' in end
        assert end.endswith("data: [DONE]\n\n")
        assert simulator.wait()[0] == 0


def test_sigterm_with_a_timeout_lets_answers_end_and_refuses_new_ones() -> None:
    with running("--shutdown-timeout", "30", "--sim-fault-route") as simulator:
        simulator.post("/sim/faults", {"hang": True})
        connection = simulator.open()
        send(connection, "POST", CHAT, SHORT)
        until_metric(simulator, "vllm:num_requests_waiting", 1)
        simulator.process.send_signal(signal.SIGTERM)
        assert simulator.process.stdout and "Shutting down" in simulator.process.stdout.readline()
        assert simulator.get("/health").status == 200
        refused = simulator.post(CHAT, SHORT)
        assert (refused.status, refused.json["error"]["message"]) == (
            500,
            "cannot schedule new futures after shutdown",
        )
        simulator.post("/sim/faults", {})
        assert read(connection).json["choices"][0]["finish_reason"] == "length"
        assert simulator.wait()[0] == 0


def test_a_timeout_that_is_over_ends_answers() -> None:
    with running("--time-scale", "1", "--shutdown-timeout", "0.1") as simulator:
        _, response = begin_stream(simulator)
        simulator.process.send_signal(signal.SIGTERM)
        assert '"finish_reason":"abort"' in response.read().decode()
        assert simulator.wait()[0] == 0


def test_sigterm_during_the_start_ends_it_at_once() -> None:
    process = spawn(*SMALL, *SMALL_SHAPE, "--sim-boot-seconds", "600")
    try:
        assert process.stdout and "API server version" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_dead_engine_ends_streams_with_an_error() -> None:
    with running("--time-scale", "0.1") as simulator:
        _, response = begin_stream(simulator)
        whole = simulator.open()
        send(whole, "POST", CHAT, LONG)
        until_metric(simulator, "vllm:num_requests_running", 2)
        simulator.process.send_signal(signal.SIGUSR1)
        end = response.read().decode()
        assert 'data: {"error":{"message":"EngineCore encountered an issue' in end
        assert end.endswith("data: [DONE]\n\n")
        assert read(whole).status == 500
        code, output = simulator.wait()
        assert (code, "EngineCore died unexpectedly" in output) == (1, True)


@pytest.mark.parametrize(("how", "code"), [("engine", 1), ("process", 137)])
def test_death_after_some_tokens(how: str, code: int) -> None:
    faults = f'{{"die_after_tokens": 20, "die_as": "{how}"}}'
    with running(environment={"SIM_FAULTS": faults}) as simulator:
        connection = simulator.open()
        send(connection, "POST", CHAT, LONG | {"stream": True})
        response = connection.getresponse()
        if how == "process":
            with pytest.raises(http.client.IncompleteRead):
                response.read()
        else:
            assert response.read().endswith(b"data: [DONE]\n\n")
        assert simulator.wait()[0] == code


def test_faults_set_while_it_runs_hold_at_once() -> None:
    with running("--sim-fault-route") as simulator, pytest.raises(http.client.RemoteDisconnected):
        simulator.post("/sim/faults", {"die_after_tokens": 0, "die_as": "process"})
    assert simulator.process.returncode == 137


def test_a_silent_stop_answers_nobody_any_more() -> None:
    with running("--time-scale", "1", "--sim-faults", '{"silent_stop": true}') as simulator:
        connection = simulator.open()
        send(connection, "POST", CHAT, LONG)
        until_metric(simulator, "vllm:num_requests_running", 1)
        simulator.process.send_signal(signal.SIGTERM)
        assert simulator.process.stdout and "Shutting down" in simulator.process.stdout.readline()
        deadline = time.monotonic() + PATIENCE
        with pytest.raises(ConnectionRefusedError):
            while time.monotonic() < deadline:
                # One that waits to be accepted while the port is closed is reset.
                with contextlib.suppress(ConnectionResetError):
                    simulator.get("/health")
        connection.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            read(connection)
        assert simulator.process.poll() is None


def test_a_hung_engine_is_healthy_and_silent() -> None:
    with running() as simulator:
        simulator.process.send_signal(signal.SIGUSR2)
        connection = simulator.open()
        send(connection, "POST", CHAT, SHORT | {"stream": True})
        until_metric(simulator, "vllm:num_requests_waiting", 1)
        steps = simulator.metric("vllm:iteration_tokens_total_count")
        assert simulator.get("/health").status == 200
        connection.sock.settimeout(0.3)
        response = connection.getresponse()
        assert response.status == 200, "the headers of a stream come before its first token"
        with pytest.raises(TimeoutError):
            response.read()
        assert simulator.metric("vllm:iteration_tokens_total_count") == steps
        simulator.process.send_signal(signal.SIGUSR2)
        until_metric(simulator, "vllm:num_requests_waiting", 0)


def test_a_client_that_leaves_is_taken_out_of_the_engine() -> None:
    with running("--time-scale", "1") as simulator:
        stream, response = begin_stream(simulator)
        whole = simulator.open()
        send(whole, "POST", CHAT, LONG)
        until_metric(simulator, "vllm:num_requests_running", 2)
        response.close()
        stream.close()
        until_metric(simulator, "vllm:num_requests_running", 1)
        whole.close()
        until_metric(simulator, "vllm:num_requests_running", 0)
        assert simulator.metric("vllm:kv_cache_usage_perc") == 0
        assert simulator.metric("vllm:request_success_total") == 0


def test_a_full_queue_refuses() -> None:
    with running("--max-num-seqs", "1", "--max-num-queued-reqs", "1", "--sim-fault-route") as simulator:
        simulator.post("/sim/faults", {"hang": True})
        connection = simulator.open()
        send(connection, "POST", CHAT, SHORT)
        until_metric(simulator, "vllm:num_requests_waiting", 1)
        refused = simulator.post(CHAT, SHORT)
        assert (refused.status, "retry-after" in refused.headers) == (503, False)
        assert refused.json["error"]["message"].endswith("or on a different instance.")
        assert simulator.metric("vllm:admission_rejections_total", "max_num_queued_reqs") == 1


@pytest.mark.parametrize(("fault", "status"), [("full", 503), ("stopping", 500)])
def test_refusals_on_request(fault: str, status: int) -> None:
    with running(environment={"SIM_FAULT_ROUTE": "1"}) as simulator:
        assert simulator.post("/sim/faults", {fault: True}).json[fault] is True
        assert simulator.post(CHAT, SHORT).status == status
        simulator.post("/sim/faults", {})
        assert simulator.post(CHAT, SHORT).status == 200
        assert simulator.post("/sim/faults", {"typo": True}).status == 400


def test_there_is_no_fault_route_unless_asked_for(simulator: Simulator) -> None:
    assert simulator.post("/sim/faults", {}).status == 404


def test_idle_connections_are_closed() -> None:
    with running(environment={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "1"}) as simulator:
        connection = simulator.open()
        send(connection, "GET", "/health")
        read(connection)
        assert connection.sock.recv(1) == b"", "the server ends the connection"


def test_keys_are_asked_for_under_v1_only() -> None:
    with running("--api-key", "one", "two") as simulator:
        reply, recorded = simulator.get("/v1/models"), fixture("unauthorized-401")
        assert (reply.status, reply.body) == (401, recorded.body)
        assert simulator.call("GET", "/v1/models", headers={"Authorization": "Basic one"}).status == 401
        assert simulator.call("GET", "/v1/models", headers={"Authorization": "Bearer two"}).status == 200
        assert simulator.get("/health").status == simulator.get("/metrics").status == 200


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = spawn(*SMALL, *SMALL_SHAPE, *FAST, "--host", "127.0.0.1", "--port", str(port))
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert f"('127.0.0.1', {port}): address already in use" in output
    assert "Traceback" not in output
