"""Answers have the shape of vLLM's: same status, headers, keys and kinds of values as the recorded ones."""

from typing import Any

import pytest
from sim_process import Reply, Simulator, fixture

SAY_OK = [{"role": "user", "content": "Say OK"}]
CHAT: dict[str, Any] = {"model": "frank-medium", "messages": SAY_OK, "max_tokens": 16}
STREAM = CHAT | {"max_tokens": 6, "stream": True}
MESSAGES = {"model": "frank-medium", "messages": SAY_OK, "max_tokens": 6}
RESPONSES = {"model": "frank-medium", "input": "Say OK", "max_output_tokens": 6, "temperature": 0.0}
COMPLETION = {"model": "frank-medium", "prompt": "Once upon", "max_tokens": 8}
TOO_LONG = {"model": "frank-medium", "messages": [{"role": "user", "content": "word" * 20_000}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
AUTO_TOOLS = CHAT | {"tools": [TOOL], "tool_choice": "auto"}
FORCED_TOOL = CHAT | {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}

SHAPED = {
    "chat": ("/v1/chat/completions", CHAT),
    "chat-no-model": ("/v1/chat/completions", {"messages": SAY_OK, "max_tokens": 3}),
    "completion": ("/v1/completions", COMPLETION),
    "completion-batch": ("/v1/completions", COMPLETION | {"prompt": ["one", "two"], "max_tokens": 4}),
    "completion-tokenids": ("/v1/completions", COMPLETION | {"prompt": [1, 2, 3, 4], "max_tokens": 4}),
    "messages": ("/v1/messages", MESSAGES),
    "messages-count_tokens": ("/v1/messages/count_tokens", {"model": "frank-medium", "messages": SAY_OK}),
    "responses": ("/v1/responses", RESPONSES),
    "tokenize": ("/tokenize", {"model": "frank-medium", "prompt": "Once upon a time"}),
    "tokenize-chat": ("/tokenize", {"model": "frank-medium", "messages": SAY_OK}),
    "detokenize": ("/detokenize", {"model": "frank-medium", "tokens": [43]}),
}
STREAMED = {
    "chat-stream-usage": ("/v1/chat/completions", STREAM | {"stream_options": {"include_usage": True}}),
    "chat-stream-nousage": ("/v1/chat/completions", STREAM),
    "chat-stream-continuous-usage": (
        "/v1/chat/completions",
        STREAM | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    "completion-stream": ("/v1/completions", COMPLETION | {"stream": True}),
    "messages-stream": ("/v1/messages", MESSAGES | {"stream": True}),
    "responses-stream": ("/v1/responses", RESPONSES | {"stream": True}),
}
EXACT = {
    "unknown-model-404": ("/v1/chat/completions", CHAT | {"model": "nope"}),
    "messages-unknown-model": ("/v1/messages", MESSAGES | {"model": "nope"}),
    "too-long-400": ("/v1/chat/completions", TOO_LONG),
    "max_tokens-too-big-400": ("/v1/chat/completions", CHAT | {"max_tokens": 50_000}),
    "bad-schema-400": ("/v1/chat/completions", CHAT | {"messages": "x"}),
    "invalid-json-400": ("/v1/chat/completions", b'{"model":"frank-medium","messages": }'),
    "tools-auto-400": ("/v1/chat/completions", AUTO_TOOLS),
    "tool-forced": ("/v1/chat/completions", FORCED_TOOL),
}
GOTTEN = {
    "health": "/health",
    "ping": "/ping",
    "version": "/version",
    "load": "/load",
    "kv_event_sources": "/kv_event_sources",
    "nosuch-404": "/nosuch",
}


def shape(value: Any) -> Any:
    """The keys of objects and the kinds of values; of a list, its first element stands for all."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return type(value).__name__


def header_names(reply: Reply) -> set[str]:
    """Names of the headers, and the values of those that do not depend on the moment."""
    fixed = ("server", "vary", "content-type", "transfer-encoding", "allow")
    return {f"{name}: {value}" if name in fixed else name for name, value in reply.headers.items()}


@pytest.mark.parametrize("name", SHAPED)
def test_answer_has_the_recorded_shape(simulator: Simulator, name: str) -> None:
    path, body = SHAPED[name]
    reply, recorded = simulator.post(path, body), fixture(name)
    assert reply.status == recorded.status
    assert header_names(reply) == header_names(recorded)
    assert shape(reply.json) == shape(recorded.json)
    assert list(reply.json) == list(recorded.json)


@pytest.mark.parametrize("name", STREAMED)
def test_stream_has_the_recorded_shape(simulator: Simulator, name: str) -> None:
    path, body = STREAMED[name]
    reply, recorded = simulator.post(path, body), fixture(name)
    assert header_names(reply) == header_names(recorded)

    def kinds(events: list[Any]) -> list[Any]:
        shapes = [event if isinstance(event, str) else (event.get("type"), shape(event)) for event in events]
        return [kind for place, kind in enumerate(shapes) if place == 0 or kind != shapes[place - 1]]

    assert kinds(reply.events) == kinds(recorded.events)


@pytest.mark.parametrize("name", EXACT)
def test_error_is_word_by_word(simulator: Simulator, name: str) -> None:
    path, body = EXACT[name]
    reply, recorded = simulator.post(path, body), fixture(name)
    assert (reply.status, header_names(reply)) == (recorded.status, header_names(recorded))
    assert reply.json == recorded.json


@pytest.mark.parametrize("name", GOTTEN)
def test_get_is_word_by_word(simulator: Simulator, name: str) -> None:
    reply, recorded = simulator.get(GOTTEN[name]), fixture(name)
    assert (reply.status, header_names(reply)) == (recorded.status, header_names(recorded))
    assert reply.body == recorded.body


def test_models(simulator: Simulator) -> None:
    reply, recorded = simulator.get("/v1/models"), fixture("models")
    assert shape(reply.json) == shape(recorded.json)
    [model] = reply.json["data"]
    assert (model["id"], model["root"], model["max_model_len"]) == ("frank-medium", "models/tiny", 16384)


def test_a_too_long_stream_is_refused_as_plain_json(simulator: Simulator) -> None:
    reply = simulator.post("/v1/chat/completions", TOO_LONG | {"stream": True})
    assert reply.json == fixture("too-long-400").json
    assert reply.headers["content-type"] == "application/json"


def test_prompt_and_answer_must_fit_together(simulator: Simulator) -> None:
    body = COMPLETION | {"prompt": list(range(16_000)), "max_tokens": 500}
    error = simulator.post("/v1/completions", body).json["error"]
    assert error["code"] == 400
    assert "500 output tokens" in error["message"] and "16000 input tokens" in error["message"]


def test_wrong_content_type(simulator: Simulator) -> None:
    reply = simulator.call("POST", "/v1/chat/completions", b"{}", {"Content-Type": "text/plain"})
    assert reply.json == fixture("wrong-content-type").json


def test_wrong_method(simulator: Simulator) -> None:
    reply, recorded = simulator.get("/v1/chat/completions"), fixture("method-405")
    assert (reply.status, header_names(reply), reply.body) == (405, header_names(recorded), recorded.body)


def test_head_is_for_metrics_only(simulator: Simulator) -> None:
    assert simulator.call("HEAD", "/health").status == 405
    assert simulator.call("HEAD", "/metrics").status == 200


def test_models_with_a_slash_is_sent_on(simulator: Simulator) -> None:
    reply = simulator.call("GET", "/v1/models/", headers={"Host": "fleet:7770"})
    assert (reply.status, reply.headers["location"]) == (307, "http://fleet:7770/v1/models")
    assert simulator.get("//v1/models").status == 404


def test_foreign_browser_pages_are_refused(simulator: Simulator) -> None:
    headers = {"Origin": "http://elsewhere", "Access-Control-Request-Method": "POST"}
    reply, recorded = simulator.call("OPTIONS", "/v1/models", headers=headers), fixture("cors-preflight")
    assert (reply.status, header_names(reply), reply.body) == (400, header_names(recorded), recorded.body)


def test_the_client_names_the_request(simulator: Simulator) -> None:
    reply = simulator.call("POST", "/v1/chat/completions", CHAT, {"X-Request-Id": "my-req-1"})
    assert reply.json["id"] == fixture("x-request-id").json["id"] == "chatcmpl-my-req-1"


@pytest.mark.parametrize("missing", ["messages", "max_tokens"])
def test_a_missing_field_is_named(simulator: Simulator, missing: str) -> None:
    body = {name: value for name, value in MESSAGES.items() if name != missing}
    reply = simulator.post("/v1/messages", body)
    assert reply.status == 400
    assert f"body.{missing}" in reply.json["error"]["message"]


ODD_VALUES: list[Any] = [0, -1, 2.5, "x", [], [1], [{"function": 3}], [None], {}, {"function": {}}]
ODD_FIELDS = {
    "/v1/chat/completions": (
        CHAT | {"tools": [TOOL]},
        ["messages", "tools", "tool_choice", "response_format", "n", "stop", "stream_options", "max_completion_tokens"],
    ),
    "/v1/completions": (COMPLETION, ["prompt", "n", "stop", "max_tokens", "stream", "model"]),
    "/v1/messages": (MESSAGES, ["messages", "system", "tools", "stop_sequences"]),
    "/v1/responses": (RESPONSES, ["input", "instructions", "tools", "previous_response_id", "max_output_tokens"]),
    "/tokenize": (COMPLETION, ["prompt", "messages"]),
    "/detokenize": ({}, ["tokens"]),
}


@pytest.mark.parametrize("path", ODD_FIELDS)
def test_no_value_of_a_field_breaks_the_server(deployed: Simulator, path: str) -> None:
    body, fields = ODD_FIELDS[path]
    for field in fields:
        for value in ODD_VALUES:
            reply = deployed.post(path, body | {field: value})
            assert reply.status in (200, 400, 404), (field, value, reply.body)
            assert reply.json.get("choices") != [], (field, value)


@pytest.mark.parametrize("body", [b"", b"[" * 100_000, b"\xff\xfe", b"[]", b"null"])
def test_no_body_breaks_the_server(simulator: Simulator, body: bytes) -> None:
    reply = simulator.call("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    assert (reply.status, reply.json["error"]["code"]) == (400, 400)
