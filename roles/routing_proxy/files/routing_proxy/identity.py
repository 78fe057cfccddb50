"""Who is asking: the identity of a request, read from its path, its session header and its body."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
from blake3 import blake3

from .canonical import DIGEST_BYTES, message_bytes, tools_digest
from .prefixes import MIN_BYTES, Prefix, Prefixes, Reading, Unlearned, cut, end_of, later

MESSAGE_DEPTH = 64
"""How many messages back a boundary may lie; a turn adds a few. Hashing 470 messages (400 kB) one by one takes 450 us,
the last 64 one by one and the rest at once 130 us: blake3 is fast only on kilobytes at a time."""

_LENGTH = re.compile(rb"(?<=[a-z]):[0-9]+:")
_LENGTHS_ROOM = 64

BLOCK_BYTES = 64
"""Distance of the boundaries in a completions prompt, which has no messages: about one block of vLLM's (16 tokens).
Prompts that share a template and differ in fewer bytes than this at their end are taken for one another."""

BLOCK_DEPTH = 256
"""How many blocks back a boundary may lie: a prompt may grow by 16 kB between two requests and still be recognised."""

_GENERATING = ("/chat/completions", "/messages", "/responses", "/completions", "/invocations")
_SYSTEM = ("system", "developer")
_ASKING = ("user", *_SYSTEM)
_STORED = re.compile(r"/v1/responses/([^/?#]+)")
_NO_SYSTEM = message_bytes({"role": "system", "content": ""})
_ANSWER_ID = re.compile(rb'"id"\s*:\s*"(resp_[^"\\]{1,200})"')


class Identity(msgspec.Struct, frozen=True):
    """What the router knows a request by. A field is None, empty or False when the request does not tell."""

    session: str | None = None
    """The session the client named: header X-Session-ID, else `prompt_cache_key` of the body."""
    response_id: str | None = None
    """The stored response that the request follows up, reads, cancels or deletes."""
    boundaries: tuple[bytes, ...] = ()
    """A digest after each message from the first user's on, over everything before it, oldest first; the last one is
    the whole list. The first and the last MESSAGE_DEPTH are there; () when the conversation cannot be identified."""
    root: bytes | None = None
    """The digest of tools, system and messages up to and including the first user's; None for a completions prompt."""
    prefix: bytes | None = None
    """The digest of the first `affinity_bytes` of the conversation, for ROUTING=affinity."""
    history: bool = False
    """Whether an answer or a tool call lies between the first user message and the last message."""
    asks: bool = False
    """Whether the model is to answer, of a request whose body was not read; of others `boundaries` tell."""


class _Request[Message](msgspec.Struct):
    """The fields that matter, of all APIs; the others are skipped unread. A wrong type is an unidentified request."""

    messages: list[Message] | None = None
    system: Any = None
    input: str | list[Message] | None = None
    instructions: Any = None
    prompt: msgspec.Raw = msgspec.Raw()
    tools: msgspec.Raw = msgspec.Raw()
    prompt_cache_key: str | None = None
    previous_response_id: str | None = None


_decode = msgspec.json.Decoder(_Request[dict[str, Any]]).decode
_decode_pieces = msgspec.json.Decoder(_Request[msgspec.Raw]).decode
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
_decode_prompt = msgspec.json.Decoder(str | list[str]).decode


def generates(method: str, path: str) -> bool:
    """Tell whether a request has the model answer; `path` may carry a query."""
    return method == "POST" and path.partition("?")[0].rstrip("/").endswith(_GENERATING)


def identify(
    method: str,
    path: str,
    session_header: str | None,
    body: bytes,
    affinity_bytes: int = 4096,
    prefixes: Prefixes | None = None,
) -> Identity:
    """Return the identity of a request; it never raises: what cannot be read is not identified.

    `path` may carry a query. `affinity_bytes` 0 leaves `prefix` out and saves its 4 us. Only requests that generate
    are read: counting tokens or embedding leaves nothing in a prefix cache. `prefixes` has what was read of earlier
    turns and changes no result: 400 kB then take 100 us instead of 550. `remember` must follow.
    """
    session = (session_header or "").strip() or None
    if not generates(method, path):
        stored = _STORED.search(path)
        return Identity(session, stored.group(1) if stored else None)
    if prefixes is None or len(body) < MIN_BYTES:
        return _read(body, None, session, affinity_bytes)
    prefix = prefixes.find(body)
    identity = _read_on(body, prefix, prefixes, session, affinity_bytes) if prefix is not None else None
    return identity or _read(body, prefixes, session, affinity_bytes)


