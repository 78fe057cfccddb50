"""POST /v1/completions: a prompt as text, a list of texts, token numbers, or a list of lists of them."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from . import sse
from .answers import Answer, invent
from .bodies import check_model, read_body, read_count, read_limits
from .errors import BAD_REQUEST, ApiError, invalid, json_response
from .results import Result, StreamUsage, collect, usage
from .runner import Generation
from .state import STATE, State, request_id, stream_headers
from .tokens import Prompt, ids_prompt, text_prompt

_DEFAULT_MAX_TOKENS = 16
"""The API's default, unlike chat, which fills the context."""


@dataclass(frozen=True)
class _Completion:
    """One request while it is answered."""

    state: State
    head: dict[str, Any]
    prompt_tokens: int
    answers: list[Answer]
    generation: Generation


async def completions(request: web.Request) -> web.StreamResponse:
    """Continue one or several prompts."""
    state = request.app[STATE]
    body = await read_body(request, {"prompt": "any"})
    model = check_model(body, state.settings.served_model_names)
    prompts = _read_prompts(body["prompt"])
    asked = body.get("max_tokens")
    longest = max(prompt.tokens for prompt in prompts)
    asked = _DEFAULT_MAX_TOKENS if asked is None else asked
    limits = read_limits(body, longest, state.settings.shape.max_model_len, asked, "max_tokens")
    count = read_count(body)
    answers = [invent(prompt, model, limits, choice) for prompt in prompts for choice in range(count)]
    generation = state.generate([prompt for prompt in prompts for _ in range(count)], answers, limits.max_tokens)
    head = {"id": request_id(request, "cmpl"), "object": "text_completion", "created": int(time.time()), "model": model}
    completion = _Completion(state, head, sum(prompt.tokens for prompt in prompts), answers, generation)
    headers = stream_headers(request, state)
    try:
        if body.get("stream"):
            chunks = _chunks(completion, StreamUsage.of(body))
            return await sse.stream(request, chunks, headers, state.settings.sse_keep_alive)
        return json_response(await _whole(completion), headers=headers)
    finally:
        generation.close()


def _read_prompts(value: Any) -> list[Prompt]:
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, int) for item in items):
        items = [items]
    prompts = []
    for item in items:
        if isinstance(item, str):
            prompts.append(text_prompt(item))
        elif isinstance(item, list) and all(isinstance(number, int) for number in item):
            prompts.append(ids_prompt(item))
        else:
            raise invalid("string_type", "body.prompt", "Input should be a valid string", value)
    if not prompts or any(prompt.tokens == 0 for prompt in prompts):
        raise ApiError(400, BAD_REQUEST, "Either prompt or prompt_embeds must be provided and non-empty.")
    return prompts


async def _whole(completion: _Completion) -> dict[str, Any]:
    results = await collect(completion.generation, completion.answers)
    output_tokens = sum(result.tokens for result in results)
    details = completion.state.details(completion.generation)
    return completion.head | {
        "choices": [_choice(index, result) for index, result in enumerate(results)],
        "service_tier": None,
        "system_fingerprint": completion.state.fingerprint,
        "usage": usage(completion.prompt_tokens, output_tokens, details),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def _choice(index: int, result: Result) -> dict[str, Any]:
    return {
        "index": index,
        "text": result.text,
        "logprobs": None,
        "finish_reason": result.finish_reason,
        "stop_reason": result.stop_text,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }


async def _chunks(completion: _Completion, reported: StreamUsage) -> AsyncIterator[bytes]:
    fingerprint = {"system_fingerprint": completion.state.fingerprint}
    made = [0] * len(completion.answers)
    unfinished = len(made)
    async for event in completion.generation:
        answer = completion.answers[event.index]
        unfinished -= event.finish_reason is not None
        made[event.index] = event.end
        choice = {
            "index": event.index,
            "text": answer.piece(event.start, event.end),
            "logprobs": None,
            "finish_reason": event.finish_reason,
            "stop_reason": answer.stop_text if event.finish_reason else None,
            "prompt_token_ids": None,
            "token_ids": None,
        }
        chunk = completion.head | {"choices": [choice]} | reported.chunk(completion.prompt_tokens, event.end)
        yield sse.data(chunk if unfinished or reported.last else chunk | fingerprint)
    if reported.last:
        details = completion.state.details(completion.generation)
        counts = reported.final(completion.prompt_tokens, sum(made), details)
        yield sse.data(completion.head | {"choices": [], "usage": counts} | fingerprint)
    yield sse.DONE
