"""Code-shaped text of any length, the same for the same seed and, from its first line on, another for any other."""

import random

_NAMES = (
    "batch", "block", "buffer", "cache", "chunk", "client", "config", "count", "cursor", "engine", "entry", "error",
    "field", "handle", "index", "layer", "length", "limit", "message", "offset", "page", "parser", "policy", "queue",
    "record", "replica", "request", "result", "retry", "route", "sample", "session", "shard", "state", "stream",
)  # fmt: skip
_LINES = (
    "    {a}_{b} = self.{c}.{d}({a}, {n})",
    "    if {a}.{b} > {n}: raise {c}Error({d})",
    "    for {a} in range({n}): {b}.append({c}[{a}])",
    "    return {a}({b}, {c}={n}) if {d} else None",
    "def {a}_{b}({c}: int, {d}: str) -> bool:  # {n}",
)


def code_text(seed: str, characters: int) -> str:
    """Return exactly `characters` ASCII characters that look like a source file.

    Random words would be wrong here: drafts of a speculative decoder are accepted less on them (34 to 43 % on random
    text, measured on two R9700) than on code, and what users of coding agents send is code.
    """
    rng = random.Random(seed)
    lines = [f"# file {rng.getrandbits(64):016x}.py"]
    length = len(lines[0]) + 1
    while length < characters:
        a, b, c, d = rng.choices(_NAMES, k=4)
        line = rng.choice(_LINES).format(a=a, b=b, c=c, d=d, n=rng.randrange(10_000))
        lines.append(line)
        length += len(line) + 1
    return ("\n".join(lines) + "\n")[:characters]
