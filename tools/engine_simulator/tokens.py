"""A tokenizer stand-in: four bytes of UTF-8 are one token, and a chat is text in the ChatML template. Pure.

What a router and a prefix cache need of a tokenizer holds: the same text gives the same tokens, a longer conversation
starts with the tokens of the shorter one, and `detokenize(tokenize(text)) == text`. English and code have close to four
characters per token in the real tokenizer too, so lengths are of the right size.

A prompt is kept as bytes, four per token (the last token of each piece of text is padded), because hashing and slicing
100k tokens of bytes is cheap where a list of integers is not.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

TOKEN_BYTES = 4
"""Bytes of UTF-8 in one token."""
_TEXT_TOKEN = 1 << 32
"""Added to the number of a text token, so that it can't be mistaken for a special one."""
_SPECIAL = {"<|im_start|>": 151_644, "<|im_end|>": 151_645}
_SPECIAL_TEXT = {number: text for text, number in _SPECIAL.items()}


@dataclass(frozen=True)
class Prompt:
    """A tokenized prompt: `data` holds TOKEN_BYTES bytes for each token."""

    data: bytes

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return len(self.data) // TOKEN_BYTES

    @cached_property
    def digest(self) -> str:
        """A name for this very prompt: 16 hexadecimal digits."""
        return hashlib.blake2b(self.data, digest_size=8).hexdigest()

    def token_ids(self) -> list[int]:
        """The prompt as token numbers, as /tokenize returns them."""
        chunks = (self.data[i : i + TOKEN_BYTES] for i in range(0, len(self.data), TOKEN_BYTES))
        return [_token_id(chunk) for chunk in chunks]


def text_prompt(text: str) -> Prompt:
    """Tokenize plain text."""
    return Prompt(_pad(text))


def ids_prompt(token_ids: Iterable[int]) -> Prompt:
    """Make a prompt of token numbers, known ones or any other."""
    return Prompt(b"".join((number % _TEXT_TOKEN).to_bytes(TOKEN_BYTES, "big") for number in token_ids))


def detokenize(token_ids: Iterable[int]) -> str:
    """The text of token numbers; numbers that no text has become U+FFFD."""
    parts: list[bytes] = []
    for number in token_ids:
        if number in _SPECIAL_TEXT:
            parts.append(_SPECIAL_TEXT[number].encode())
        elif _TEXT_TOKEN <= number < 2 * _TEXT_TOKEN:
            parts.append((number - _TEXT_TOKEN).to_bytes(TOKEN_BYTES, "big").rstrip(b"\0"))
        else:
            parts.append("\ufffd".encode())
    return b"".join(parts).decode(errors="replace")


def chat_prompt(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None, answer_follows: bool = True
) -> Prompt:
    """Tokenize a conversation.

    Args:
        messages: chat messages in OpenAI's form; content may be text, a list of parts, or null.
        tools: tool definitions, which the template puts before the first message.
        answer_follows: whether the assistant's turn is opened at the end.
    """
    data = bytearray()
    if tools:
        data += _turn("system", "# Tools\n" + json.dumps(tools, sort_keys=True))
    for message in messages:
        data += _turn(str(message.get("role", "user")), _message_text(message))
    if answer_follows:
        data += _special("<|im_start|>") + _pad("assistant\n")
    return Prompt(bytes(data))


def content_text(content: Any) -> str:
    """The text of a message's content, in whichever of the legal forms; anything but text keeps its place as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content, sort_keys=True)
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        texts.append(text if isinstance(text, str) else json.dumps(part, sort_keys=True))
    return "".join(texts)


def _message_text(message: Mapping[str, Any]) -> str:
    text = content_text(message.get("content"))
    if message.get("tool_calls"):
        text += json.dumps(message["tool_calls"], sort_keys=True)
    return text


def _turn(role: str, text: str) -> bytes:
    # Text starts on a token of its own, so an answer has the same tokens when it is generated and when it is sent back.
    return _special("<|im_start|>") + _pad(role + "\n") + _pad(text) + _special("<|im_end|>") + _pad("\n")


def _special(text: str) -> bytes:
    return _SPECIAL[text].to_bytes(TOKEN_BYTES, "big")


def _pad(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return data + bytes(-len(data) % TOKEN_BYTES)


def _token_id(chunk: bytes) -> int:
    number = int.from_bytes(chunk, "big")
    return number if number in _SPECIAL_TEXT else number + _TEXT_TOKEN
