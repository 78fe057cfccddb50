"""Reading and checking request bodies: the fields that matter here, with pydantic's words for what is wrong."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .answers import Limits
from .errors import BAD_REQUEST, NOT_FOUND, VALIDATION, ApiError, invalid

Body = dict[str, Any]

_KINDS: dict[str, tuple[tuple[type, ...], str, str]] = {
    "list": ((list,), "list_type", "Input should be a valid list"),
    "dict": ((dict,), "dict_type", "Input should be a valid dictionary"),
    "str": ((str,), "string_type", "Input should be a valid string"),
    "int": ((int,), "int_type", "Input should be a valid integer"),
    "float": ((int, float), "float_type", "Input should be a valid number"),
    "bool": ((bool,), "bool_type", "Input should be a valid boolean"),
    "any": ((object,), "", ""),
}

_COMMON = {
    "model": "str", "stream": "bool", "temperature": "float", "top_p": "float", "n": "int", "max_tokens": "int",
    "min_tokens": "int", "ignore_eos": "bool", "seed": "int", "tools": "list", "stream_options": "dict",
    "response_format": "dict", "metadata": "dict", "max_completion_tokens": "int",
    "max_output_tokens": "int",
}  # fmt: skip


_MOST_ANSWERS = 128


async def read_body(request: web.Request, required: Mapping[str, str]) -> Body:
    """Read a JSON object and check the types of its fields.

    Args:
        request: the request.
        required: fields that must be there, each with the name of its type.

    Raises:
        ApiError: 400 with vLLM's words.
    """
    if request.content_type != "application/json" or "Content-Type" not in request.headers:
        raise ApiError(
            400, VALIDATION, "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        )
    try:
        body = json.loads(await request.read())
    except json.JSONDecodeError as error:
        raise invalid("json_invalid", f"body.{error.pos}", "JSON decode error", {}, {"error": error.msg}) from None
    except (UnicodeDecodeError, RecursionError):
        raise ApiError(400, VALIDATION, "There was an error parsing the body") from None
    if not isinstance(body, dict):
        raise invalid("model_attributes_type", "body", "Input should be a valid dictionary", body)
    for field in required:
        if field not in body:
            raise invalid("missing", f"body.{field}", "Field required", body)
    for field, kind in (_COMMON | dict(required)).items():
        _check(body, field, kind, optional=field not in required)
    return body


def check_model(body: Body, served: tuple[str, ...]) -> str:
    """The model's name for the answer; a request without one gets the first.

    Raises:
        ApiError: 404 for a model that is not served.
    """
    name = body.get("model") or served[0]
    if name not in served:
        raise ApiError(
            404, NOT_FOUND, f"The model `{name}` does not exist. Valid aliases: {', '.join(served)}.", "model"
        )
    return str(name)


def read_count(body: Body) -> int:
    """How many answers each prompt gets.

    Raises:
        ApiError: 400 unless it is between 1 and 128.
    """
    count = body.get("n")
    if count is None:
        return 1
    if not 1 <= count <= _MOST_ANSWERS:
        raise ApiError(400, BAD_REQUEST, f"n must be between 1 and {_MOST_ANSWERS}, got {count}.", "n")
    return int(count)


def read_limits(body: Body, prompt_tokens: int, max_model_len: int, asked: int | None, field: str) -> Limits:
    """How long the answer may be.

    Args:
        body: the request.
        prompt_tokens: length of the prompt.
        max_model_len: what prompt and answer may have together.
        asked: answer tokens that the request asks for; None is all there is room for.
        field: where the request says so.

    Raises:
        ApiError: 400 where prompt or answer do not fit.
    """
    if asked is not None and asked < 1:
        raise ApiError(400, BAD_REQUEST, f"{field} must be at least 1, got {asked}.", field)
    if asked is not None and asked > max_model_len:
        raise ApiError(
            400,
            BAD_REQUEST,
            f"{field}={asked} cannot be greater than max_model_len={max_model_len}. Please request fewer output "
            f"tokens. (parameter={field}, value={asked})",
            field,
        )
    room = max_model_len - prompt_tokens
    limit = f"This model's maximum context length is {max_model_len} tokens. However, "
    if room < 1:
        at_least = max_model_len + 1
        raise ApiError(
            400,
            BAD_REQUEST,
            f"{limit}your prompt contains at least {at_least} input tokens, which exceeds this limit even without any "
            f"output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={at_least})",
            "input_tokens",
        )
    if asked is not None and asked > room:
        raise ApiError(
            400,
            BAD_REQUEST,
            f"{limit}you requested {asked} output tokens and your prompt contains at least {prompt_tokens} input "
            f"tokens, for a total of at least {prompt_tokens + asked} tokens. Please reduce the length of the input "
            f"prompt or the number of requested output tokens. (parameter=input_tokens, value={prompt_tokens})",
            "input_tokens",
        )
    return Limits(
        max_tokens=room if asked is None else asked,
        min_tokens=min(room, body.get("min_tokens") or 0),
        ignore_eos=bool(body.get("ignore_eos")),
        stop=_read_stops(body),
    )


def _read_stops(body: Body) -> tuple[str, ...]:
    stops = body.get("stop") or body.get("stop_sequences") or []
    if isinstance(stops, str):
        stops = [stops]
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise invalid("string_type", "body.stop", "Input should be a valid string", stops)
    return tuple(stops)


def _check(body: Body, field: str, kind: str, optional: bool) -> None:
    value = body.get(field)
    if value is None and optional:
        return
    types, name, message = _KINDS[kind]
    # bool is a kind of int in Python, but not in JSON.
    if not isinstance(value, types) or (isinstance(value, bool) and kind in ("int", "float")):
        raise invalid(name, f"body.{field}", message, value)
