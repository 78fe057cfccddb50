"""What the messages of a vLLM engine mean for who runs it."""

from __future__ import annotations

import re

#: Pattern (searched without regard to case) and meaning; `{name}` in a meaning is a group of its pattern. Most telling
#: first: an engine that runs out of KV cache also prints the general lines of a failed start.
FATAL = (
    (
        r"max seq len \((?P<maxlen>\d+)\)[, ]+(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the"
        r" available KV cache memory \((?P<available>[\d.]+) GiB\)",
        "The KV cache is too small: MAXLEN={maxlen} needs {needed} GiB and this card has {available} GiB left. Lower"
        " MAXLEN{fitting}, or go back to the CHUNK that was measured to fit (8192 on one R9700: both 4096 and 16384"
        " leave less).",
    ),
    (
        r"OutOfMemoryError|HIP out of memory",
        "The card ran out of memory: KV_MEM is blank or pinned for another shape. KV_MEM=0 makes the engine measure"
        " this shape; a pin belongs to the number of cards and the MAXLEN it was measured with.",
    ),
    (
        r"hipErrorNoDevice|No (CUDA|HIP) GPUs are available",
        "The engine sees no GPU: HIP_VISIBLE_DEVICES together with ROCR_VISIBLE_DEVICES leaves none, or the user"
        " manager lacks the groups render and video, or the device nodes are not passed in.",
    ),
    (
        r"operation cannot be performed in the present state|Pcie atomics not enabled",
        "Two cards cannot run collectives together because a PCIe bridge on the way to one of them does not route"
        " atomics: serve replicas with TP=1 on this host.",
    ),
    (
        r"Attempted to load weight \((?P<weight>.*?)\) into parameter",
        "The checkpoint does not fit the engine (weight of shape {weight}): it needs the rewritten MTP head.",
    ),
    (
        r"\bN\s*=\s*0\b[^\n]*GEMM|GEMM[^\n]*\bN\s*=\s*0\b",
        "The compile cache belongs to another image or another set of knobs (the speculative depth is one of them):"
        " move the cache folder away and start again.",
    ),
    (
        r"(?P<path>/models/[^\s'\"]+)[^\n]*(does not exist|no such file or directory|is not a (valid|local))"
        r"|(Repo id must be|is not a local folder and is not a valid model identifier)[^\n]*",
        "The model is missing: check that SNAP and DRAFTER exist below the model folder of this host.",
    ),
    (
        r"address already in use",
        "The port is taken: see which process holds it with 'ss -ltnp'.",
    ),
    (
        r"no such image|image not known|reference ['\"]?\[?[^\s]*localhost/",
        "The image is not in this user's store: run the role image_retag.",
    ),
)

_CAPACITY = {
    "kv_cache_tokens": re.compile(r"GPU KV cache size: ([\d,]+) tokens"),
    "max_concurrency": re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"),
}


def explain(log: str) -> str | None:
    """What the first known fatal message in a log means and what to do, or None if none is known."""
    for pattern, meaning in FATAL:
        found = re.search(pattern, log, re.IGNORECASE)
        if found:
            groups = {key: value or "" for key, value in found.groupdict().items()}
            return meaning.format(**groups, fitting=_fitting_length(groups))
    return None


def capacity(log: str) -> dict[str, float]:
    """The engine's own ledger, printed at each start: `kv_cache_tokens` and `max_concurrency`, as far as found."""
    found = {name: pattern.findall(log) for name, pattern in _CAPACITY.items()}
    return {name: float(values[-1].replace(",", "")) for name, values in found.items() if values}


def _fitting_length(groups: dict[str, str]) -> str:
    """An estimate of the MAXLEN that would fit: the cache grows with the length, in whole thousands to be safe."""
    if not groups.get("maxlen"):
        return ""
    fits = int(int(groups["maxlen"]) * float(groups["available"]) / float(groups["needed"]))
    return f" to about {fits // 1024 * 1024}"
