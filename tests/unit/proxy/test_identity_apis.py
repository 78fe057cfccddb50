"""Identity of Responses and completions requests, and of what cannot be read at all."""

import json
from typing import Any

import pytest
from routing_proxy.identity import BLOCK_BYTES, BLOCK_DEPTH, Identity, identify, response_id_in

CHAT, RESPONSES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/completions"
NOBODY = Identity()
HI = {"role": "user", "content": "hi"}


def of(path: str, **fields: Any) -> Identity:
    return identify("POST", path, None, json.dumps(fields).encode())


def continues(later: Identity, earlier: Identity) -> bool:
    return earlier.boundaries[-1] in later.boundaries[:-1]


# Responses


def test_a_responses_input_is_a_string_or_a_list() -> None:
    text = of(RESPONSES, input="hi", instructions="Be kind.")
    parts = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    assert of(RESPONSES, input=parts, instructions="Be kind.") == text
    assert of(RESPONSES, input="hi") != text


def test_responses_items_without_a_role_are_history() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "4"}
    second = of(RESPONSES, input=[HI, call, output])
    assert second.history
    assert continues(second, of(RESPONSES, input="hi"))


def test_a_follow_up_is_known_by_the_response_it_follows() -> None:
    assert of(RESPONSES, input="and?", previous_response_id="resp_1") == Identity(response_id="resp_1")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1?stream=true"),
        ("DELETE", "/v1/responses/resp_1/"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ],
)
def test_a_stored_response_is_known_by_its_path(method: str, path: str) -> None:
    assert identify(method, path, None, b"") == Identity(response_id="resp_1")


SAMPLES = {
    "json": b'{"id":"resp_8d8837ef602787cc","created_at":1796069758,"previous_response_id":"resp_old","output":[]}',
    "spaced": b'{\n "previous_response_id": "resp_old",\n "id" : "resp_8d8837ef602787cc"}',
    "stream": b"event: response.created\r\n"
    b'data: {"response":{"id":"resp_8d8837ef602787cc","object":"response"},"sequence_number":0}\r\n\r\n',
}


@pytest.mark.parametrize("chunk", SAMPLES.values(), ids=SAMPLES)
def test_the_id_of_an_answer_is_found(chunk: bytes) -> None:
    assert response_id_in(chunk) == "resp_8d8837ef602787cc"


@pytest.mark.parametrize(
    "chunk",
    [
        b"",
        b'{"id":"chatcmpl-1"}',
        b'{"id":"resp_8d88',
        rb'{"text":"\"id\":\"resp_quoted\""}',
        b'{"previous_response_id":"resp_old"}',
        b"\xff\xfe{",
    ],
)
def test_no_id_is_invented(chunk: bytes) -> None:
    assert response_id_in(chunk) is None


# Completions


def test_a_growing_prompt_continues() -> None:
    text = "".join(f"line {i}\n" for i in range(100))
    first = of(COMPLETIONS, prompt=text)
    assert continues(of(COMPLETIONS, prompt=text + "answer\n" + "x" * 1000), first)
    assert not continues(of(COMPLETIONS, prompt="other " + text + "x" * 1000), first)


def test_a_growing_token_prompt_continues() -> None:
    tokens = list(range(1000))
    first = of(COMPLETIONS, prompt=tokens)
    assert continues(of(COMPLETIONS, prompt=tokens + [5] * 100), first)
    assert identify("POST", COMPLETIONS, None, json.dumps({"prompt": [tokens]}, indent=2).encode()) == first


def test_prompts_with_one_template_do_not_continue_each_other() -> None:
    template = "An example.\n" * 500
    burst = [of(COMPLETIONS, prompt=template + f"Question {i}: " + "abcd" * (20 + i)) for i in range(16)]
    assert not any(continues(one, other) for one in burst for other in burst)


def test_prompt_boundaries_are_bounded() -> None:
    blocks = 3 * BLOCK_DEPTH
    text = "".join(f"{i:06}" for i in range(blocks * BLOCK_BYTES // 6 + 1))[: blocks * BLOCK_BYTES]
    assert len(of(COMPLETIONS, prompt=text).boundaries) == 1 + BLOCK_DEPTH
    assert continues(of(COMPLETIONS, prompt=text), of(COMPLETIONS, prompt=text[: (blocks - BLOCK_DEPTH + 1) * 64]))


def test_a_prompt_has_neither_root_nor_history() -> None:
    identity = of(COMPLETIONS, prompt="x" * 1000)
    assert (identity.root, identity.history) == (None, False)
    assert len(of(COMPLETIONS, prompt="hi").boundaries) == 1


@pytest.mark.parametrize("prompt", ["", [], ["a", "b"], [[1], [2]], [1, "a"], None, 7, {"a": 1}])
def test_no_prompt_or_several_are_no_conversation(prompt: Any) -> None:
    assert of(COMPLETIONS, prompt=prompt) == NOBODY


def test_a_list_of_one_prompt_is_that_prompt() -> None:
    assert of(COMPLETIONS, prompt=["hello"]) == of(COMPLETIONS, prompt="hello") != NOBODY


def test_messages_count_before_an_input_and_that_before_a_prompt() -> None:
    assert of(CHAT, messages=[HI], input="in", prompt="p") == of(CHAT, messages=[HI])
    assert of(CHAT, input="in", prompt="p") == of(CHAT, input="in")


# What cannot be identified


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b'"text"',
        b"\xff\xfe\x00",
        b"{}",
        b'{"messages":[]}',
        b'{"messages":null}',
        b'{"messages":{}}',
        b'{"messages":"hi"}',
        b'{"messages":[1]}',
        b'{"messages":[null]}',
        b'{"messages":[{"role":"user","content":NaN}]}',
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"messages":[{"role":"user","content":' + DEEP + b"}]}",
        b'{"messages":[{"role":"user","content":"hi"}],"tools":' + DEEP + b"}",
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_what_cannot_be_read_is_not_identified(body: bytes) -> None:
    assert identify("POST", CHAT, None, body) == NOBODY


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": []},
        {"role": {}, "content": "hi"},
        {"role": "user", "content": 7},
        {"role": "user", "content": {"type": "text", "text": "hi"}},
        {"role": "user", "content": [{"type": ["text"], "text": "hi"}, None, 7, "x", []]},
        {"role": "user", "content": [{"type": "tool_result", "content": {"text": []}}]},
        {"type": {}, "role": "user"},
        {"role": "user", "content": 10**400},
    ],
    ids=str,
)
def test_odd_messages_are_identified_all_the_same(message: Any) -> None:
    for first in ([message, HI], [HI, message, HI]):
        assert continues(of(CHAT, messages=[*first, {"role": "assistant"}, HI]), of(CHAT, messages=first))


def test_of_duplicate_keys_the_last_one_counts() -> None:
    body = b'{"messages":[{"role":"user","content":"a","content":"hi"}]}'
    assert identify("POST", CHAT, None, body) == of(CHAT, messages=[HI])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", CHAT),
        ("POST", "/tokenize"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/chat/completions/render"),
    ],
)
def test_requests_that_do_not_generate_have_no_conversation(method: str, path: str) -> None:
    body = json.dumps({"messages": [HI], "input": "hi", "prompt": "hi"}).encode()
    assert identify(method, path, None, body) == NOBODY


@pytest.mark.parametrize("path", [CHAT, CHAT + "/", CHAT + "?a=b", "/invocations", "/proxy/v1/chat/completions"])
def test_paths_that_generate(path: str) -> None:
    assert identify("POST", path, None, json.dumps({"messages": [HI]}).encode()) == of(CHAT, messages=[HI])
