"""A client of one OpenAI endpoint that measures each answer: time to first token, tokens, what came from a cache."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from .text import code_text

Message = dict[str, str]
ANSWER_TIMEOUT = 1800.0
"""Seconds until a request is given up. An overloaded card takes minutes to a first token; that is a result."""
_PROBE_CHARACTERS = 4000


class EndpointError(RuntimeError):
    """The endpoint can't be measured; the message is one line that says what to do."""


@dataclass(frozen=True)
class Endpoint:
    """Where requests go. `url` ends without /v1; `model` is a served name."""

    url: str
    model: str
    api_key: str = ""


@dataclass(frozen=True)
class Answer:
    """One answer. Times are wall seconds since the request was sent, token counts the engine's own.

    Attributes:
        ttft: until the first piece of text, of reasoning or of a tool call; `seconds` if none came.
        cached_tokens: prompt tokens from the prefix cache; None if the engine does not tell
            (vLLM does with --enable-prompt-tokens-details).
        replica, decision: of the routing proxy's headers; empty elsewhere.
        error: empty, or why it is no whole answer.
    """

    ttft: float
    seconds: float
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    replica: str = ""
    decision: str = ""
    text: str = ""
    error: str = ""


def base_url(text: str) -> str:
    """Return an endpoint's URL without a trailing slash or /v1, which people give or leave out."""
    url = text.rstrip("/").removesuffix("/v1")
    return url if "://" in url else f"http://{url}"


class Client:
    """Sends chats to one endpoint. Use as an asynchronous context manager."""

    def __init__(self, endpoint: Endpoint, timeout: float = ANSWER_TIMEOUT, ignore_eos: bool = False) -> None:
        """`ignore_eos` makes answers as long as they may be; only vLLM knows it, so other endpoints may refuse it."""
        self.endpoint = endpoint
        self._extra = {"ignore_eos": True} if ignore_eos else {}
        self._timeout = timeout

    async def __aenter__(self) -> "Client":
        headers = {"Authorization": f"Bearer {self.endpoint.api_key}"} if self.endpoint.api_key else {}
        # No limit on connections: a burst must arrive as one.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=10),
            headers=headers,
            read_bufsize=2**20,
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._session.close()

    async def ask(self, messages: list[Message], max_tokens: int) -> Answer:
        """Stream one chat to its end. Never raises for what the endpoint does: that is in the answer's `error`."""
        body = json.dumps({
            "model": self.endpoint.model, "messages": messages, "max_tokens": max_tokens, "temperature": 0,
            "stream": True, "stream_options": {"include_usage": True}, **self._extra,
        }).encode()  # fmt: skip
        reading = _Reading(time.monotonic())
        try:
            url = f"{self.endpoint.url}/v1/chat/completions"
            async with self._session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
                reading.replica = response.headers.get("X-Fleet-Replica", "")
                reading.decision = response.headers.get("X-Fleet-Decision", "")
                if response.status != 200:
                    reading.error = f"{response.status}: {(await response.text())[:200].strip()}"
                else:
                    async for line in response.content:
                        reading.take(line)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            reading.error = reading.error or f"{type(error).__name__}: {error}"
        return reading.answer()

    async def models(self) -> list[str]:
        """Return the names of the served models; raise EndpointError if nobody answers so."""
        try:
            async with self._session.get(f"{self.endpoint.url}/v1/models") as response:
                if response.status == 401:
                    raise EndpointError(f"{self.endpoint.url} wants a key: set OPENAI_API_KEY")
                return [entry["id"] for entry in (await response.json())["data"]]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            cause = str(error) or type(error).__name__
            raise EndpointError(f"no OpenAI endpoint at {self.endpoint.url}/v1: {cause}") from error

    async def characters_per_token(self) -> float:
        """Measure how many characters of our text make a token here, with one request; raise EndpointError."""
        text = code_text(f"probe {time.time_ns()}", _PROBE_CHARACTERS)
        short, long = [await self.ask([{"role": "user", "content": part}], 1) for part in ("x", text)]
        if short.error or long.error:
            raise EndpointError(f"{self.endpoint.url} fails a first request: {short.error or long.error}")
        if long.prompt_tokens <= short.prompt_tokens:
            raise EndpointError(f"{self.endpoint.url} reports no prompt tokens in `usage`: prompts can't be sized")
        return _PROBE_CHARACTERS / (long.prompt_tokens - short.prompt_tokens)


class _Reading:
    """An answer while it arrives."""

    def __init__(self, sent: float) -> None:
        self.replica = self.decision = self.error = ""
        self._sent = sent
        self._first: float | None = None
        self._text: list[str] = []
        self._usage: dict[str, Any] = {}
        self._complete = False

    def take(self, line: bytes) -> None:
        """Read one line of the event stream."""
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            self._complete = True
            return
        event = json.loads(data)
        if "error" in event:
            self.error = f"error event: {json.dumps(event['error'])[:200]}"
            return
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices", ()):
            delta = choice.get("delta", {})
            # A thinking model's first token is one of its reasoning, which waits as long and is as visible.
            seen = [delta.get(key) for key in ("content", "reasoning", "reasoning_content", "tool_calls")]
            if any(seen) and self._first is None:
                self._first = time.monotonic()
            self._text.append(delta.get("content") or "")

    def answer(self) -> Answer:
        """Return what arrived, now that nothing follows."""
        seconds = time.monotonic() - self._sent
        details = self._usage.get("prompt_tokens_details") or {}
        error = self.error or ("" if self._complete else "cut before its end")
        return Answer(
            ttft=seconds if self._first is None else self._first - self._sent,
            seconds=seconds,
            prompt_tokens=self._usage.get("prompt_tokens") or 0,
            cached_tokens=details.get("cached_tokens"),
            output_tokens=self._usage.get("completion_tokens") or 0,
            replica=self.replica,
            decision=self.decision,
            text="".join(self._text),
            error=error,
        )


@asynccontextmanager
async def connect(url: str, model: str, api_key: str) -> AsyncIterator[Client]:
    """Yield a client whose model exists: `model`, or the only one served. Raise EndpointError otherwise."""
    async with Client(Endpoint(base_url(url), model, api_key)) as client:
        served = await client.models()
        if model and model not in served:
            raise EndpointError(f"{url} does not serve {model!r} but {', '.join(served)}")
        if not served:
            raise EndpointError(f"{url} serves no model")
        client.endpoint = Endpoint(client.endpoint.url, model or served[0], api_key)
        yield client
