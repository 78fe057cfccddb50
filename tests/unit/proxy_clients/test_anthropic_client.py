"""Anthropic's library, unchanged, through the proxy: messages whole and streamed, token counts, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anthropic
import pytest
from replay_engine import ReplayEngine

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture
def client(base_url: str, engine: ReplayEngine) -> Iterator[anthropic.Anthropic]:
    """A client that never retries: a failure must show."""
    with anthropic.Anthropic(base_url=base_url, api_key="sk-fleet", max_retries=0, timeout=10) as client:
        yield client


def test_message(client: anthropic.Anthropic, engine: ReplayEngine) -> None:
    answer = client.messages.create(model="frank-medium", max_tokens=6, system="be brief", messages=MESSAGES)
    assert [block.text for block in answer.content if block.type == "text"] == [" al al"]
    assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 6)
    assert json.loads(engine.asked[0].body)["system"] == "be brief"


def test_the_engine_is_asked_the_same_as_without_a_proxy(client: anthropic.Anthropic, engine: ReplayEngine) -> None:
    for ask in (client, client.copy(base_url=engine.url)):
        ask.messages.create(model="frank-medium", max_tokens=6, messages=MESSAGES)
    proxied, direct = engine.asked
    assert proxied.body == direct.body
    assert proxied.end_to_end_headers() == direct.end_to_end_headers()
    assert "anthropic-version" in direct.headers


def test_message_stream(client: anthropic.Anthropic) -> None:
    with client.messages.stream(model="frank-medium", max_tokens=6, messages=MESSAGES) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert pieces == [" al", " al"]
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 6)


def test_count_tokens(client: anthropic.Anthropic) -> None:
    assert client.messages.count_tokens(model="frank-medium", messages=MESSAGES).input_tokens == 13


def test_engine_errors_keep_their_type(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="The model `nope` does not exist"):
        client.messages.create(model="nope", max_tokens=6, messages=MESSAGES)
