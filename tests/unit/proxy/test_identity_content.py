"""Canonical content: equal prompts have one identity however a client writes them, different ones differ."""

import json
from typing import Any

import pytest
from routing_proxy.identity import Identity, identify


def chat(*messages: Any, path: str = "/v1/chat/completions", **fields: Any) -> Identity:
    return identify("POST", path, None, json.dumps({"messages": messages, **fields}).encode())


def anthropic(*messages: Any, **fields: Any) -> Identity:
    return chat(*messages, path="/v1/messages", **fields)


def user(content: Any = "hi") -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any = "hello", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


SAME_MESSAGE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (user("hi"), user([{"type": "text", "text": "hi"}])),
    (user("hi"), user([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}])),
    (user("hi"), {"content": "hi", "role": "user", "cache_control": {"type": "ephemeral"}}),
    (user("hi"), {**user("hi"), "name": None, "refusal": None}),
    (user("hi"), user([{"type": "input_text", "text": "hi"}])),
    (user("hi"), {"type": "message", **user("hi")}),
    (assistant("hi"), assistant([{"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}])),
    (assistant(None), assistant("")),
    (assistant(None), {"role": "assistant"}),
    (assistant(None), assistant([])),
    (assistant("hi"), assistant("hi", tool_calls=[])),
    (
        user([{"type": "tool_result", "tool_use_id": "t", "content": "4", "is_error": False}]),
        user([{"tool_use_id": "t", "type": "tool_result", "content": [{"type": "text", "text": "4"}]}]),
    ),
    (
        assistant(None, tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]),
        assistant("", tool_calls=[{"type": "function", "function": {"arguments": "{}", "name": "f"}, "id": "c"}]),
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME_MESSAGE)
def test_equal_prompts_are_equal_however_they_are_written(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert chat(user("first"), one).boundaries == chat(user("first"), other).boundaries


DIFFERENT_MESSAGE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (user("hi"), assistant("hi")),
    (user("hi"), {**user("hi"), "name": "bob"}),
    (user("ab"), user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
    (assistant(None), assistant(None, tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}])),
    (
        user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
        user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAB"}}]),
    ),
    (
        user([{"type": "tool_result", "tool_use_id": "t", "content": "4"}]),
        user([{"type": "tool_result", "tool_use_id": "t", "content": "5"}]),
    ),
    (
        assistant([{"type": "thinking", "thinking": "so", "signature": "x"}]),
        assistant([{"type": "thinking", "thinking": "no", "signature": "x"}]),
    ),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT_MESSAGE)
def test_different_prompts_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert chat(user("first"), one).boundaries[-1] != chat(user("first"), other).boundaries[-1]


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def test_tools_count_and_their_form_does_not() -> None:
    with_tools = chat(user(), tools=TOOLS)
    reordered = [{"function": {"parameters": {"type": "object"}, "name": "f"}, "type": "function"}]
    assert with_tools.root == chat(user(), tools=reordered).root
    assert with_tools.root == chat(user(), tools=[{**TOOLS[0], "cache_control": {"type": "ephemeral"}}]).root
    assert with_tools.root != chat(user()).root
    assert chat(user()).root == chat(user(), tools=None).root == chat(user(), tools=[]).root


def test_large_tools_are_recognised_too() -> None:
    large, other = ([{"name": name, "description": "x" * 300_000}] for name in "fg")
    assert chat(user(), tools=large).root == chat(user(), tools=large).root != chat(user(), tools=other).root


def test_sampling_fields_do_not_count() -> None:
    assert chat(user(), temperature=0.7, stream=True, model="other") == chat(user())


# Anthropic


def test_anthropics_system_in_all_its_forms() -> None:
    text = anthropic(user(), system="Be kind.")
    block = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    assert anthropic(user(), system=[block]) == text
    without = anthropic(user())
    assert without != text
    for empty in (None, "", []):
        assert anthropic(user(), system=empty) == without


def test_a_moving_cache_marker_keeps_the_chain() -> None:
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    first = anthropic(user([marked]), system="s")
    second = anthropic(user(), assistant(), user([{**marked, "text": "more"}]), system="s")
    assert first.boundaries[-1] in second.boundaries[:-1]
