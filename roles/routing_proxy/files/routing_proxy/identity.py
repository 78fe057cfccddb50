"""Who is asking: the identity of a request, read from its path, its session header and its body."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from blake3 import blake3

_RESPONSE_PATH = re.compile(r"/v1/responses/([^/?]+)")
_RESPONSE_ID = re.compile(rb'"id"\s*:\s*"(resp_[^"\\]{1,200})"')


@dataclass(frozen=True, slots=True)
class Identity:
    """What the router knows a request by; every field is empty when the request does not tell."""

    session: str | None = None
    response_id: str | None = None
    boundaries: tuple[bytes, ...] = ()
    root: bytes | None = None
    prefix: bytes | None = None


def identify(method: str, path: str, session_header: str | None, body: bytes, affinity_bytes: int = 4096) -> Identity:
    """Return the identity of a request; never raises."""
    session = session_header or None
    match = _RESPONSE_PATH.match(path)
    response_id = match.group(1) if match else None
    try:
        request: Any = msgspec.json.decode(body) if body else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        request = {}
    if not isinstance(request, dict):
        request = {}
    key = request.get("prompt_cache_key")
    if session is None and isinstance(key, str) and key:
        session = key
    previous = request.get("previous_response_id")
    if isinstance(previous, str) and previous:
        response_id = previous
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        return Identity(session, response_id)
    digest = b""
    text = b""
    boundaries = []
    opened = False
    for message in messages:
        raw = msgspec.json.encode(message, order="deterministic")
        text += raw
        digest = blake3(digest + raw).digest()[:16]
        opened = opened or message.get("role") not in ("system", "developer")
        if opened:
            boundaries.append(digest)
    boundaries = boundaries or [digest]
    prefix = blake3(text[:affinity_bytes]).digest()[:16]
    return Identity(session, response_id, tuple(boundaries), boundaries[0], prefix)


def response_id_in(chunk: bytes) -> str | None:
    """Return the id of a Responses answer from the first bytes of its body or its first server-sent events."""
    found = _RESPONSE_ID.search(chunk)
    return found.group(1).decode("latin-1") if found else None
