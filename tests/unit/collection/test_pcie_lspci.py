"""lspci text as people send it: names, paths, domains, excerpts, lost layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import pcie_lspci
from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import normalise, short, sort_key
from ansible_collections.frank.fleet.plugins.module_utils.pcie_config import decode
from ansible_collections.frank.fleet.plugins.module_utils.pcie_verdict import Evidence, analyse
from fixtures.pcie import trees

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pcie"
AM5_TEXT = (FIXTURES / "am5.txt").read_text()
GPU = next(d for d in trees.THREADRIPPER.devices if d.address == "0000:03:00.0")
BOTH = {"0000:03:00.0": "ok", "0000:0b:00.0": "missing"}


def verdicts(text: str) -> dict[str, Any]:
    return analyse(Evidence(dump=pcie_lspci.parse(text)))["verdicts"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("03:00.0", "0000:03:00.0"),
        ("0000:0B:00.0", "0000:0b:00.0"),
        ("00000000:03:00.0", "0000:03:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        (" 3:0.0 ", "0000:03:00.0"),
        ("03:20.0", None),
        ("03:00.8", None),
        ("03:00", None),
        ("", None),
        (7, None),
    ],
)
def test_addresses_have_one_spelling(text: object, address: str | None) -> None:
    assert normalise(text) == address


def test_short_addresses_keep_a_domain_that_matters() -> None:
    assert (short("0000:03:00.0"), short("10000:e1:00.0")) == ("03:00.0", "10000:e1:00.0")
    assert sorted(["10000:01:00.0", "ffff:01:00.0"], key=sort_key) == ["ffff:01:00.0", "10000:01:00.0"]


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n".join(line.strip() for line in text.splitlines()),
        lambda text: text.replace("\n\n", "\n"),
        lambda text: text + text,
        lambda text: "$ sudo lspci -vvv\n" + text,
    ],
    ids=["crlf", "no indentation", "no blank lines", "twice", "prompt"],
)
def test_a_pasted_dump_keeps_its_verdicts(mangle: Any) -> None:
    assert verdicts(mangle(AM5_TEXT)) == BOTH


def test_a_dump_with_domains_keeps_its_verdicts() -> None:
    lines = [f"0000:{x}" if pcie_lspci.parse(x).functions else x for x in AM5_TEXT.splitlines()]
    assert verdicts("\n".join(lines)) == BOTH


def test_a_capture_without_root_is_completed_by_one_with() -> None:
    hidden = "03:00.0 0300: 1002:7551\n\tCapabilities: <access denied>\n\n"
    assert verdicts(hidden) == {"0000:03:00.0": "unknown"}
    assert verdicts(hidden + AM5_TEXT) == BOTH


def test_a_capture_of_a_sleeping_card_is_completed_by_one_of_the_woken_card() -> None:
    asleep = "03:00.0 0300: 1002:7551 (rev ff)\n\t!!! Unknown header type 7f\n\n"
    assert verdicts(asleep) == {"0000:03:00.0": "unknown"}
    assert verdicts(asleep + AM5_TEXT) == verdicts(AM5_TEXT + asleep) == BOTH


def test_a_single_device_without_its_bridges_asks_for_the_whole_machine() -> None:
    block = AM5_TEXT[AM5_TEXT.index("0b:00.0 ") : AM5_TEXT.index("0b:00.1 ")]
    (gpu,) = analyse(Evidence(dump=pcie_lspci.parse(block)))["gpus"]
    assert gpu["verdict"] == "unknown"
    assert gpu["fix"].endswith("without -s")


def test_a_dump_that_lacks_a_switch_is_not_ok() -> None:
    text = AM5_TEXT.replace("AtomicOpsCtl: ReqEn+", "AtomicOpsCtl: ReqEn-")
    assert verdicts(text)["0000:03:00.0"] == "ok"
    without = text[: text.index("01:00.0 ")] + text[text.index("02:00.0 ") :]
    assert verdicts(without)["0000:03:00.0"] == "unknown"


def test_domains_have_bus_numbers_of_their_own() -> None:
    lines = [f"0000:{x}" if pcie_lspci.parse(x).functions else x for x in AM5_TEXT.splitlines()]
    elsewhere = [x.replace("0000:", "0001:", 1) for x in lines if not x.startswith("0000:0b:00")]
    text = "\n".join([*lines, *elsewhere]).replace("AtomicOpsCtl: ReqEn+", "AtomicOpsCtl: ReqEn-")
    chains = {g["address"]: g["chain"] for g in analyse(Evidence(dump=pcie_lspci.parse(text)))["gpus"]}
    for address, chain in chains.items():
        assert {hop["address"][:4] for hop in chain} == {address[:4]}
    assert "0001:03:00.0" in chains


CARD = trees.Device("0000:01:00.0", trees.R9700, trees.VGA, trees.LEGACY, cap2=trees.COMPLETES)
CARD_TEXT = "01:00.0 0300: 1002:7551\n\tCapabilities: [58] Express (v2) Legacy Endpoint\n\t\tAtomicOpsCtl: ReqEn-\n"


@pytest.mark.parametrize(
    ("root_port", "card"), [("out-v3.14.0-v1cap.txt", CARD_TEXT), ("v1cap.hex", trees.hex_dump(trees.Host([CARD])))]
)
def test_a_gpu_below_a_port_of_capability_version_1_is_unknown(root_port: str, card: str) -> None:
    (gpu,) = analyse(Evidence(dump=pcie_lspci.parse((FIXTURES / root_port).read_text() + card)))["gpus"]
    assert gpu["verdict"] == "unknown"
    assert "00:01.0 has a PCI Express capability of version 1" in gpu["reason"]


def test_plain_v_is_too_terse_to_tell() -> None:
    text = (
        "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 48 (rev c0)\n"
        "\tCapabilities: [64] Express Legacy Endpoint, IntMsgNum 0\n"
    )
    (gpu,) = analyse(Evidence(dump=pcie_lspci.parse(text)))["gpus"]
    assert (gpu["verdict"], gpu["name"]) == ("unknown", "Advanced Micro Devices, Inc. [AMD/ATI] Navi 48 (rev c0)")
    assert "lspci -vvv" in gpu["fix"]


def test_plain_lspci_is_too_terse_to_tell() -> None:
    (gpu,) = analyse(Evidence(dump=pcie_lspci.parse("03:00.0 0300: 1002:7551 (rev c0)\n")))["gpus"]
    assert gpu["verdict"] == "unknown"
    assert "does not show the PCI Express registers" in gpu["reason"]
    assert "lspci -vvv" in gpu["fix"]


def test_fields_that_only_look_like_the_requester_bit_are_not_read() -> None:
    text = (
        "03:00.0 0300: 1002:7551\n\tCapabilities: [64] Express (v2) Legacy Endpoint\n"
        "\t\tDevCap2: 10BitTagComp+ 10BitTagReq+\n\t\tDevCtl2: IDOReq+ EmergencyPowerReductionReq+ ReqEn+\n"
    )
    assert pcie_lspci.parse(text).functions["0000:03:00.0"].requester is None


def test_other_makers_displays_are_no_amd_gpus() -> None:
    text = (
        "04:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)\n"
        "05:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)\n"
        "06:00.0 VGA compatible controller [0300]: Intel Corporation Device [8086:56a0]\n"
        "07:00.0 Display controller [0380]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 48 [1002:7551] (rev c0)\n"
    )
    assert list(verdicts(text)) == ["0000:07:00.0"]


def test_paths_printed_by_lspci_stand_in_for_bus_numbers() -> None:
    root = "\tCapabilities: [58] Express (v2) Root Port (Slot+)\n\t\tAtomicOpsCap: Routing- 32bit+ 64bit+ 128bitCAS-\n"
    switch = "\tCapabilities: [58] Express (v2) {} Port\n\t\tAtomicOpsCap: Routing{}\n\t\tAtomicOpsCtl: EgressBlck-\n"
    text = (
        "00:01.1 0604: 1022:14db\n" + root + "00:01.1/01:00.0 0604: 1002:1478\n" + switch.format("Upstream", "-")
        + "00:01.1/01:00.0/02:00.0 0604: 1002:1479\n" + switch.format("Downstream", "+")
        + "00:01.1/01:00.0/02:00.0/03:00.0 0300: 1002:7551\n"
        + "\tCapabilities: [58] Express (v2) Legacy Endpoint\n\t\tAtomicOpsCtl: ReqEn-\n"
    )  # fmt: skip
    (gpu,) = analyse(Evidence(dump=pcie_lspci.parse(text)))["gpus"]
    assert gpu["verdict"] == "missing"
    assert gpu["deciding"]["hops"] == ["0000:01:00.0"]
    assert [hop["address"] for hop in gpu["chain"]] == ["0000:02:00.0", "0000:01:00.0", "0000:00:01.1"]


def test_short_paths_are_resolved_by_bus_numbers() -> None:
    text = "00:01.1 0604: 1022:14db\n\tBus: primary=00, secondary=03, subordinate=03\n00:01.1/00.0 0300: 1002:7551\n"
    assert list(verdicts(text)) == ["0000:03:00.0"]


EXCERPT = """\
00:01.1 PCI bridge: Some CPU root port (prog-if 00 [Normal decode])
\tBus: primary=00, secondary=01, subordinate=03, sec-latency=0
\tCapabilities: [58] Express (v2) Root Port (Slot+), IntMsgNum 0
\t\t\t AtomicOpsCap: Routing- 32bit+ 64bit+ 128bitCAS-
\t\t\t AtomicOpsCtl: ReqEn- EgressBlck-
03:00.0 VGA compatible controller: Some GPU one (rev c0)
\t\t\t AtomicOpsCtl: ReqEn+
05:08.0 PCI bridge: Some chipset switch downstream port
\t\t\t AtomicOpsCap: Routing-
\t\t\t AtomicOpsCtl: EgressBlck-
08:00.0 VGA compatible controller: Some GPU two (rev c0)
\t\t\t AtomicOpsCap: 32bit+ 64bit+ 128bitCAS-
\t\t\t AtomicOpsCtl: ReqEn{}
"""


def test_an_excerpt_names_the_likely_hop_of_a_gpu_whose_atomics_are_off() -> None:
    gpus = analyse(Evidence(dump=pcie_lspci.parse(EXCERPT.format("-"))))["gpus"]
    assert [(g["address"], g["verdict"]) for g in gpus] == [("0000:03:00.0", "ok"), ("0000:08:00.0", "missing")]
    assert "08:00.0 sits behind 05:08.0" in gpus[1]["reason"]


def test_an_excerpt_is_no_evidence_against_a_gpu_whose_atomics_are_on() -> None:
    assert verdicts(EXCERPT.format("+"))["0000:08:00.0"] == "ok"


@pytest.mark.parametrize("size", [0, 4, 63, 64, 0x5A, 0x7F, 0x81])
def test_config_space_cut_anywhere_hides_the_bits(size: int) -> None:
    function = decode(GPU.address, trees.config_space(GPU, size))
    assert (function.requester, function.problem) == (None, "denied")


def test_config_space_is_whole_from_the_last_register_on() -> None:
    function = decode(GPU.address, trees.config_space(GPU, 0x82))
    assert (function.requester, function.problem, function.ids) == (True, None, "1002:7551")


def test_a_hex_dump_with_a_row_missing_is_read_up_to_it() -> None:
    rows = trees.hex_dump(trees.VM).splitlines()
    dump = pcie_lspci.parse("\n".join(r for r in rows if not r.startswith("50:")))
    assert {f.problem for f in dump.configs.values()} == {"denied"}


def test_a_hex_dump_speaks_as_config_space_only() -> None:
    (gpu,) = analyse(Evidence(dump=pcie_lspci.parse(trees.hex_dump(trees.VM))))["gpus"]
    assert [s["source"] for s in gpu["sources"]] == ["config"]


def test_a_device_without_a_capability_list_has_no_express_capability() -> None:
    space = bytearray(trees.config_space(GPU))
    space[0x06] = 0
    function = decode("0000:03:00.0", bytes(space))
    assert (function.requester, function.problem) == (None, "no-express")


@pytest.mark.parametrize("flags", [0x00, 0x01])
def test_capability_version_1_has_no_register_for_atomics(flags: int) -> None:
    space = bytearray(trees.config_space(GPU))
    space[0x5A] = GPU.port << 4 | flags
    function = decode(GPU.address, bytes(space))
    assert (function.requester, function.problem) == (None, "no-devcap2")
    functions = {d.address: decode(d.address, trees.config_space(d)) for d in trees.THREADRIPPER.devices}
    gpu = analyse(Evidence(sysfs={**functions, "0000:03:00.0": function}))["gpus"][0]
    assert gpu["verdict"] == "unknown"
    assert "03:00.0 has a PCI Express capability of version 1" in gpu["reason"]


def test_a_capability_list_that_loops_ends() -> None:
    space = bytearray(trees.config_space(GPU))
    space[0x41] = 0x40
    assert decode(GPU.address, bytes(space)).problem == "no-express"