def _read(body: bytes, prefixes: Prefixes | None, session: str | None, affinity_bytes: int) -> Identity:
    """Read a body from its start."""
    try:
        request = _decode(body)
        session = session or request.prompt_cache_key or None
        if request.previous_response_id:  # the input is only what is new: the conversation is in the replica's store
            return Identity(session, request.previous_response_id)
        messages = _messages(request)
        if messages is None:
            return _completion(bytes(request.prompt), session, affinity_bytes)
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        if not messages:
            return Identity(session)
        first, history = _opening(messages)
        tools, system = _before(request)
        text = _text(system, [message_bytes(message) for message in messages], first)
        chain = blake3(tools)
        boundaries, prefix = _boundaries(chain, text), _prefix(text, affinity_bytes)
        if prefixes is not None and history and _is_settled(messages[first], text, affinity_bytes):
            reading = Reading(_context(tools, system, affinity_bytes), chain, boundaries, prefix)
            prefixes.unlearned = Unlearned(body, reading)
    except _UNREADABLE:
        return Identity(session)
    return Identity(session, None, boundaries, boundaries[0], prefix, history)


def _read_on(
    body: bytes, prefix: Prefix, prefixes: Prefixes, session: str | None, affinity_bytes: int
) -> Identity | None:
    """Read a body that begins with `prefix` from there on; None if it has to be read from its start."""
    try:
        rest = cut(body, prefix.start, prefix.end)
        request = _decode(rest)
        messages = later(_messages(request))
        if messages is None or request.previous_response_id:
            return None
        tools, system = _before(request)
        if _context(tools, system, affinity_bytes) != prefix.reading.context:
            return None
        reading = prefix.reading
        if messages:
            reading = _go_on(reading, messages)
            prefixes.unlearned = Unlearned(body, reading, prefix, rest)
    except _UNREADABLE:
        return None
    boundaries = reading.boundaries
    return Identity(session or request.prompt_cache_key or None, None, boundaries, boundaries[0], reading.prefix, True)


def remember(prefixes: Prefixes) -> None:
    """Remember what `identify` has read, which the next turn will begin with; 320 us the first time for 400 kB.

    Apart from reading, so that the request need not wait for it.
    """
    unlearned, prefixes.unlearned = prefixes.unlearned, None
    if unlearned is None:
        return
    body, before = unlearned.body, unlearned.before
    with suppress(*_UNREADABLE):
        if before is None:
            pieces = _pieces(body)
            # Of the messages, or of something that looks like them: `later` will tell.
            at = start = body.find(bytes(pieces[0]))
        else:
            pieces = _pieces(unlearned.rest)[1:]
            start, at = before.start, body.find(b"{", before.end)
        end = end_of(body, at, pieces)
        if end is not None:
            prefixes.add(body, start, end, unlearned.reading, before)


def _pieces(body: bytes) -> list[msgspec.Raw]:
    """Return the JSON of each message of a body that was read and has a list of them."""
    pieces = _messages(_decode_pieces(body))
    return pieces if isinstance(pieces, list) else []


def response_id_in(chunk: bytes) -> str | None:
    """Return the id of a Responses answer, given the first bytes of its body or its first server-sent events."""
    found = _ANSWER_ID.search(chunk)
    return found.group(1).decode("latin-1") if found else None


def _messages[Message](request: _Request[Message]) -> list[Message] | str | None:
    """Return the messages of a chat or the input of a Responses request."""
    return request.input if request.messages is None else request.messages


def _text(system: bytes, parts: list[bytes], first: int) -> Sequence[bytes]:
    """Return the messages' bytes as `_boundaries` takes them, given the index of the one that opens."""
    opening = system + b"".join(parts[: first + 1])
    near = max(first + 1, len(parts) - MESSAGE_DEPTH)
    return opening, b"".join(parts[first + 1 : near]), *parts[near:]


