"""Errors in the two forms vLLM answers with: OpenAI's, and Anthropic's under /v1/messages."""

from typing import Any

import msgspec
from aiohttp import web

BAD_REQUEST = "BadRequestError"
NOT_FOUND = "NotFoundError"
SERVER_ERROR = "InternalServerError"
UNAVAILABLE = "Service Unavailable"
VALIDATION = "Bad Request"

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
"""What a request gets when the engine dies under it."""


class ApiError(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        kind: vLLM's name of the error, one of the constants of this module.
        message: what is wrong.
        param: the field that is wrong, if there is one.
    """

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """OpenAI's form."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}

    def response(self, path: str) -> web.Response:
        """The answer, in the form that belongs to the path."""
        body = self.body()
        if path.startswith("/v1/messages"):
            body = {"type": "error", "error": {"type": self.kind, "message": self.message}}
        return json_response(body, self.status)


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON answer, without the charset that aiohttp's own helper adds."""
    content = msgspec.json.encode(body)
    return web.Response(body=content, status=status, content_type="application/json", headers=headers)


def invalid(kind: str, location: str, message: str, value: Any, context: dict[str, str] | None = None) -> ApiError:
    """A body that does not fit the schema: `location` is where, as in "body.messages"."""
    shown = f"<dict of {len(value)} items>" if isinstance(value, dict) else value
    problem: dict[str, Any] = {"type": kind, "loc": location, "msg": message, "input": shown}
    if context:
        problem["ctx"] = context
    return ApiError(400, VALIDATION, f"1 validation error:\n  {problem}", location)


def engine_dead() -> ApiError:
    """The error of a request whose engine died."""
    return ApiError(500, SERVER_ERROR, ENGINE_DEAD)
