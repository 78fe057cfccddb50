"""Identity read on from a remembered prefix: for any bodies, the same as if each were read from its start."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from routing_proxy import identity
from routing_proxy.identity import identify, remember
from routing_proxy.prefixes import MIN_BYTES, Prefixes

CHAT = "/v1/chat/completions"
PATHS = (CHAT, "/v1/messages", "/v1/responses", "/v1/completions", "/v1/embeddings")
LONG = "word " * (MIN_BYTES // 5)
TOOLS = [{"type": "function", "function": {"name": "f", "description": '[{"messages":[{"role":"user"}]}]'}}]


def message(role: str, content: Any = "hi") -> dict[str, Any]:
    return {"role": role, "content": content}


START = [message("system", LONG), message("user"), message("assistant"), message("user", "and? " * 600)]
NEXT = [message("assistant", "so " * 700), message("user", "thanks")]


def body(messages: Any, before: Any = None, after: Any = None, name: str = "messages", **style: Any) -> bytes:
    """The JSON of a request with some fields before its messages and some after them; each a list of pairs."""
    members = [*(before or []), (name, messages), *(after or [])]
    comma, colon = style.get("separators") or (", ", ": ")
    pairs = (json.dumps(key) + colon + json.dumps(value, **style) for key, value in members)
    return ("{" + comma.join(pairs) + "}").encode(errors="surrogatepass")


def same(bodies: list[bytes], path: str = CHAT, affinity: tuple[int, ...] = (4096,)) -> None:
    """Assert that remembering changes nothing for these bodies, sent one after another."""
    prefixes = Prefixes()
    for number, one in enumerate(bodies):
        window = affinity[number % len(affinity)]
        for _ in range(2):  # a client that tries again sends the same bytes
            plain = identify("POST", path, None, one, window)
            assert identify("POST", path, None, one, window, prefixes) == plain
            remember(prefixes)


TURN = body(START)
FIRST, ANSWER, LAST = message("user", LONG), START[2], START[3]
MANY = [turn for number in range(40) for turn in (message("assistant", f"a{number}"), message("user", f"q{number}"))]
CASES: dict[str, list[bytes]] = {
    "turns": [body([*START, *NEXT * turns]) for turns in range(4)],
    "many messages": [body([*START, *MANY[:end]]) for end in (10, 50, 58, 60, 62, 64, 80)],
    "a prefill": [TURN, body([*START, NEXT[0]]), body([*START, *NEXT])],
    "an answer to a prefill": [body([*START, NEXT[0]]), body([*START, NEXT[0], message("system")])],
    "forks": [TURN, body([*START, *NEXT]), body([*START, NEXT[0], message("user", "no")]), body([*START, *NEXT * 2])],
    "forks from the last block on": [
        TURN,
        *(body([*START, message("assistant", text * 700)]) for text in ("so", "no")),
    ],
    "edited before": [TURN, body([message("system", "W" + LONG[1:]), *START[1:], *NEXT])],
    "edited in the last block": [TURN, body([*START[:3], message("user", "or?"), *NEXT])],
    "other tools before": [body(START, [("tools", TOOLS)]), body([*START, *NEXT], [("tools", [])])],
    "other tools after": [body(START, after=[("tools", TOOLS)]), body([*START, *NEXT], after=[("tools", TOOLS * 2)])],
    "tools on top": [body(START, [("tools", TOOLS)]), body([*START, *NEXT], [("tools", TOOLS)], [("tools", [])])],
    "a system prompt after": [TURN, body([*START, *NEXT], after=[("system", "Be kind.")])],
    "instructions after": [TURN, body([*START, *NEXT], after=[("instructions", "Be kind.")])],
    "a session after": [TURN, body([*START, *NEXT], after=[("prompt_cache_key", "a")])],
    "a session before": [body([*START, *NEXT[:end]], [("prompt_cache_key", "a")]) for end in (0, 1, 2)],
    "a response to follow": [TURN, body([*START, *NEXT], after=[("previous_response_id", "resp_1")])],
    "wrong types after": [TURN, body([*START, *NEXT], after=[("prompt_cache_key", 7)])],
    "other messages after": [TURN, body([*START, *NEXT], after=[("messages", [START[0], *NEXT, *NEXT])])],
    "no messages after": [TURN, *(body([*START, *NEXT], after=[("messages", none)]) for none in (None, []))],
    "messages replaced": [body(START, [("messages", [*START, *NEXT])]), body([*START, *NEXT], [("messages", START)])],
    "messages twice": [body(START, after=[("messages", START)]), body([*START, *NEXT])],
    "messages in the metadata": [
        body([*START, *NEXT[:end]], [("metadata", {"messages": [*START, *NEXT, *NEXT]})]) for end in (0, 1, 2)
    ],
    "messages in the tools": [body([*START, *NEXT[:end]], [("tools", [{"messages": START}])]) for end in (0, 1, 2)],
    "messages turned to a number": [TURN, TURN[:-2] + b", 7]}", TURN[:-2] + b", {}]}", TURN[:-2] + b", null]}"],
    "cut off": [TURN, TURN[:-1], TURN[:-2], TURN[:-3], TURN[:-2] + b",", TURN[:-2] + b", {", TURN + b"}"],
    "no UTF-8": [TURN, TURN[:-2] + b', {"role": "user", "content": "\xff"}]}'],
    "no UTF-8 in what does not count": [
        body(START, after=[("input", START)]),
        body(START, after=[("input", START)])[:-4] + b'\xff"}]}',
        body(START, after=[("input", START)])[:-4] + b'\xff"}], "input": null}',
    ],
    "half a surrogate": [TURN, body([*START, message("assistant", "\ud83d"), NEXT[1]])],
    "odd spaces": [TURN.replace(b"}, {", b"},  {", 1), body([*START, *NEXT]).replace(b"}, {", b"},  {", 1)],
    "odd spaces as long as what follows": [
        body(START, after=[("metadata", [{}, message("user")])]).replace(b"}, {", b"},          {", 1)
    ],
    "odd spaces later": [
        TURN,
        body([*START, *NEXT]).replace(b"}, {", b"}\n,{"),
        TURN[:-2] + b',\t{"role":"assistant"} ,{"role":"user"}]}',
        TURN[:-2] + b',\t{"role":"assistant"} ,{"role":"user"},{"role":"user"}]}',
    ],
    "without a user at first": [
        body([START[0], message("assistant"), message("tool"), message("assistant"), *NEXT[:end]]) for end in (0, 1, 2)
    ],
    "three lists": [
        body([LAST], [("messages", [FIRST]), ("messages", [ANSWER])], [("messages", [FIRST, ANSWER, LAST])]),
        body([LAST], [("messages", [FIRST]), ("messages", [ANSWER])]),
        body([LAST, *NEXT], [("messages", [FIRST]), ("messages", [ANSWER])]),
    ],
    "an input": [body([*START, *NEXT[:end]], name="input") for end in (0, 1, 2)],
    "messages after an input": [
        body(START, name="input"),
        *(body([*START, *NEXT], after=[("messages", more)], name="input") for more in (NEXT, None, [], "no")),
    ],
    "a text after an input": [
        body(START, name="input"),
        body([*START, *NEXT], after=[("input", "hi")], name="input"),
    ],
    "an input after messages": [TURN, *(body([*START, *NEXT], after=[("input", more)]) for more in (NEXT, [], 7))],
}


@pytest.mark.parametrize("bodies", CASES.values(), ids=CASES)
@pytest.mark.parametrize("affinity", [(4096,), (0, 4096), (len(LONG) + 3050,), (12_000,)], ids=str)
def test_a_remembered_prefix_changes_nothing(bodies: list[bytes], affinity: tuple[int, ...]) -> None:
    same(bodies, affinity=affinity)


def test_the_next_turn_is_not_read_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = Prefixes()
    bodies = [body([*START, *MANY[:end]], [("model", "m")], [("tools", TOOLS)]) for end in range(0, 80, 2)]
    expected = [identify("POST", CHAT, None, one) for one in bodies]
    assert identify("POST", CHAT, None, bodies[0], prefixes=prefixes) == expected[0]
    remember(prefixes)
    monkeypatch.setattr(identity, "_read", lambda *_: pytest.fail("read from its start"))
    for one, wanted in zip(bodies, expected, strict=True):
        assert identify("POST", CHAT, None, one, prefixes=prefixes) == wanted
        remember(prefixes)


def test_a_turn_does_not_displace_the_one_before() -> None:
    prefixes = Prefixes()
    for one in (TURN, body([*START, *NEXT])):
        identify("POST", CHAT, None, one, prefixes=prefixes)
        remember(prefixes)
    assert prefixes.find(TURN) is not None


def test_the_oldest_prefixes_are_dropped() -> None:
    prefixes = Prefixes(max_prefixes=2)
    bodies = [body([*START, message("assistant", f"{number}" * MIN_BYTES)]) for number in range(3)]
    for one in bodies:
        identify("POST", CHAT, None, one, prefixes=prefixes)
        remember(prefixes)
    assert [prefixes.find(one) is not None for one in bodies] == [False, True, True]


def test_a_conversation_that_goes_on_is_not_the_oldest() -> None:
    prefixes = Prefixes(max_prefixes=2)
    other = [body([*START, message("assistant", f"{number}" * MIN_BYTES)]) for number in range(2)]
    for one in (TURN, other[0], body([*START, message("assistant")]), other[1]):
        identify("POST", CHAT, None, one, prefixes=prefixes)
        remember(prefixes)
    assert prefixes.find(body([*START, message("assistant")])) is not None


def test_what_has_no_history_or_is_short_is_not_remembered() -> None:
    prefixes = Prefixes()
    for one in (body(START[:2]), body(START[1:])):
        identify("POST", CHAT, None, one, 0, prefixes)
        remember(prefixes)
        assert prefixes.find(one) is None


roles = st.sampled_from(["system", "user", "assistant", "tool"])
texts = st.builds(
    lambda text, times: text * times,
    st.sampled_from(["hi", "é\0\n", "😀", '"}, {"role": "user", "content": "', "\\", '], "tools": [', "{"])
    | st.text(max_size=9),
    st.sampled_from([1, 1, 40, 700]),
)
parts = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=2)
messages = st.builds(message, roles, texts | parts | st.none()) | st.sampled_from([START[1], NEXT[0]])
fields = st.lists(
    st.sampled_from(
        [
            ("tools", TOOLS),
            ("tools", None),
            ("tools", [*TOOLS, {"messages": START}]),
            ("system", "Be kind."),
            ("system", [{"type": "text", "text": LONG}]),
            ("instructions", "Be brief."),
            ("prompt_cache_key", "a"),
            ("prompt_cache_key", 7),
            ("previous_response_id", "resp_1"),
            ("input", "hi"),
            ("input", [*START, *NEXT]),
            ("messages", START),
            ("messages", [START[0], *NEXT]),
            ("messages", []),
            ("messages", None),
            ("metadata", {"messages": START}),
            ("metadata", json.dumps(START)),
        ]
    ),
    max_size=2,
)
styles = st.sampled_from(
    [{}, {}, {}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}, {"sort_keys": True}]
)


@st.composite
def sequences(draw: st.DrawFn) -> list[bytes]:
    """Bodies as a few clients would send them in turn: most go on with the one before, some do anything else."""
    conversation = [*START[: draw(st.integers(0, 4))], *draw(st.lists(messages, max_size=2))]
    before, after, style = draw(fields), draw(fields), draw(styles)
    name = draw(st.sampled_from(["messages", "messages", "input"]))
    bodies = []
    for _ in range(draw(st.integers(2, 6))):
        change = draw(st.sampled_from(["no", "no", "no", "edit", "back", "before", "after", "style"]))
        at = draw(st.integers(0, len(conversation)))
        if change == "edit":
            conversation = [*conversation[:at], draw(messages), *conversation[at + 1 :]]
        elif change == "back":
            conversation = conversation[:at]
        elif change == "before":
            before = draw(fields)
        elif change == "after":
            after = draw(fields)
        elif change == "style":
            style = draw(styles)
        conversation = [*conversation, *draw(st.lists(messages, max_size=3))]
        bodies.append(body(conversation, before, after, name, **style))
    return bodies


patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine


@patient
@given(sequences(), st.sampled_from(PATHS), st.lists(st.sampled_from([0, 50, 4096, 12_000]), min_size=1, max_size=2))
def test_no_sequence_of_bodies_is_identified_otherwise(bodies: list[bytes], path: str, affinity: list[int]) -> None:
    same(bodies, path, tuple(affinity))


@patient
@given(sequences(), st.data())
def test_nor_is_one_of_damaged_bodies(bodies: list[bytes], data: st.DataObject) -> None:
    damaged = []
    for one in bodies:
        at = data.draw(st.integers(0, len(one)) | st.integers(max(0, len(one) - 60), len(one)))
        junk = data.draw(st.sampled_from([b"", b'"', b"}", b"]", b",", b"\\", b"\xff", b"{}", b" ", b"null"]))
        damaged += [one, one[:at] + junk, one[:at] + junk + one[at + data.draw(st.integers(0, 1)) :]]
    same(damaged)