def _is_settled(opening: dict[str, Any], text: Sequence[bytes], affinity_bytes: int) -> bool:
    """Tell whether messages that follow leave the root and the prefix as they are."""
    return opening.get("role") == "user" and sum(map(len, text)) >= affinity_bytes + _LENGTHS_ROOM


def _go_on(reading: Reading, messages: list[dict[str, Any]]) -> Reading:
    """Read the messages that follow those of a settled reading."""
    chain = reading.chain.copy()
    near = reading.boundaries[1:] + _digests(chain, map(message_bytes, messages))
    return replace(reading, chain=chain, boundaries=reading.boundaries[:1] + near[-MESSAGE_DEPTH:])


def _before(request: _Request[Any]) -> tuple[bytes, bytes]:
    """Return what comes before the messages: the digest of the tools, and the system prompt if it has a field."""
    system = request.system or request.instructions
    prompt = message_bytes({"role": "system", "content": system}) if system else _NO_SYSTEM
    return tools_digest(bytes(request.tools)), prompt


def _context(tools: bytes, system: bytes, affinity_bytes: int) -> tuple[bytes, int]:
    return blake3(tools + system).digest(DIGEST_BYTES), affinity_bytes


def _opening(messages: list[dict[str, Any]]) -> tuple[int, bool]:
    """Return the index of the message that opens the conversation, and whether there is history after it.

    The opening is the first user message; without one, the first that is not a system message, else the last.
    """
    roles = [message.get("role") for message in messages]
    if "user" in roles:
        first = roles.index("user")
    else:
        first = next((at for at, role in enumerate(roles) if role not in _SYSTEM), len(roles) - 1)
    # The last message is no history: it may be the beginning of an answer that the engine shall go on with.
    for role in roles[first + 1 : -1]:
        if role not in _ASKING:
            return first, True
    return first, False


def _completion(prompt: bytes, session: str | None, affinity_bytes: int) -> Identity:
    """Identify a completions request by the JSON of its prompt."""
    text = _prompt_text(prompt)
    if not text:
        return Identity(session)
    end = len(text) // BLOCK_BYTES * BLOCK_BYTES  # of the last whole block
    near = max(BLOCK_BYTES, end - BLOCK_BYTES * BLOCK_DEPTH)
    blocks = [text[at : at + BLOCK_BYTES] for at in range(near, end, BLOCK_BYTES)]
    boundaries = _boundaries(blake3(), (text[:BLOCK_BYTES], text[BLOCK_BYTES:near], *blocks))
    return Identity(session, None, boundaries, None, _prefix((text,), affinity_bytes))


def _prompt_text(prompt: bytes) -> bytes:
    """Return the text of a prompt, or its token ids as text; empty for several prompts: they are no conversation."""
    if prompt.startswith(b"["):
        tokens = prompt.translate(None, b" \t\r\n").strip(b"[]")
        if not tokens.translate(None, b"0123456789,"):
            return tokens
    prompts = _decode_prompt(prompt)
    text = prompts if isinstance(prompts, str) else prompts[0] if len(prompts) == 1 else ""
    return text.encode()


def _boundaries(chain: blake3, text: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the digests of the text up to each of its boundaries.

    `text` is the opening, what lies too far back for boundaries of its own, and the pieces that end at one.
    """
    opening, far, *near = text
    root = _digests(chain, [opening])
    chain.update(far)
    return root + _digests(chain, near)


def _digests(chain: blake3, pieces: Iterable[bytes]) -> tuple[bytes, ...]:
    """Add the pieces to the chain, and return its digest after each."""
    digests = []
    for piece in pieces:
        chain.update(piece)
        digests.append(chain.digest(DIGEST_BYTES))
    return tuple(digests)


def _prefix(text: Sequence[bytes], affinity_bytes: int) -> bytes | None:
    if not affinity_bytes:
        return None
    start, enough = b"", affinity_bytes + _LENGTHS_ROOM
    for piece in text:  # piece by piece: joining 400 kB for the sake of 4 takes 200 us
        start += piece[: enough - len(start)]
        if len(start) == enough:
            break
    # Without the messages' lengths: what comes after the window would change the hash through them.
    return blake3(_LENGTH.sub(b":", start)[:affinity_bytes]).digest(DIGEST_BYTES)
