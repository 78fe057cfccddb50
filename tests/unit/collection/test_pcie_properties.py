"""No input makes the analysis fail, and none makes it promise more than it saw."""

from __future__ import annotations

from ansible_collections.frank.fleet.plugins.module_utils import pcie_kfd, pcie_log, pcie_lspci
from ansible_collections.frank.fleet.plugins.module_utils.pcie_config import decode
from ansible_collections.frank.fleet.plugins.module_utils.pcie_model import PciFunction
from ansible_collections.frank.fleet.plugins.module_utils.pcie_verdict import Evidence, analyse
from ansible_collections.frank.fleet.plugins.module_utils.pcie_words import report_lines
from fixtures.pcie import trees
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = st.sampled_from(
    [
        "03:00.0 0300: 1002:7551 (rev c0)",
        "00:01.1/00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI]",
        "00:01.1 0604: 1022:14db",
        "02:00.0 ffff: ffff:ffff (rev ff)",
        "\tBus: primary=00, secondary=03, subordinate=03",
        "\tBus: primary=03, secondary=00, subordinate=ff",
        "\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00",
        "\tCapabilities: [58] Express (v2) Upstream Port",
        "\tCapabilities: <access denied>",
        "\t\tAtomicOpsCap: Routing- 32bit+ 64bit+ 128bitCAS-",
        "\t\tAtomicOpsCtl: ReqEn- EgressBlck+",
        "00: 02 10 51 75 00 00 10 00 c0 00 00 03 00 00 00 00",
        "flags 13",
        "amdgpu 0000:03:00.0: PCIE atomic ops is not supported",
        "skipped device 1002:7551, PCI rejects atomics 1<2",
    ]
)
TEXT = st.lists(st.one_of(WORDS, st.text(max_size=40)), max_size=25).map("\n".join)


@given(TEXT, TEXT)
@settings(max_examples=300, deadline=None)
def test_any_text_is_analysed_and_reported(dump: str, log: str) -> None:
    result = analyse(Evidence(dump=pcie_lspci.parse(dump), log=pcie_log.parse(log) if log else None))
    for gpu in result["gpus"]:
        assert gpu["verdict"] in ("ok", "missing", "unknown")
        assert gpu["reason"]
        assert bool(gpu["fix"]) == (gpu["verdict"] != "ok")
        assert bool(gpu["deciding"]) == (gpu["verdict"] == "missing")
    assert report_lines(result)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_config_space_is_decoded(config: bytes) -> None:
    function = decode("0000:03:00.0", config)
    assert analyse(Evidence(sysfs={function.address: function}))["verdict"] in ("ok", "missing", "unknown")


@given(st.integers(0, 255), st.integers(0, 255))
@settings(deadline=None)
def test_one_wrong_byte_in_a_config_space_is_survived(offset: int, value: int) -> None:
    space = bytearray(trees.config_space(trees.AM5.devices[0]))
    space[offset] = value
    assert decode("0000:00:01.1", bytes(space)).address == "0000:00:01.1"


@given(st.text(max_size=200))
def test_any_properties_file_is_read(text: str) -> None:
    assert all(isinstance(v, int) for v in pcie_kfd.parse_properties(text).values())


@given(st.integers(64, 0x81))
@settings(deadline=None)
def test_a_gpu_whose_registers_are_cut_off_is_never_decided(size: int) -> None:
    host = trees.AM5
    functions: dict[str, PciFunction] = {
        d.address: decode(d.address, trees.config_space(d, size)) for d in host.devices
    }
    assert set(analyse(Evidence(sysfs=functions))["verdicts"].values()) == {"unknown"}
