"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's form."""

from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from . import sse
from .answers import Answer, invent
from .bodies import Body, check_model, read_body, read_limits
from .errors import json_response
from .results import collect
from .runner import EngineDead, Generation
from .state import STATE, request_id, stream_headers
from .tokens import Prompt, chat_prompt

_STOP_REASONS = {"length": "max_tokens", "stop": "end_turn", "abort": "end_turn"}


async def messages(request: web.Request) -> web.StreamResponse:
    """Answer a conversation."""
    state = request.app[STATE]
    body = await read_body(request, {"messages": "list", "max_tokens": "int"})
    model = check_model(body, state.settings.served_model_names)
    prompt = _prompt(body)
    limits = read_limits(body, prompt.tokens, state.settings.shape.max_model_len, body["max_tokens"], "max_tokens")
    answer = invent(prompt, model, limits)
    generation = state.generate([prompt], [answer], limits.max_tokens)
    name = request_id(request, "chatcmpl")
    headers = stream_headers(request, state)
    try:
        if body.get("stream"):
            events = _events(name, model, prompt, answer, generation)
            return await sse.stream(request, events, headers, state.settings.sse_keep_alive)
        [result] = await collect(generation, [answer])
    finally:
        generation.close()
    return json_response(
        {
            "id": name,
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": result.text}],
            "model": model,
            "stop_reason": _STOP_REASONS[result.finish_reason],
            "usage": {"input_tokens": prompt.tokens, "output_tokens": result.tokens},
        },
        headers=headers,
    )


async def count_tokens(request: web.Request) -> web.StreamResponse:
    """Count a conversation's tokens."""
    body = await read_body(request, {"messages": "list"})
    check_model(body, request.app[STATE].settings.served_model_names)
    tokens = _prompt(body).tokens
    return json_response({"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}})


def _prompt(body: Body) -> Prompt:
    conversation: list[dict[str, Any]] = [message for message in body["messages"] if isinstance(message, dict)]
    if body.get("system"):
        conversation.insert(0, {"role": "system", "content": body["system"]})
    return chat_prompt(conversation, body.get("tools"))


async def _events(
    name: str, model: str, prompt: Prompt, answer: Answer, generation: Generation
) -> AsyncIterator[bytes]:
    counts = {"input_tokens": prompt.tokens, "output_tokens": 0}
    message: dict[str, Any] = {
        "id": name,
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counts,
    }
    started = False
    reason = "abort"
    try:
        async for event in generation:
            if not started:
                started = True
                yield _event("message_start", message=message)
                yield _event("content_block_start", content_block={"type": "text", "text": ""}, index=0)
            delta = {"type": "text_delta", "text": answer.piece(event.start, event.end)}
            yield _event("content_block_delta", delta=delta, index=0)
            counts = {"input_tokens": prompt.tokens, "output_tokens": event.end}
            reason = event.finish_reason or reason
    except EngineDead as dead:
        yield _event("error", error={"type": "internal_error", "message": str(dead)})
        return
    yield _event("content_block_stop", index=0)
    delta_end = {"stop_reason": _STOP_REASONS[reason], "stop_sequence": answer.stop_text}
    yield _event("message_delta", delta=delta_end, usage=counts)
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return sse.data({"type": kind, **fields}, kind)
