"""The proxy's own errors, in the form that the clients of each API expect."""

import msgspec

from .routes import Api

# For a fleet that is down: a replica's restart takes minutes, but a proxy that just started knows more within seconds.
RETRY_AFTER_SECONDS = 5
# The names OpenAI's and Anthropic's servers give to errors of these codes.
_TYPES = {
    400: ("invalid_request_error", "invalid_request_error"),
    403: ("permission_error", "permission_error"),
    413: ("invalid_request_error", "request_too_large"),
    431: ("invalid_request_error", "invalid_request_error"),
    502: ("server_error", "api_error"),
    503: ("server_error", "overloaded_error"),
}


def body(api: Api, status: int, message: str) -> bytes:
    """Return the JSON body of an error."""
    openai, anthropic = _TYPES[status]
    if api is Api.ANTHROPIC:
        return msgspec.json.encode({"type": "error", "error": {"type": anthropic, "message": message}})
    return msgspec.json.encode({"error": {"message": message, "type": openai, "param": None, "code": status}})


def event(api: Api, message: str) -> bytes:
    """Return a server-sent event that tells a client that the stream it is reading broke."""
    if api is Api.ANTHROPIC:
        return b"event: error\ndata: " + body(api, 502, message) + b"\n\n"
    if api is Api.RESPONSES:
        data = {"type": "error", "code": "server_error", "message": message, "param": None}
        return b"event: error\ndata: " + msgspec.json.encode(data) + b"\n\n"
    return b"data: " + body(api, 502, message) + b"\n\n"
