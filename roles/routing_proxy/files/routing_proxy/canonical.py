"""The canonical bytes of a conversation: equal for equal prompts, however a client wrote its JSON.

What does not reach the prompt does not count: key order, white space and escapes; fields that are null, empty, false or
0 against absent ones; a text given as a string against the same text as the only part; and Anthropic's `cache_control`
markers (vLLM ignores them, and clients move them to the newest message on every turn). Images count as the text of
their URL; nothing is decoded.
"""

from functools import lru_cache
from typing import Any

import msgspec
from blake3 import blake3

DIGEST_BYTES = 16
"""Length of every digest: 128 bits, so that an accidental match is out of the question."""

_NOT_EXTRA = ("role", "content", "cache_control")
_TEXT_PARTS = ("text", "input_text", "output_text")
_MAX_CACHED_TOOLS = 256 * 1024

_encode = msgspec.json.Encoder(order="deterministic").encode


def message_bytes(message: dict[str, Any]) -> bytes:
    """Return the canonical bytes of one message of a chat, of Anthropic's API, or of one item of a Responses input.

    Concatenated messages stay distinguishable: the plain form carries its length, the other is JSON.
    """
    role, content = message.get("role"), message.get("content")
    if len(message) == 2 and isinstance(role, str) and isinstance(content, str):
        return _plain(role, content)  # most messages: 0.3 us; the rest take 1 to 3
    content = _content(content)
    extra = {key: value for key, value in message.items() if value and key not in _NOT_EXTRA}
    if extra.get("type") == "message":  # Responses: the type that is meant when an item has none
        del extra["type"]
    if not extra and isinstance(role, str) and isinstance(content, str):
        return _plain(role, content)
    return _encode([role, content, extra])


def _plain(role: str, content: str) -> bytes:
    return f"{role}:{len(content)}:{content}".encode()


def tools_digest(tools: bytes) -> bytes:
    """Return a digest of the JSON list of tools: the same for the same tools, and for none, null and []."""
    # Agents send the same 20-100 kB of tools with every request: canonical once, then found by their raw bytes.
    return _cached_tools_digest(tools) if len(tools) <= _MAX_CACHED_TOOLS else _tools_digest(tools)


def _tools_digest(tools: bytes) -> bytes:
    value = msgspec.json.decode(tools) if tools else None
    return blake3(_encode(_content(value))).digest(DIGEST_BYTES)


_cached_tools_digest = lru_cache(maxsize=16)(_tools_digest)


def _content(content: Any) -> Any:
    """Return a content (string, list of parts or null) with a single text part folded into its string."""
    if not isinstance(content, list):
        return content or ""
    parts = [_part(part) for part in content]
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else parts or ""


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    if part.get("type") in _TEXT_PARTS:
        return part.get("text")
    clean = {key: value for key, value in part.items() if value and key != "cache_control"}
    if "content" in clean:  # a tool result: its content is a string or a list of parts again
        clean["content"] = _content(clean["content"])
    return clean
