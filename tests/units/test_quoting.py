"""What the container's process receives equals what the inventory says, byte for byte.

Each word is rendered, read and written again by Podman's generator, and the ExecStart= line that it wrote is then read
by the rules of systemd.service(5): words, C escapes, `%` specifiers, `$` variables, `;` between commands.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.quoting import environment_lines, systemd_quote
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from units.quadlet import Generate, Generated

HEADER = "[Container]\nImage=localhost/engine:1\n"
SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}

AWKWARD = [
    "",
    " ",
    "--x 1 --y 2",
    "50%",
    "%h/x",
    "%%",
    "%",
    '{"k": "v w"}',
    '{"temperature": 0.7, "stop": ["$", "%s", "\\n"]}',
    "it's",
    '"',
    "'",
    "a\\",
    "\\",
    "\\x41",
    "ü",
    "日本語 😀",
    "x#y",
    "#",
    "; rm",
    ";",
    "\\;",
    "${HOME}",
    "$HOME",
    "$",
    "$$",
    "x$$y",
    "$ {A}",
    "a$b%c",
    "-",
    "-x",
    "--flag=value",
    "@y",
    "!z",
    "+w",
    ":v",
    "line one\nline two",
    "\n",
    "tab\there",
    "\r",
    "\x01\x7f",
    "\x81\x85\xa0\u2028\ufeff",
    "trailing blank ",
    " leading blank",
    "[Install]",
    "A=b",
]

# Everything but what cannot be carried: NUL, U+0080, surrogates and noncharacters are refused, see test below.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00\x80").filter(
        lambda c: not (0xFDD0 <= ord(c) <= 0xFDEF or ord(c) & 0xFFFE == 0xFFFE)
    ),
    max_size=20,
) | st.text(st.sampled_from(list("""ab %$\\"';#-@{}()=\n\t*~`&|<>""")), max_size=8)


def argv(exec_start: str, environment: dict[str, str] | None = None) -> list[str]:
    """The argument list that systemd makes of an ExecStart= value, with only `environment` to expand from."""
    words, rest = [], exec_start.strip(" \t\n\r")
    while rest:
        if re.match(r";([ \t\n\r]|$)", rest):
            raise AssertionError(f"systemd would start a second command at {rest!r}")
        if re.match(r"\\;([ \t\n\r]|$)", rest):
            words.append(";")
            rest = rest[2:].lstrip(" \t\n\r")
            continue
        word, rest = first_word(rest)
        words += expand(specifiers(word), environment or {})
    return words


def first_word(text: str) -> tuple[str, str]:
    """Split off one word, quotes and C escapes resolved."""
    word, quote, position = "", "", 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            value, length = unescape(text[position:])
            word += value
            position += length
        elif quote:
            quote, word = ("", word) if char == quote else (quote, word + char)
        elif char in "\"'":
            quote = char
        elif char in " \t\n\r":
            break
        else:
            word += char
    assert not quote, f"unbalanced quotes in {text!r}"
    return word, text[position:].lstrip(" \t\n\r")


def unescape(text: str) -> tuple[str, int]:
    """Value and length of the escape sequence that follows a backslash."""
    for pattern, base in ((r"x([0-9a-fA-F]{2})", 16), (r"([0-7]{3})", 8), (r"u([0-9a-fA-F]{4})", 16)):
        found = re.match(pattern, text)
        if found:
            code = int(found[1], base)
            assert code < 0x80 or pattern[0] == "u", f"\\{found[0]} is a lone byte, not UTF-8"
            return chr(code), len(found[0])
    assert text and (text[0] in SIMPLE_ESCAPES or text[0] in "\\\"'"), f"unknown escape \\{text[:1]}"
    return SIMPLE_ESCAPES.get(text[0], text[0]), 1


def specifiers(word: str) -> str:
    """Resolve `%%`; any other specifier would put something of systemd's own into the word."""
    assert not re.search(r"(?<!%)(%%)*%([^%]|$)", word), f"{word!r} holds a live specifier"
    return word.replace("%%", "%")


def expand(word: str, environment: dict[str, str]) -> list[str]:
    """Resolve `$NAME` (a word of its own, split at blanks), `${NAME}` (in place) and `$$`."""
    if re.match(r"\$[^{$]", word):
        return environment.get(word[1:], "").split()
    parts = re.sub(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda m: environment.get(m[1], "") if m[1] else "$", word)
    return [parts]


