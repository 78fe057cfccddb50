"""The openai library, unchanged, through the proxy: every API it speaks to vLLM, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest
from replay_engine import ReplayEngine, recorded

MESSAGES = [{"role": "user", "content": "hello"}]
CHAT_TEXT = json.loads(recorded("chat").body)["choices"][0]["message"]["content"]
COMPLETION_TEXT = json.loads(recorded("completion").body)["choices"][0]["text"]


@pytest.fixture
def client(base_url: str, engine: ReplayEngine) -> Iterator[openai.OpenAI]:
    """A client that never retries: a failure must show."""
    with openai.OpenAI(base_url=f"{base_url}/v1", api_key="sk-fleet", max_retries=0, timeout=10) as client:
        yield client


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["frank-medium"]


def test_chat(client: openai.OpenAI, engine: ReplayEngine) -> None:
    answer = client.chat.completions.create(model="frank-medium", messages=MESSAGES)
    assert answer.choices[0].message.content == CHAT_TEXT
    assert answer.usage and answer.usage.total_tokens == 36
    assert json.loads(engine.asked[0].body) == {"model": "frank-medium", "messages": MESSAGES}


def test_the_engine_is_asked_the_same_as_without_a_proxy(client: openai.OpenAI, engine: ReplayEngine) -> None:
    for ask in (client, client.copy(base_url=f"{engine.url}/v1")):
        ask.chat.completions.create(model="frank-medium", messages=MESSAGES, extra_body={"top_k": 5})
    proxied, direct = engine.asked
    assert proxied.body == direct.body
    assert proxied.end_to_end_headers() == direct.end_to_end_headers()
    assert direct.headers["authorization"] == "Bearer sk-fleet"


def test_chat_names_its_replica(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model="frank-medium", messages=MESSAGES)
    assert raw.headers["x-fleet-replica"] == "stub"
    assert raw.headers["x-fleet-decision"] in ("pinned", "spread")


def test_chat_stream(client: openai.OpenAI) -> None:
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model="frank-medium", messages=MESSAGES, stream=True, stream_options=options
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "TY['ffe dayaxTY"
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == 6


def test_chat_stream_with_keep_alive_comments(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(model="slow-prefill", messages=MESSAGES, stream=True)
    assert [chunk.object for chunk in stream if chunk.choices]


def test_completion(client: openai.OpenAI) -> None:
    assert client.completions.create(model="frank-medium", prompt="a b").choices[0].text == COMPLETION_TEXT


def test_completion_stream(client: openai.OpenAI) -> None:
    stream = client.completions.create(model="frank-medium", prompt="a b", stream=True)
    assert [chunk.choices[0].text for chunk in stream] == ["cii", "cii", "cii", "fe", "fe", "", "\ufffdcii", "cii"]


def test_responses(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="frank-medium", input="hello")
    assert (answer.id, answer.output_text) == ("resp_8d8837ef602787cc", " al al")


def test_responses_stream(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="frank-medium", input="hello", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == " al al"
    assert events[-1].type in ("response.completed", "response.incomplete")


def test_engine_errors_keep_their_type(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="The model `nope` does not exist"):
        client.chat.completions.create(model="nope", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="maximum context length is 16384 tokens"):
        client.chat.completions.create(model="too-long", messages=MESSAGES, stream=True)


def test_developer_route_is_refused_in_the_form_the_client_reads(client: openai.OpenAI, engine: ReplayEngine) -> None:
    with pytest.raises(openai.PermissionDeniedError):
        client.post("/../reset_prefix_cache", cast_to=object)
    assert engine.asked == []
