"""Read lspci output of any pciutils version: -vvv text, -x hex dumps, or both in one file, pasted or piped."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import domain_of, normalise
from ansible_collections.frank.fleet.plugins.module_utils.pcie_config import decode
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    CLASS_AUDIO,
    CLASS_BRIDGE,
    DOWNSTREAM,
    ENDPOINT,
    INTEGRATED,
    OTHER,
    PCI_BRIDGE,
    PROBLEM_DEAD,
    PROBLEM_DENIED,
    PROBLEM_NO_DEVCAP2,
    PROBLEM_NO_EXPRESS,
    PROBLEM_OLD_LSPCI,
    PROBLEM_TERSE,
    ROOT,
    UPSTREAM,
    VENDOR_AMD_CPU,
    VENDOR_AMD_GPU,
    PciFunction,
)

_SLOT = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
# `-P` and `-PP` put the bridges above in front, as `/dd.f` or `/bb:dd.f` each.
_HEADER = re.compile(rf"\s*({_SLOT}(?:/(?:[0-9a-f]{{2}}:)?[0-9a-f]{{2}}\.[0-7])*)(?:\s+(.*))?$", re.IGNORECASE)
_HEX_ROW = re.compile(r"\s*([0-9a-f]{2,3}):((?:[ \t][0-9a-f]{2}){1,16})\s*$", re.IGNORECASE)
_IDS = re.compile(r"\b([0-9a-f]{4}):([0-9a-f]{4})\b", re.IGNORECASE)
_ONLY_IDS = re.compile(r"(?:Device )?[0-9a-f]{4}:[0-9a-f]{4}\b", re.IGNORECASE)
_CLASS = re.compile(r"^(?:Class )?([0-9a-f]{4}):|\[([0-9a-f]{4})\]:", re.IGNORECASE)
_BUSES = re.compile(r"\bsecondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})\b", re.IGNORECASE)
_EXPRESS = re.compile(r"\] Express (?:\(v([0-9]{1,2})\) )?([A-Za-z][A-Za-z/ -]*[A-Za-z])")
_DRIVER = re.compile(r"Kernel driver in use: (\S+)")
# Anchored on the register's own line: `10BitTagReq+` and `IDOReq-` elsewhere look like `ReqEn`.
_ATOMICS = re.compile(r"AtomicOps(?:Cap|Ctl):(.*)")
_BIT = re.compile(r"\b(Routing|32bit|64bit|ReqEn|EgressBlck)([+-])")

_PORTS = {
    "Root Port": ROOT,
    "Upstream Port": UPSTREAM,
    "Downstream Port": DOWNSTREAM,
    "Endpoint": ENDPOINT,
    "Legacy Endpoint": ENDPOINT,
    "Root Complex Integrated Endpoint": INTEGRATED,
    "PCI-Express to PCI/PCI-X Bridge": PCI_BRIDGE,
}
_CLASS_NAMES = {
    "VGA compatible controller": 0x0300,
    "3D controller": 0x0302,
    "Display controller": 0x0380,
    "Processing accelerators": 0x1200,
    "Audio device": CLASS_AUDIO,
    "PCI bridge": CLASS_BRIDGE,
}


@dataclass
class Dump:
    """What one file of lspci output holds."""

    functions: dict[str, PciFunction] = field(default_factory=dict)  # from the words
    configs: dict[str, PciFunction] = field(default_factory=dict)  # from hex rows, decoded by us
    has_details: bool = False  # there is more than headers and hex rows


def parse(text: str) -> Dump:
    """Return every function found in `text`; an empty dump when there is none.

    When a function appears twice (two captures in one file), the later block only fills what the earlier left open.
    """
    dump = Dump()
    for header, lines in _blocks(text):
        parents = _path(header.group(1), dump.functions)
        if parents is None:
            continue
        address = parents.pop()
        rows = [m for m in (_HEX_ROW.match(line) for line in lines) if m]
        details = [line for line in lines if line.strip() and not _HEX_ROW.match(line)]
        function = _read_block(address, header.group(2) or "", details)
        function.parents = parents[::-1] if parents else None
        _merge(dump.functions, function)
        dump.has_details = dump.has_details or bool(details)
        if rows:
            _merge(dump.configs, decode(address, _bytes(rows)))
    return dump


def _blocks(text: str) -> list[tuple[re.Match[str], list[str]]]:
    """Split at headers, not at blank lines: pasted dumps lose those."""
    blocks: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            blocks.append((header, []))
        elif blocks:
            blocks[-1][1].append(line)
    return blocks


def _path(slots: str, functions: dict[str, PciFunction]) -> Optional[list[str]]:
    """Return the addresses of a `-P`/`-PP` path from the root down, None when one cannot be told."""
    first, *rest = slots.split("/")
    address = normalise(first)
    if address is None:
        return None
    path = [address]
    for part in rest:
        slot = part
        if ":" not in part:
            bridge = functions.get(path[-1])
            if bridge is None or bridge.secondary is None:
                return None
            slot = f"{bridge.secondary:02x}:{part}"
        address = normalise(f"{domain_of(path[0])}:{slot}")
        if address is None:
            return None
        path.append(address)
    return path


def _read_block(address: str, title: str, details: list[str]) -> PciFunction:
    function = PciFunction(address)
    _read_title(function, title)
    body = "\n".join(details)
    buses = _BUSES.search(body)
    if buses:
        function.secondary, function.subordinate = (int(b, 16) for b in buses.groups())
    driver = _DRIVER.search(body)
    if driver:
        function.driver = driver.group(1)
    _read_bits(function, body)
    express = _EXPRESS.search(body)
    if express:
        function.port = _PORTS.get(express.group(2), OTHER)
    elif function.egress_blocked is not None and function.routing is not None:
        # A shortened excerpt: only a root port has both control bits, only a switch port the second one alone.
        function.port = ROOT if function.requester is not None else DOWNSTREAM
    function.problem = _problem(function, title, body, express.group(1) if express else None)
    return function


def _read_title(function: PciFunction, title: str) -> None:
    class_match = _CLASS.search(title)
    if class_match:
        function.class_code = int(class_match.group(1) or class_match.group(2), 16)
    else:
        function.class_code = _CLASS_NAMES.get(title.split(":")[0].strip())
    ids = _IDS.findall(title)
    if ids:
        function.vendor, function.device = (int(i, 16) for i in ids[-1])
    elif "[AMD/ATI]" in title:
        function.vendor = VENDOR_AMD_GPU
    elif "Advanced Micro Devices, Inc. [AMD]" in title:
        function.vendor = VENDOR_AMD_CPU
    name = title.partition(": ")[2].strip()
    if name and not _ONLY_IDS.match(name):
        function.name = name
    function.virtual_function = "Virtual Function" in name


def _read_bits(function: PciFunction, body: str) -> None:
    """Read the AtomicOps lines. pciutils prints a bit only where it means something, so what is absent stays None."""
    bits = {name: sign == "+" for line in _ATOMICS.findall(body) for name, sign in _BIT.findall(line)}
    function.routing = bits.get("Routing")
    function.completer32 = bits.get("32bit")
    function.completer64 = bits.get("64bit")
    function.requester = bits.get("ReqEn")
    function.egress_blocked = bits.get("EgressBlck")


def _problem(function: PciFunction, title: str, body: str, version: Optional[str]) -> Optional[str]:
    """Say why the bits are not there, when they are not."""
    if "(rev ff)" in title or "Unknown header type 7f" in body:
        return PROBLEM_DEAD
    if function.requester is not None or function.routing is not None:
        return None
    if "<access denied" in body:
        return PROBLEM_DENIED
    if version == "1":
        return PROBLEM_NO_DEVCAP2
    if function.port == PCI_BRIDGE or ("Capabilities: [" in body and function.port is None):
        return PROBLEM_NO_EXPRESS
    # AtomicOps lines exist since pciutils 3.5.3; older ones print DevCap2 without them.
    return PROBLEM_OLD_LSPCI if "DevCap2:" in body else PROBLEM_TERSE


def _merge(functions: dict[str, PciFunction], new: PciFunction) -> None:
    old = functions.setdefault(new.address, new)
    if old is new:
        return
    had_bits = old.problem is None
    for name, value in vars(new).items():
        if getattr(old, name) is None:
            setattr(old, name, value)
    if had_bits or new.problem is None:
        old.problem = None


def _bytes(rows: list[re.Match[str]]) -> bytes:
    """Join hex rows while they follow each other; a gap ends what is known."""
    config = b""
    for row in rows:
        if int(row.group(1), 16) != len(config):
            break
        config += bytes.fromhex(row.group(2))
    return config