def exec_start(generated: Generated) -> list[str]:
    """Arguments of the one service."""
    assert "unit.service" in generated.files, generated.stderr
    [line] = [line for line in generated.files["unit.service"].split("\n") if line.startswith("ExecStart=")]
    # The only specifiers that the generator itself writes.
    return argv(line.removeprefix("ExecStart=").replace("systemd-%N", "name").replace("%t/%N.cid", "file"))


def received_words(generate: Generate, words: list[str]) -> list[str]:
    """Arguments of the container's process for an Exec= of these words."""
    line = " ".join(systemd_quote(word) for word in ["serve", *words])
    arguments = exec_start(generate({"unit.container": f"{HEADER}Exec={line}\n"}))
    return arguments[arguments.index("localhost/engine:1") + 2 :]


def received_environment(generate: Generate, variables: dict[str, str]) -> dict[str, str]:
    """Environment that podman is told to set for these variables."""
    arguments = exec_start(generate({"unit.container": f"{HEADER}{environment_lines(variables)}\n"}))
    pairs = [value for flag, value in pairwise(arguments) if flag == "--env"]
    return dict(pair.split("=", 1) for pair in pairs)


@pytest.mark.parametrize("word", AWKWARD)
def test_each_awkward_word_arrives_as_an_argument(generate: Generate, word: str) -> None:
    assert received_words(generate, ["before", word, "after"]) == ["before", word, "after"]


def test_all_awkward_values_arrive_as_environment(generate: Generate) -> None:
    variables = {f"V{number}": value for number, value in enumerate(AWKWARD)}
    assert received_environment(generate, variables) == variables


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(TEXT, min_size=1, max_size=8))
@example(words=["", ";", "", ";"])
def test_any_words_arrive_as_arguments(generate: Generate, words: list[str]) -> None:
    assert received_words(generate, words) == words


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(TEXT, min_size=1, max_size=8))
def test_any_values_arrive_as_environment(generate: Generate, values: list[str]) -> None:
    variables = {f"V{number}": value for number, value in enumerate(values)}
    assert received_environment(generate, variables) == variables


@pytest.mark.parametrize("literal", ["7771", "0", "0.98", "18563072000"])
def test_knobs_arrive_as_they_are_spelled(generate: Generate, literal: str) -> None:
    assert received_environment(generate, {"KNOB": literal}) == {"KNOB": literal}


@pytest.mark.parametrize(
    ("written", "arrives"),
    [
        ('Exec=serve {"a": 1}', ["{a:", "1}"]),
        ("Exec=serve 'a b'", ["a b"]),
        ('Exec=serve a "" b', ["a"]),
    ],
)
def test_without_the_filter_words_do_not_arrive(generate: Generate, written: str, arrives: list[str]) -> None:
    """The decoder sees the damage that the filter prevents, so it would see it in the tests above."""
    arguments = exec_start(generate({"unit.container": f"{HEADER}{written}\n"}))
    assert arguments[arguments.index("localhost/engine:1") + 2 :] == arrives


@pytest.mark.parametrize("character", ["\x80"])
def test_the_generator_breaks_what_the_filter_refuses(generate: Generate, character: str) -> None:
    """Should a newer generator carry it, the filter need not refuse it any more."""
    with pytest.raises(ValueError, match=r"U\+0080"):
        systemd_quote(character)
    [line] = re.findall(
        r"^ExecStart=.*$", generate({"unit.container": f'{HEADER}Exec="{character}"\n'}).files["unit.service"], re.M
    )
    with pytest.raises(AssertionError, match="lone byte"):
        argv(line.replace("%", ""))


@pytest.mark.parametrize("raw", ["50%", "%h", ";", '"a'])
def test_the_decoder_refuses_what_systemd_would_change(raw: str) -> None:
    with pytest.raises(AssertionError):
        argv(f"/usr/bin/podman {raw} x")


@pytest.mark.parametrize(
    ("raw", "arrives"), [("$A", ["1", "2"]), ("x$A", ["x$A"]), ("${A}", ["1 2"]), ("$$A", ["$A"]), ("$B", [])]
)
def test_the_decoder_expands_variables_as_systemd_does(raw: str, arrives: list[str]) -> None:
    assert argv(raw, {"A": "1 2"}) == arrives
