"""Identity of a conversation: its chain of boundaries, its root, its session and its prefix."""

import json
from typing import Any

import pytest
from routing_proxy.identity import MESSAGE_DEPTH, Identity, identify

CHAT = "/v1/chat/completions"


def chat(*messages: Any, **fields: Any) -> Identity:
    return identify("POST", CHAT, None, json.dumps({"messages": messages, **fields}).encode())


def system(text: str = "You are terse.") -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str = "hi") -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None = "hello", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def continues(later: Identity, earlier: Identity) -> bool:
    return earlier.boundaries[-1] in later.boundaries[:-1]


def test_a_boundary_follows_each_message_from_the_first_users_on() -> None:
    assert len(chat(system(), user()).boundaries) == 1
    assert len(chat(system(), system(), user(), assistant(), user("more")).boundaries) == 3


def test_the_next_turn_continues_the_turn_before_it() -> None:
    first = chat(system(), user())
    second = chat(system(), user(), assistant(), user("more"))
    assert continues(second, first)
    assert continues(chat(system(), user(), assistant(), user("more"), assistant(), user("last")), second)


def test_an_edited_last_message_and_a_fork_share_all_earlier_boundaries() -> None:
    base = [system(), user(), assistant(), user("a"), assistant("b")]
    left, right = chat(*base, user("left")), chat(*base, user("right"))
    assert left.boundaries[:-1] == right.boundaries[:-1]
    assert left.boundaries[-1] != right.boundaries[-1]


@pytest.mark.parametrize(
    "changed",
    [
        [system("You are verbose."), user(), assistant(), user("more")],
        [system(), user("ho"), assistant(), user("more")],
        [user(), assistant(), user("more")],
        [system(), assistant("hi"), assistant(), user("more")],
    ],
    ids=["system", "user", "no system", "role"],
)
def test_anything_that_changes_the_prompt_before_a_boundary_changes_the_boundary(changed: list[Any]) -> None:
    assert not continues(chat(*changed), chat(system(), user()))


def test_messages_cannot_run_into_each_other() -> None:
    assert chat(user("a"), user("b")).boundaries[-1] != chat(user("aub")).boundaries[-1]
    for joined in ("auser:b", "auser:1:b", 'a["user","b"]'):
        assert chat(user("a"), user("b")).boundaries[-1] != chat(user(joined)).boundaries[-1]
    assert chat(user("ab"), user("c")).boundaries[-1] != chat(user("a"), user("bc")).boundaries[-1]


def test_the_root_is_the_conversation_up_to_its_first_user_message() -> None:
    fresh = chat(system(), user())
    assert fresh.root == fresh.boundaries[0] == fresh.boundaries[-1]
    assert chat(system(), user(), assistant(), user("more")).root == fresh.root
    assert chat(system(), assistant("Welcome."), user()).root != fresh.root


def test_a_long_conversation_keeps_its_root_and_its_last_boundaries() -> None:
    turns = [message for i in range(200) for message in (user(f"q{i}"), assistant(f"a{i}"))]
    long = chat(*turns)
    assert len(long.boundaries) == 1 + MESSAGE_DEPTH
    assert long.root == chat(turns[0]).root
    near, far = chat(*turns[:-MESSAGE_DEPTH]), chat(*turns[: -MESSAGE_DEPTH - 1])
    assert not continues(long, near)
    assert not continues(long, far)
    assert continues(long, chat(*turns[: -MESSAGE_DEPTH + 1]))


@pytest.mark.parametrize(
    ("messages", "history"),
    [
        ([user()], False),
        ([system(), user()], False),
        ([system(), user("a document"), user("a question")], False),
        ([user(), {"role": "developer", "content": "Hurry."}, system(), user()], False),
        ([system(), assistant("Welcome, what can I do?"), user()], False),
        ([system(), user(), assistant("{")], False),
        ([system(), user(), assistant(), user()], True),
        ([user(), assistant(None, tool_calls=[{"id": "c"}]), {"role": "tool", "content": "4"}], True),
        ([system()], False),
        ([system(), assistant(), {"role": "tool", "content": "4"}, assistant()], True),
    ],
    ids=["user", "system", "two users", "late system", "greeting", "prefill", "turn", "tool", "only system", "no user"],
)
def test_history_is_an_answer_between_the_first_user_and_the_last_message(messages: list[Any], history: bool) -> None:
    assert chat(*messages).history is history


def test_a_conversation_without_a_user_has_turns_too() -> None:
    assert len(chat(system(), system()).boundaries) == 1
    first = chat(system(), {"role": "developer", "content": "x"}, assistant(), {"role": "tool", "content": "4"})
    assert len(first.boundaries) == 2
    second = chat(
        system(), {"role": "developer", "content": "x"}, assistant(), {"role": "tool", "content": "4"}, assistant("a")
    )
    assert continues(second, first)


# Sessions


def test_the_header_names_the_session_before_the_body() -> None:
    body = json.dumps({"messages": [user()], "prompt_cache_key": "body"}).encode()
    assert identify("POST", CHAT, " header ", body).session == "header"
    assert identify("POST", CHAT, None, body).session == "body"
    assert identify("POST", CHAT, "", body).session == "body"
    assert chat(user(), prompt_cache_key="").session is None


def test_a_session_is_known_even_when_the_body_is_not() -> None:
    assert identify("POST", CHAT, "s", b"{") == Identity("s")
    assert identify("GET", "/v1/models", "s", b"") == Identity("s")


# Affinity


def test_the_prefix_is_the_first_bytes_of_the_conversation() -> None:
    long = "x" * 5000
    assert chat(system(long), user("a")).prefix == chat(system(long), user("b")).prefix
    assert chat(user(long), assistant(), user()).prefix == chat(user(long)).prefix
    assert chat(system(long), user(), tools=[{"name": "f"}]).prefix == chat(system(long), user()).prefix


def test_what_comes_after_the_window_does_not_change_the_prefix() -> None:
    assert chat(user("x" * 5000)).prefix == chat(user("x" * 5000 + "y" * 70_000)).prefix
    assert chat(system("x" * 100), user("x" * 5000)).prefix == chat(system("x" * 100), user("x" * 50_000)).prefix
    assert chat(user("x" * 3000)).prefix != chat(user("x" * 3001)).prefix


def test_a_prefix_shorter_than_the_window_differs_with_every_turn() -> None:
    assert chat(user("a")).prefix != chat(user("a"), assistant(), user()).prefix


def test_the_window_can_be_set_or_left_out() -> None:
    def prefix(affinity_bytes: int, last: str) -> bytes | None:
        body = json.dumps({"messages": [user("x" * 100), user("y" * 100 + last)]}).encode()
        return identify("POST", CHAT, None, body, affinity_bytes).prefix

    assert prefix(50, "a") == prefix(50, "b")
    assert prefix(150, "a") == prefix(150, "b")
    assert prefix(300, "a") != prefix(300, "b")
    assert prefix(0, "a") is None
