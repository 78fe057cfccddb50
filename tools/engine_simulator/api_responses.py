"""/v1/responses: OpenAI's newer form, which remembers its answers."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from . import sse
from .answers import Answer, invent
from .bodies import Body, check_model, read_body, read_limits
from .errors import BAD_REQUEST, ApiError, invalid, json_response
from .results import Result, collect
from .runner import EngineDead, Generation
from .state import MAX_STORED_RESPONSES, STATE, State, random_id, stream_headers
from .tokens import Prompt, chat_prompt


@dataclass
class Stored:
    """A remembered answer: as it is now, the conversation up to its end, and what still makes it."""

    response: dict[str, Any]
    conversation: list[dict[str, Any]]
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True)
class _Work:
    """One request while it is answered."""

    state: State
    stored: Stored
    prompt: Prompt
    answer: Answer
    generation: Generation
    item_id: str


async def create_response(request: web.Request) -> web.StreamResponse:
    """Answer an input, on top of an earlier answer if the request names one."""
    state = request.app[STATE]
    body = await read_body(request, {"input": "any"})
    model = check_model(body, state.settings.served_model_names)
    conversation = _conversation(body, state)
    prompt = chat_prompt(conversation, body.get("tools"))
    asked = body.get("max_output_tokens")
    limits = read_limits(body, prompt.tokens, state.settings.shape.max_model_len, asked, "max_output_tokens")
    answer = invent(prompt, model, limits)
    generation = state.generate([prompt], [answer], limits.max_tokens)
    stored = Stored(_response(body, model, limits.max_tokens), conversation)
    work = _Work(state, stored, prompt, answer, generation, f"msg_{random_id()}")
    if body.get("store", True):
        state.responses[stored.response["id"]] = stored
        if len(state.responses) > MAX_STORED_RESPONSES:
            state.responses.popitem(last=False)
    if body.get("background"):
        stored.task = asyncio.create_task(_finish_in_background(work))
        return json_response(stored.response)
    headers = stream_headers(request, state)
    try:
        if body.get("stream"):
            return await sse.stream(request, _events(work), headers, state.settings.sse_keep_alive)
        [result] = await collect(generation, [answer])
        _complete(work, result)
        return json_response(stored.response, headers=headers)
    finally:
        generation.close()


async def get_response(request: web.Request) -> web.StreamResponse:
    """An earlier answer."""
    return json_response(_find(request.app[STATE], request.match_info["id"]).response)


async def cancel_response(request: web.Request) -> web.StreamResponse:
    """Stop an answer that is made in the background."""
    stored = _find(request.app[STATE], request.match_info["id"])
    if not stored.response["background"]:
        raise ApiError(400, BAD_REQUEST, "Cannot cancel a synchronous response.", "response_id")
    if stored.task and not stored.task.done():
        stored.task.cancel()
        stored.response["status"] = "cancelled"
    return json_response(stored.response)


async def _finish_in_background(work: _Work) -> None:
    try:
        [result] = await collect(work.generation, [work.answer])
        _complete(work, result)
    except EngineDead:
        work.stored.response["status"] = "failed"
    finally:
        work.generation.close()


def _find(state: State, name: str) -> Stored:
    stored = state.responses.get(name)
    if stored is None:
        raise ApiError(404, "invalid_request_error", f"Response with id '{name}' not found.", "response_id")
    assert isinstance(stored, Stored)
    return stored


def _conversation(body: Body, state: State) -> list[dict[str, Any]]:
    """The messages of a request: instructions, what the earlier answer was about, the new input."""
    conversation: list[dict[str, Any]] = []
    if body.get("previous_response_id"):
        conversation += _find(state, str(body["previous_response_id"])).conversation
        conversation = [message for message in conversation if message.get("role") != "system"]
    if body.get("instructions"):
        conversation.insert(0, {"role": "system", "content": body["instructions"]})
    value = body["input"]
    if isinstance(value, str):
        return [*conversation, {"role": "user", "content": value}]
    if not isinstance(value, list):
        raise invalid("string_type", "body.input", "Input should be a valid string", value)
    for item in value:
        if isinstance(item, dict):
            content = item.get("content", item.get("output", item.get("arguments")))
            conversation.append({"role": item.get("role", "tool"), "content": content})
    return conversation


def _response(body: Body, model: str, max_tokens: int) -> dict[str, Any]:
    """A response that has just begun."""
    background = bool(body.get("background"))
    return {
        "id": f"resp_{random_id()}",
        "created_at": int(time.time()),
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata"),
        "model": model,
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "temperature": body.get("temperature", 1.0),
        "tool_choice": body.get("tool_choice") or ("auto" if body.get("tools") else "none"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "background": background,
        "max_output_tokens": max_tokens,
        "max_tool_calls": None,
        "previous_response_id": body.get("previous_response_id"),
        "prompt": None,
        "reasoning": body.get("reasoning"),
        "service_tier": "auto",
        "status": "queued" if background else "in_progress",
        "text": None,
        "top_logprobs": None,
        "truncation": "disabled",
        "usage": None,
        "user": body.get("user"),
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "input_messages": None,
        "output_messages": None,
    }


def _complete(work: _Work, result: Result) -> None:
    """Put the result into the response and the conversation."""
    response = work.stored.response
    response["output"] = [_item(work.item_id, result.text)]
    response["usage"] = _usage(work, result.tokens)
    response["status"] = "completed" if result.finish_reason == "stop" else "incomplete"
    if result.finish_reason == "length":
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    work.stored.conversation.append({"role": "assistant", "content": result.text})


def _usage(work: _Work, output_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": work.prompt.tokens,
        "input_tokens_details": {
            "cached_tokens": work.generation.cached_tokens,
            "cache_write_tokens": 0,
            "input_tokens_per_turn": [],
            "cached_tokens_per_turn": [],
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {
            "reasoning_tokens": 0,
            "tool_output_tokens": 0,
            "output_tokens_per_turn": [],
            "tool_output_tokens_per_turn": [],
        },
        "total_tokens": work.prompt.tokens + output_tokens,
    }


def _item(name: str, text: str | None) -> dict[str, Any]:
    """The one message of the output; without a text it has just begun."""
    content = [] if text is None else [_part(text)]
    status = "in_progress" if text is None else "completed"
    return {"id": name, "content": content, "role": "assistant", "status": status, "type": "message", "phase": None}


def _part(text: str, logprobs: list[Any] | None = None) -> dict[str, Any]:
    return {"annotations": [], "text": text, "type": "output_text", "logprobs": logprobs}


async def _events(work: _Work) -> AsyncIterator[bytes]:
    number = 0

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return sse.data(fields | {"sequence_number": number - 1, "type": kind}, kind)

    place = {"content_index": 0, "item_id": work.item_id, "output_index": 0}
    yield event("response.created", response=work.stored.response)
    yield event("response.in_progress", response=work.stored.response)
    result = Result("", 0, "abort")
    async for step in work.generation:
        if step.start == 0:
            yield event("response.output_item.added", item=_item(work.item_id, None), output_index=0)
            yield event("response.content_part.added", **place, part=_part("", []))
        delta = work.answer.piece(step.start, step.end)
        yield event("response.output_text.delta", **place, delta=delta, logprobs=[])
        result = Result(work.answer.piece(0, step.end), step.end, step.finish_reason or "abort")
    _complete(work, result)
    item = work.stored.response["output"][0]
    yield event("response.output_text.done", **place, logprobs=[], text=result.text)
    yield event("response.content_part.done", **place, part=_part(result.text))
    yield event("response.output_item.done", item=item, output_index=0)
    yield event("response.completed", response=work.stored.response)
