"""The tokenizer stand-in: prefixes stay prefixes, text survives, an answer has the same tokens when it comes back."""

from typing import Any

from engine_simulator.tokens import Prompt, chat_prompt, content_text, detokenize, ids_prompt, text_prompt
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXT}))


@given(TEXT)
def test_four_bytes_are_a_token(text: str) -> None:
    assert text_prompt(text).tokens == -(-len(text.encode()) // 4)


@given(TEXT)
def test_text_survives(text: str) -> None:
    assert detokenize(text_prompt(text).token_ids()) == text


@given(TEXT)
def test_token_numbers_make_the_same_prompt(text: str) -> None:
    assert ids_prompt(text_prompt(text).token_ids()) == text_prompt(text)


def test_numbers_of_another_tokenizer_are_tokens_too() -> None:
    assert ids_prompt([0, 7, 151_643]).tokens == 3
    assert detokenize([7]) == "\ufffd"


@given(MESSAGES, MESSAGES)
def test_a_longer_conversation_starts_with_the_shorter_one(first: list[Any], more: list[Any]) -> None:
    shorter = chat_prompt(first, answer_follows=False)
    assert chat_prompt(first + more).data.startswith(shorter.data)


@given(MESSAGES, TEXT)
def test_an_answer_has_the_same_tokens_when_it_comes_back(messages: list[Any], answer: str) -> None:
    generated = chat_prompt(messages).data + text_prompt(answer).data
    sent_back = chat_prompt([*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": "?"}])
    assert sent_back.data.startswith(generated)


def test_what_changes_the_prompt_changes_its_digest() -> None:
    message = {"role": "user", "content": "a"}
    prompts = [
        chat_prompt([message]),
        chat_prompt([message | {"role": "system"}]),
        chat_prompt([message | {"content": "b"}]),
        chat_prompt([message], tools=[{"name": "f"}]),
        chat_prompt([message | {"tool_calls": [{"id": "1"}]}]),
    ]
    assert len({prompt.digest for prompt in prompts}) == len(prompts)


def test_content_in_any_form() -> None:
    assert content_text(None) == content_text([]) == ""
    assert content_text([{"type": "text", "text": "a"}, "b"]) == "ab"
    assert "cat.png" in content_text([{"type": "image_url", "image_url": {"url": "cat.png"}}])


def test_special_tokens_are_one_token_each() -> None:
    opening = chat_prompt([])
    assert opening.tokens == 1 + text_prompt("assistant\n").tokens
    assert detokenize(opening.token_ids()) == "<|im_start|>assistant\n"
    assert Prompt(b"").tokens == 0
