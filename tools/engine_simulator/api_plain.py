"""Everything that generates nothing: health, models, metrics, the tokenizer, the faults."""

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from . import ENGINE_VERSION
from .bodies import check_model, read_body
from .errors import BAD_REQUEST, ApiError, json_response
from .faults import Faults
from .state import STATE, random_id
from .tokens import chat_prompt, text_prompt
from .tokens import detokenize as tokens_to_text


async def health(request: web.Request) -> web.Response:
    """200 while the engine lives, even if it hangs; 503 when it is dead."""
    return web.Response(status=503 if request.app[STATE].runner.dead else 200)


async def version(_: web.Request) -> web.Response:
    """The imitated release."""
    return json_response({"version": ENGINE_VERSION})


async def load(request: web.Request) -> web.Response:
    """Requests in the engine."""
    engine = request.app[STATE].runner.engine
    return json_response({"server_load": len(engine.running) + len(engine.waiting)})


async def kv_event_sources(_: web.Request) -> web.Response:
    """No KV events are published."""
    return json_response({})


async def models(request: web.Request) -> web.Response:
    """The served names."""
    state = request.app[STATE]
    permission = {
        "object": "model_permission",
        "created": state.created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    cards = [
        {
            "id": name,
            "object": "model",
            "created": state.created,
            "owned_by": "vllm",
            "root": state.settings.model,
            "parent": None,
            "max_model_len": state.settings.shape.max_model_len,
            "permission": [{"id": f"modelperm-{random_id()}"} | permission],
        }
        for name in state.settings.served_model_names
    ]
    return json_response({"object": "list", "data": cards})


async def models_slash(request: web.Request) -> web.Response:
    """Send `/v1/models/` to the path without the slash, on the host the client named."""
    location = f"{request.scheme}://{request.host}/v1/models"
    return web.Response(status=307, headers={"Location": location})


async def metrics(request: web.Request) -> web.Response:
    """A scrape."""
    body = request.app[STATE].metrics.render()
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def tokenize(request: web.Request) -> web.Response:
    """Token numbers of a text or a conversation."""
    state = request.app[STATE]
    body = await read_body(request, {})
    check_model(body, state.settings.served_model_names)
    if isinstance(body.get("messages"), list):
        answer_follows = bool(body.get("add_generation_prompt", True))
        prompt = chat_prompt([m for m in body["messages"] if isinstance(m, dict)], body.get("tools"), answer_follows)
    elif isinstance(body.get("prompt"), str):
        prompt = text_prompt(body["prompt"])
    else:
        raise ApiError(400, BAD_REQUEST, "Either prompt (a string) or messages (a list) must be given.")
    numbers = prompt.token_ids()
    strings = [tokens_to_text([number]) for number in numbers] if body.get("return_token_strs") else None
    limit = state.settings.shape.max_model_len
    return json_response({"count": len(numbers), "max_model_len": limit, "tokens": numbers, "token_strs": strings})


async def detokenize(request: web.Request) -> web.Response:
    """The text of token numbers."""
    body = await read_body(request, {"tokens": "list"})
    check_model(body, request.app[STATE].settings.served_model_names)
    return json_response({"prompt": tokens_to_text(number for number in body["tokens"] if isinstance(number, int))})


async def get_faults(request: web.Request) -> web.Response:
    """The faults that are on."""
    return json_response(request.app[STATE].runner.faults)


async def set_faults(request: web.Request) -> web.Response:
    """Replace the faults by those of the body; fields left out are off."""
    runner = request.app[STATE].runner
    try:
        runner.faults = msgspec.json.decode(await request.read(), type=Faults)
    except msgspec.DecodeError as error:
        raise ApiError(400, BAD_REQUEST, str(error)) from None
    runner.wake()
    return json_response(runner.faults)
