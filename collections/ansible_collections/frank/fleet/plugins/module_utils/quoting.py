"""Quote text so that it survives Quadlet's generator and then systemd, byte for byte.

A word of `Exec=` or `Environment=` is unquoted by the generator, quoted again into the ExecStart= line that it writes,
and there read by systemd, which also expands `%` specifiers and `$` variables. The generator escapes neither of those.
"""

from __future__ import annotations

import re

#: Expands to nothing in systemd, because nobody sets it. The generator stops reading Exec= at an empty word, and writes
#: a lone `;` without quotes, which systemd takes for the end of the command; with this in front neither happens.
EMPTY = "${FRANK_FLEET_EMPTY}"

_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@%$-]+")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def systemd_quote(value: object) -> str:
    """One word for `Exec=` or `Environment=`; raises ValueError for text that cannot get through."""
    text = _text(value)
    if text in ("", ";"):
        return EMPTY + text
    text = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    return '"' + "".join(_escape(character) for character in text) + '"'


def environment_lines(variables: dict[str, object]) -> str:
    """`Environment=` lines for a mapping, one variable a line, sorted by name; no trailing newline."""
    for name in variables:
        if not isinstance(name, str) or not _VARIABLE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for an environment variable (letters, digits, _)")
    return "\n".join("Environment=" + systemd_quote(f"{name}={_text(variables[name])}") for name in sorted(variables))


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"cannot quote {value!r}: give text or a number (booleans have no one spelling)")
    text = str(value)
    for character in text:
        if not _passes(ord(character)):
            raise ValueError(
                f"cannot quote {text!r}: systemd and Quadlet cannot carry the character U+{ord(character):04X}"
            )
    return text


def _passes(code: int) -> bool:
    if code in (0x00, 0x80):  # No NUL in argv; the generator turns U+0080 into a lone byte that is not UTF-8.
        return False
    surrogate = 0xD800 <= code <= 0xDFFF
    noncharacter = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE  # systemd drops lines that hold one.
    return not (surrogate or noncharacter)


def _escape(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\x{ord(character):02x}"
    return character
