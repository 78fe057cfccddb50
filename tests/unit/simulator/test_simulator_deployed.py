"""What the deployment's flags add and the fixtures do not show: caching, tools, stored responses, odd requests."""

import json
from typing import Any

import pytest
from sim_process import Simulator, read, send

CHAT = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["path", "lines"],
        },
    },
}


def ask(text: str, **more: Any) -> dict[str, Any]:
    """A one-message chat."""
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8} | more


def test_the_answer_names_the_model_and_depends_on_the_prompt_alone(deployed: Simulator) -> None:
    first, again, other = (deployed.post(CHAT, ask(text, max_tokens=24)).json for text in ("a", "a", "b"))
    texts = [reply["choices"][0]["message"]["content"] for reply in (first, again, other)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("frank-medium")


def test_an_answer_ends_by_itself_unless_told_not_to(deployed: Simulator) -> None:
    reply = deployed.post(CHAT, ask("a", max_tokens=400)).json
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["completion_tokens"] < 400
    reply = deployed.post(CHAT, ask("a", max_tokens=400, ignore_eos=True)).json
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 400


def test_a_stop_text_ends_the_answer_before_it(deployed: Simulator) -> None:
    [choice] = deployed.post(CHAT, ask("a", max_tokens=40, stop=["nowhere", "(simulated)"])).json["choices"]
    assert choice["message"]["content"] == "frank-medium "
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "(simulated)")


