"""Edit a prometheus.yml that is somebody else's, by the few lines that include our files."""

from __future__ import annotations

import re

RULES, SCRAPES = "frank-fleet/*.rules.yml", "frank-fleet/scrape.yml"
INCLUDES = {"rule_files": RULES, "scrape_config_files": SCRAPES}


class UneditableError(Exception):
    """The file has a key in a form that cannot be extended safely; the text says what to add by hand."""


def with_includes(text: str) -> str:
    """The text with our files included, every other byte as it is. Raises UneditableError."""
    for key, glob in INCLUDES.items():
        text = _with_entry(text, key, glob)
    return text


def with_alertmanager(text: str, address: str) -> str:
    """The text with an Alertmanager to send alerts to, if it has none. Raises UneditableError if it has others."""
    if not re.search(r"^alerting:", text, re.MULTILINE):
        return _append(text, f"alerting:\n  alertmanagers:\n    - static_configs:\n        - targets: [{address}]\n")
    if address not in re.sub(r"#.*", "", text):
        raise UneditableError(f"it has alerting already: add {address} to its alertmanagers by hand")
    return text


def _append(text: str, lines: str) -> str:
    if re.search(r"^\.\.\.", text, re.MULTILINE):
        raise UneditableError(f"it ends with '...', so add this before that by hand:\n{lines}")
    if not text:
        return lines
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}\n{lines}"


def _with_entry(text: str, key: str, glob: str) -> str:
    if re.search(rf"^\s*-\s*[\"']?{re.escape(glob)}[\"']?\s*(#.*)?$", text, re.MULTILINE):
        return text
    found = list(re.finditer(rf"^{key}:(.*)$", text, re.MULTILINE))
    if not found:
        return _append(text, f"{key}:\n  - {glob}\n")
    value, rest = found[0][1].partition("#")[0].strip(), text[found[0].end() :]
    # What comes next: an entry of a list over lines, another key, or nothing.
    follows = re.match(r"(?:\n[ \t]*(?:#.*)?)*(?:\n([ \t]*)- |\n[A-Za-z]|\s*\Z)", rest)
    if len(found) > 1 or value not in ("", "[]", "null", "~") or not follows:
        raise UneditableError(f"its {key} is no list over lines: add '{glob}' to it by hand, or write it as one")
    head = text[: found[0].start()] + (f"{key}:" if value else found[0][0])
    indent = "  " if follows[1] is None else follows[1]
    return f"{head}\n{indent}- {glob}{rest}"


def faster(text: str, times: int) -> str:
    """Rules whose waits are divided, for drills: `for`, `keep_firing_for` and `interval`, one second at least."""

    def shorten(match: re.Match) -> str:
        seconds = int(match[2]) * {"s": 1, "m": 60, "h": 3600}[match[3]]
        return f"{match[1]}{max(1, seconds // times)}s"

    return re.sub(r"^(\s*(?:for|keep_firing_for|interval): )(\d+)([smh])$", shorten, text, flags=re.MULTILINE)


def alerts_in(text: str) -> list[str]:
    """Names of the alerts of a rules file."""
    return re.findall(r"^\s*- alert: (\S+)$", text, re.MULTILINE)
