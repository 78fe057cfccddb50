"""Identity under arbitrary input: it never raises, and it does not depend on how JSON is written."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from routing_proxy.identity import Identity, identify, response_id_in

PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/v1/responses/resp_1/cancel")
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
FIELDS = ("messages", "system", "input", "instructions", "prompt", "tools", "prompt_cache_key", "previous_response_id")

words = st.sampled_from(
    ["role", "user", "assistant", "content", "type", "text", "message", "tool_result", "", "é\0\ud83d"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)
objects = st.lists(st.dictionaries(words, values, max_size=4), min_size=1, max_size=4)
requests = st.dictionaries(st.sampled_from(FIELDS), values | objects, max_size=5)


@patient
@given(method=st.sampled_from(["POST", "GET", ""]), path=st.sampled_from(PATHS) | st.text(), body=st.binary())
def test_any_bytes_are_legal(method: str, path: str, body: bytes) -> None:
    assert isinstance(identify(method, path, None, body), Identity)
    response_id_in(body)


@patient
@given(path=st.sampled_from(PATHS), session=st.none() | st.text(), request=requests)
def test_any_json_is_legal(path: str, session: str | None, request: dict[str, Any]) -> None:
    identity = identify("POST", path, session, json.dumps(request).encode())
    assert bool(identity.boundaries) == (identity.prefix is not None)
    assert identity.root in (None, *identity.boundaries[:1])


@patient
@given(prefix=st.sampled_from([f'{{"{field}":'.encode() for field in FIELDS]), rest=st.binary())
def test_any_bytes_in_a_field_are_legal(prefix: bytes, rest: bytes) -> None:
    for path in PATHS:
        identify("POST", path, None, prefix + rest)


plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
calls = st.fixed_dictionaries({"id": plain, "function": st.fixed_dictionaries({"name": plain, "arguments": plain})})
parts = st.fixed_dictionaries({"type": st.just("text"), "text": plain}) | st.fixed_dictionaries(
    {"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": plain, "detail": plain})}
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": plain | st.lists(parts, max_size=3)},
    optional={"name": plain, "tool_calls": st.lists(calls, max_size=2)},
)


def shuffled(value: Any, draw: Any) -> Any:
    """The same JSON value with every object's keys in another order, and a null key or cache marker here and there."""
    if isinstance(value, list):
        return [shuffled(item, draw) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: shuffled(value[key], draw) for key in draw(st.permutations(list(value)))}


def decorated(message: dict[str, Any], draw: Any) -> dict[str, Any]:
    """The same message as another client would send it."""
    extra = draw(st.sampled_from([{}, {"refusal": None}, {"tool_calls": []}, {"cache_control": {"type": "ephemeral"}}]))
    content = message["content"]
    if isinstance(content, str) and content and draw(st.booleans()):
        content = [{"text": content, "type": "text"}]
    return {**extra, **message, "content": content}


@patient
@given(conversation=st.lists(messages, min_size=1, max_size=6), data=st.data())
def test_another_clients_json_has_the_same_identity(conversation: list[dict[str, Any]], data: st.DataObject) -> None:
    first = identify("POST", PATHS[0], None, json.dumps({"messages": conversation}).encode())
    other = [shuffled(decorated(message, data.draw), data.draw) for message in conversation]
    for ascii_only, indent in ((False, None), (True, 2), (False, 1)):
        text = json.dumps({"model": "m", "messages": other}, ensure_ascii=ascii_only, indent=indent)
        assert identify("POST", PATHS[0], None, text.encode()) == first


@patient
@given(conversation=st.lists(messages, min_size=2, max_size=8), data=st.data())
def test_boundaries_depend_on_what_is_before_them_alone(
    conversation: list[dict[str, Any]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(conversation) - 1))
    head = identify("POST", PATHS[0], None, json.dumps({"messages": conversation[:cut]}).encode())
    whole = identify("POST", PATHS[0], None, json.dumps({"messages": conversation}).encode())
    if any(message["role"] == "user" for message in conversation[:cut]):
        assert whole.boundaries[: len(head.boundaries)] == head.boundaries


@pytest.mark.parametrize("size", [1, 5_000_000])
def test_an_image_is_told_from_another_by_its_last_byte(size: int) -> None:
    def image(last: str) -> Identity:
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * size}{last}"}}
        body = json.dumps({"messages": [{"role": "user", "content": [part]}]}).encode()
        return identify("POST", PATHS[0], None, body)

    assert image("B") == image("B") != image("C")