def test_a_next_turn_finds_its_prefix_cached(deployed: Simulator) -> None:
    conversation = [{"role": "user", "content": "a long document " * 500}]
    first = deployed.post(CHAT, {"messages": conversation, "max_tokens": 200, "ignore_eos": True}).json
    assert first["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    answer = first["choices"][0]["message"]["content"]
    following = [*conversation, {"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]
    second = deployed.post(CHAT, {"messages": following, "max_tokens": 1}).json
    whole_blocks = first["usage"]["total_tokens"] // 128 * 128
    assert second["usage"]["prompt_tokens_details"] == {"cached_tokens": whole_blocks}


def test_a_stream_reports_cached_tokens_too(deployed: Simulator) -> None:
    body = ask("another document " * 200, stream=True, stream_options={"include_usage": True})
    deployed.post(CHAT, body)
    usage = deployed.post(CHAT, body).events[-2]["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] // 128 * 128


def test_streamed_text_is_the_whole_text(deployed: Simulator) -> None:
    whole = deployed.post(CHAT, ask("a", max_tokens=100)).json["choices"][0]["message"]["content"]
    events = deployed.post(CHAT, ask("a", max_tokens=100, stream=True)).events
    pieces = [event["choices"][0]["delta"]["content"] for event in events if event != "[DONE]"]
    assert "".join(pieces) == whole
    assert max(map(len, pieces)) > 4, "drafts are accepted, so some events carry several tokens"


def test_several_answers_to_one_prompt(deployed: Simulator) -> None:
    choices = deployed.post(CHAT, ask("a", n=3, max_tokens=200)).json["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in choices}) == 3
    events = deployed.post(CHAT, ask("a", n=2, stream=True)).events
    ends = [c["index"] for e in events if e != "[DONE]" for c in e["choices"] if c["finish_reason"]]
    assert sorted(ends) == [0, 1]


def test_a_forced_tool_is_called_with_its_required_arguments(deployed: Simulator) -> None:
    body = ask("a", tools=[TOOL], tool_choice="required", max_tokens=50)
    [choice] = deployed.post(CHAT, body).json["choices"]
    [call] = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], call["function"]["name"]) == ("tool_calls", "read_file")
    assert json.loads(call["function"]["arguments"]) == {"path": "simulated", "lines": 0}
    events = deployed.post(CHAT, body | {"stream": True}).events
    deltas = [event["choices"][0]["delta"] for event in events[1:-1]]
    arguments = "".join(delta["tool_calls"][0]["function"]["arguments"] for delta in deltas)
    assert arguments == call["function"]["arguments"]


def test_tools_may_be_offered(deployed: Simulator) -> None:
    reply = deployed.post(CHAT, ask("a", tools=[TOOL]))
    assert reply.json["choices"][0]["message"]["content"]


def test_json_is_answered_where_json_is_asked_for(deployed: Simulator) -> None:
    reply = deployed.post(CHAT, ask("a", response_format={"type": "json_object"}, max_tokens=60))
    assert json.loads(reply.json["choices"][0]["message"]["content"])


def test_request_ids_come_back_in_a_header(deployed: Simulator) -> None:
    reply = deployed.call("POST", CHAT, ask("a"), {"X-Request-Id": "mine"})
    assert reply.headers["x-request-id"] == "mine"


def test_a_silent_stream_is_kept_alive(deployed: Simulator) -> None:
    deployed.post("/sim/faults", {"hang": True})
    connection = deployed.open()
    try:
        send(connection, "POST", CHAT, ask("a", stream=True))
        response = connection.getresponse()
        assert response.readline() == b": keep-alive\n"
    finally:
        deployed.post("/sim/faults", {})
    assert response.read().endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "content",
    ["text", None, [{"type": "text", "text": "text"}], [{"type": "image_url", "image_url": {"url": "data:,x"}}], []],
)
def test_every_form_of_content_is_legal(deployed: Simulator, content: Any) -> None:
    message = {"role": "user", "content": content}
    assert deployed.post(CHAT, {"messages": [message], "max_tokens": 1}).status == 200


def test_a_response_continues_an_earlier_one(deployed: Simulator) -> None:
    first = deployed.post("/v1/responses", {"input": "hello", "max_output_tokens": 5}).json
    assert deployed.get(f"/v1/responses/{first['id']}").json == first
    body = {"input": "go on", "max_output_tokens": 5, "previous_response_id": first["id"]}
    second = deployed.post("/v1/responses", body).json
    assert second["usage"]["input_tokens"] > first["usage"]["total_tokens"]
    assert second["previous_response_id"] == first["id"]


def test_an_unknown_response_is_not_found(deployed: Simulator) -> None:
    for reply in (
        deployed.get("/v1/responses/resp_none"),
        deployed.post("/v1/responses", {"input": "x", "previous_response_id": "resp_none"}),
    ):
        assert reply.status == 404
        assert "resp_none" in reply.json["error"]["message"]


def test_only_a_background_response_can_be_cancelled(deployed: Simulator) -> None:
    done = deployed.post("/v1/responses", {"input": "x", "max_output_tokens": 1}).json
    assert deployed.post(f"/v1/responses/{done['id']}/cancel", {}).status == 400
    deployed.post("/sim/faults", {"hang": True})
    try:
        begun = deployed.post("/v1/responses", {"input": "x", "background": True}).json
        assert begun["status"] == "queued"
        assert deployed.post(f"/v1/responses/{begun['id']}/cancel", {}).json["status"] == "cancelled"
        assert deployed.get("/load").json == {"server_load": 0}
    finally:
        deployed.post("/sim/faults", {})


def test_text_survives_the_tokenizer(deployed: Simulator) -> None:
    text = "näive café — 東京 and\ttabs"
    tokens = deployed.post("/tokenize", {"prompt": text}).json["tokens"]
    assert deployed.post("/detokenize", {"tokens": tokens}).json == {"prompt": text}


def test_token_numbers_and_their_text_are_the_same_prompt(deployed: Simulator) -> None:
    text = "words and words " * 200
    tokens = deployed.post("/tokenize", {"prompt": text}).json["tokens"]
    deployed.post("/v1/completions", {"prompt": text, "max_tokens": 1})
    usage = deployed.post("/v1/completions", {"prompt": tokens, "max_tokens": 1}).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == (len(tokens) - 1) // 128 * 128 > 0


def test_a_large_body_and_a_large_header_are_taken(deployed: Simulator) -> None:
    body = json.dumps(ask("a")).encode() + b" " * 10_000_000
    assert deployed.call("POST", CHAT, body, {"X-Large": "x" * 64_000}).status == 200


def test_a_connection_is_used_again(deployed: Simulator) -> None:
    connection = deployed.open()
    for _ in range(2):
        send(connection, "POST", CHAT, ask("a", stream=True))
        assert read(connection).events[-1] == "[DONE]"
