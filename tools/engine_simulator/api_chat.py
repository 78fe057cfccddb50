"""POST /v1/chat/completions."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from . import sse
from .answers import Answer, fixed, invent
from .bodies import Body, check_model, read_body, read_count, read_limits
from .errors import BAD_REQUEST, ApiError, invalid, json_response
from .results import Result, StreamUsage, collect, usage
from .runner import Generation
from .state import STATE, State, random_id, request_id, stream_headers
from .tokens import Prompt, chat_prompt


@dataclass(frozen=True)
class _Chat:
    """One request while it is answered. `tool` is the function that must be called, if one must."""

    state: State
    head: dict[str, Any]
    prompt: Prompt
    answers: list[Answer]
    generation: Generation
    tool: str | None


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """Answer a conversation."""
    state = request.app[STATE]
    body = await read_body(request, {"messages": "list"})
    model = check_model(body, state.settings.served_model_names)
    tool = _forced_tool(body, state)
    prompt = chat_prompt([m for m in body["messages"] if isinstance(m, dict)], body.get("tools"))
    field = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    limits = read_limits(body, prompt.tokens, state.settings.shape.max_model_len, body.get(field), field)
    count = read_count(body)
    if tool:
        answers = [fixed(_arguments(body, tool), limits)] * count
    elif (body.get("response_format") or {}).get("type") in ("json_object", "json_schema"):
        answers = [fixed(json.dumps({"answer": f"{model} (simulated) {prompt.digest}"}), limits)] * count
    else:
        answers = [invent(prompt, model, limits, choice) for choice in range(count)]
    generation = state.generate([prompt] * count, answers, limits.max_tokens)
    head = {
        "id": request_id(request, "chatcmpl"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
    }
    chat = _Chat(state, head, prompt, answers, generation, tool)
    headers = stream_headers(request, state)
    try:
        if body.get("stream"):
            chunks = _chunks(chat, StreamUsage.of(body))
            return await sse.stream(request, chunks, headers, state.settings.sse_keep_alive)
        return json_response(await _whole(chat), headers=headers)
    finally:
        generation.close()


async def _whole(chat: _Chat) -> dict[str, Any]:
    results = await collect(chat.generation, chat.answers)
    return chat.head | {
        "choices": [_choice(index, result, chat.tool) for index, result in enumerate(results)],
        "service_tier": None,
        "system_fingerprint": chat.state.fingerprint,
        "usage": usage(
            chat.prompt.tokens, sum(result.tokens for result in results), chat.state.details(chat.generation)
        ),
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def _choice(index: int, result: Result, tool: str | None) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if tool else result.text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    if tool:
        message["tool_calls"] = [_tool_call(tool, result.text)]
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": _finish_reason(result.finish_reason, tool),
        "stop_reason": result.stop_text,
        "token_ids": None,
        "routed_experts": None,
    }


async def _chunks(chat: _Chat, reported: StreamUsage) -> AsyncIterator[bytes]:
    head = chat.head | {"object": "chat.completion.chunk"}
    fingerprint = {"system_fingerprint": chat.state.fingerprint}
    made = [0] * len(chat.answers)
    started: set[int] = set()
    unfinished = len(chat.answers)
    async for event in chat.generation:
        if not started:
            for index in range(len(chat.answers)):
                delta = {"role": "assistant", "content": ""}
                opening = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
                extra = reported.chunk(chat.prompt.tokens, 0) | {"prompt_token_ids": None, "prompt_text": None}
                yield sse.data(head | {"choices": [opening]} | extra)
        answer = chat.answers[event.index]
        piece = answer.piece(event.start, event.end)
        delta_: dict[str, Any] = {"content": piece}
        if chat.tool:
            call = {"index": 0, "function": {"arguments": piece}}
            if event.index not in started:
                call = {"index": 0} | _tool_call(chat.tool, piece)
            delta_ = {"tool_calls": [call]}
        started.add(event.index)
        choice = {"index": event.index, "delta": delta_, "logprobs": None}
        choice["finish_reason"] = event.finish_reason and _finish_reason(event.finish_reason, chat.tool)
        if event.finish_reason:
            choice["stop_reason"] = answer.stop_text
            unfinished -= 1
        choice["token_ids"] = None
        made[event.index] = event.end
        chunk = head | {"choices": [choice]} | reported.chunk(chat.prompt.tokens, event.end)
        yield sse.data(chunk if unfinished or reported.last else chunk | fingerprint)
    if reported.last:
        details = chat.state.details(chat.generation)
        yield sse.data(
            head | {"choices": [], "usage": reported.final(chat.prompt.tokens, sum(made), details)} | fingerprint
        )
    yield sse.DONE


def _finish_reason(reason: str, tool: str | None) -> str:
    return "tool_calls" if tool and reason == "stop" else reason


def _tool_call(tool: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-tool-{random_id()}",
        "type": "function",
        "function": {"name": tool, "arguments": arguments},
    }


def _forced_tool(body: Body, state: State) -> str | None:
    """The function that the request says must be called, or None where the model may choose (it never does).

    Raises:
        ApiError: 400 where the command line does not allow tools.
    """
    tools = body.get("tools") or []
    choice = body.get("tool_choice") or ("auto" if tools else "none")
    if not tools or choice == "none":
        return None
    settings = state.settings
    if choice == "auto":
        if not (settings.auto_tools and settings.tool_parser):
            message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            raise ApiError(400, BAD_REQUEST, message)
        return None
    name = next(iter(_functions(body)), "") if choice == "required" else _chosen_name(choice)
    if not settings.tool_parser:
        shown = "required" if choice == "required" else f'function "{name}"'
        raise ApiError(400, BAD_REQUEST, f"tool_choice={shown} requires --tool-call-parser to be set")
    return name


def _functions(body: Body) -> dict[str, Any]:
    """The functions that the request offers, by name."""
    functions = [tool.get("function") for tool in body.get("tools") or [] if isinstance(tool, dict)]
    return {str(function.get("name")): function for function in functions if isinstance(function, dict)}


def _chosen_name(choice: Any) -> str:
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise invalid("value_error", "body.tool_choice", "Input should name a function", choice)
    return str(function["name"])


def _arguments(body: Body, tool: str) -> str:
    """Arguments for a call: each required property with the plainest value of its type."""
    plain: dict[str, Any] = {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    schema = _functions(body).get(tool, {}).get("parameters")
    if not isinstance(schema, dict):
        return "{}"
    properties = schema.get("properties") or {}
    kinds = {name: str((properties.get(name) or {}).get("type")) for name in schema.get("required") or []}
    return json.dumps({name: plain.get(kind, "simulated") for name, kind in kinds.items()})
