"""Decode the PCI configuration space of one function: ids, bridge buses, AtomicOp bits."""

from __future__ import annotations

from typing import Optional

from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import (
    DOWNSTREAM,
    ENDPOINT,
    INTEGRATED,
    OTHER,
    PCI_BRIDGE,
    PROBLEM_DEAD,
    PROBLEM_DENIED,
    PROBLEM_NO_DEVCAP2,
    PROBLEM_NO_EXPRESS,
    ROOT,
    UPSTREAM,
    PciFunction,
)

# Offsets and bits as in include/uapi/linux/pci_regs.h.
_STATUS, _CLASS, _HEADER_TYPE, _SECONDARY, _SUBORDINATE, _CAPABILITIES = 0x06, 0x0A, 0x0E, 0x19, 0x1A, 0x34
_STATUS_HAS_CAPABILITIES = 0x10
_HEADER_SIZE = 0x40
_CAPABILITY_EXPRESS = 0x10
_DEVCAP2, _DEVCTL2 = 0x24, 0x28
_CAP2_ROUTING, _CAP2_COMPLETER32, _CAP2_COMPLETER64 = 0x40, 0x80, 0x100
_CTL2_REQUESTER, _CTL2_EGRESS_BLOCK = 0x40, 0x80

# A legacy endpoint (type 1) is an endpoint to the kernel; every Radeon reports itself as one.
_PORTS = {0: ENDPOINT, 1: ENDPOINT, 4: ROOT, 5: UPSTREAM, 6: DOWNSTREAM, 7: PCI_BRIDGE, 9: INTEGRATED}


def decode(address: str, config: bytes) -> PciFunction:
    """Return what `config` says. It may be cut anywhere: 64 bytes is what an unprivileged reader gets.

    `problem` says why the AtomicOp bits are None, when they are.
    """
    function = PciFunction(address=address)
    if len(config) < _HEADER_SIZE:
        function.problem = PROBLEM_DENIED
        return function
    if config[:4] == b"\xff\xff\xff\xff":
        function.problem = PROBLEM_DEAD
        return function
    function.vendor = _u16(config, 0)
    function.device = _u16(config, 2)
    function.class_code = _u16(config, _CLASS)
    if config[_HEADER_TYPE] & 0x7F == 1:
        function.secondary, function.subordinate = config[_SECONDARY], config[_SUBORDINATE]
    _decode_express(function, config)
    return function


def _decode_express(function: PciFunction, config: bytes) -> None:
    if not _u16(config, _STATUS) & _STATUS_HAS_CAPABILITIES:
        function.problem = PROBLEM_NO_EXPRESS
        return
    offset, function.problem = _find_express(config)
    if offset is None:
        return
    flags = _u16(config, offset + 2)
    function.port = _PORTS.get(flags >> 4 & 0xF, OTHER)
    if flags & 0xF < 2:
        function.problem = PROBLEM_NO_DEVCAP2
        return
    if len(config) < offset + _DEVCTL2 + 2:
        function.problem = PROBLEM_DENIED
        return
    _decode_atomics(function, _u16(config, offset + _DEVCAP2), _u16(config, offset + _DEVCTL2))


def _decode_atomics(function: PciFunction, cap2: int, ctl2: int) -> None:
    """Set only the bits that mean something for this kind of port; the others are reserved."""
    if function.port in (ROOT, UPSTREAM, DOWNSTREAM):
        function.routing = bool(cap2 & _CAP2_ROUTING)
        function.egress_blocked = bool(ctl2 & _CTL2_EGRESS_BLOCK)
    if function.port in (ROOT, ENDPOINT, INTEGRATED):
        function.completer32 = bool(cap2 & _CAP2_COMPLETER32)
        function.completer64 = bool(cap2 & _CAP2_COMPLETER64)
        function.requester = bool(ctl2 & _CTL2_REQUESTER)


def _find_express(config: bytes) -> tuple[Optional[int], Optional[str]]:
    """Walk the capability list. Return (offset, None) or (None, problem)."""
    offset = config[_CAPABILITIES] & 0xFC
    visited: set[int] = set()
    while offset >= _HEADER_SIZE and offset not in visited:
        if offset + 4 > len(config):
            return None, PROBLEM_DENIED
        if config[offset] == _CAPABILITY_EXPRESS:
            return offset, None
        visited.add(offset)
        offset = config[offset + 1] & 0xFC
    return None, PROBLEM_NO_EXPRESS


def _u16(config: bytes, offset: int) -> int:
    return config[offset] | config[offset + 1] << 8
