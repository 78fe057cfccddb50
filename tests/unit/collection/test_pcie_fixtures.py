"""Every stored dump gives the verdict that is known for its topology, whichever pciutils printed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import pcie_lspci
from ansible_collections.frank.fleet.plugins.module_utils.pcie_verdict import Evidence, analyse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pcie"
OLD_LSPCI = "v3.5.2"

# topology: (GPU, verdict, words of the reason, hops at fault)
EXPECTED = {
    "good": ("0000:03:00.0", "ok", "every hop up to root port 00:01.1", None),
    "chipset_norouting": (
        "0000:08:00.0",
        "missing",
        "08:00.0 sits behind 04:00.0 and 05:08.0, which do not route AtomicOps",
        ["0000:04:00.0", "0000:05:08.0"],
    ),
    "rp_nocompleter": (
        "0000:0a:00.0",
        "missing",
        "root port 00:1b.4, which does not complete 32-bit and 64-bit AtomicOps",
        ["0000:00:1b.4"],
    ),
    "egress": ("0000:0d:00.0", "missing", "0b:00.0 above 0d:00.0 blocks AtomicOps", ["0000:0b:00.0"]),
    # Named after what the root port lacks: it completes 32 bits only.
    "only64": ("0000:0e:00.0", "missing", "which does not complete 64-bit AtomicOps", ["0000:00:04.1"]),
    "noroot": ("0000:03:00.0", "unknown", "can be read by root only", None),
    "nobar": ("0000:03:00.0", "ok", "ReqEn+", None),
    "dead": ("0000:03:00.0", "unknown", "does not answer", None),
}
NO_GPU = {"v1cap", "vf", "pcibridge"}

FILES = sorted(p for p in FIXTURES.iterdir() if p.suffix == ".hex" or p.name.startswith("out-"))


def analyse_text(text: str) -> dict[str, Any]:
    """Analyse one dump alone."""
    return analyse(Evidence(dump=pcie_lspci.parse(text)))


def topology_of(path: Path) -> str:
    """Return the fixture's topology: `out-v3.7.0-good.txt` and `good.hex` are both `good`."""
    return path.stem.split("-")[-1]


def test_there_are_fixtures_of_every_topology() -> None:
    assert {topology_of(p) for p in FILES} == set(EXPECTED) | NO_GPU


@pytest.mark.parametrize("path", [p for p in FILES if topology_of(p) in EXPECTED], ids=lambda p: p.name)
def test_verdict_of_a_stored_dump(path: Path) -> None:
    address, verdict, words, hops = EXPECTED[topology_of(path)]
    result = analyse_text(path.read_text())
    (gpu,) = result["gpus"]
    assert gpu["address"] == address
    if OLD_LSPCI in path.name:
        assert (gpu["verdict"], result["verdict"]) == ("unknown", "unknown")
        assert gpu["fix"]
        return
    assert (gpu["verdict"], result["verdict"]) == (verdict, verdict)
    assert words in gpu["reason"]
    assert (gpu["deciding"] or {}).get("hops") == hops
    assert bool(gpu["fix"]) == (verdict != "ok")


@pytest.mark.parametrize("path", [p for p in FILES if topology_of(p) in NO_GPU], ids=lambda p: p.name)
def test_a_dump_without_a_discrete_gpu_is_unknown(path: Path) -> None:
    result = analyse_text(path.read_text())
    assert result["gpus"] == []
    assert (result["verdict"], result["reason"]) == ("unknown", "no discrete AMD GPU was found")


def test_old_lspci_is_named_as_the_reason() -> None:
    (gpu,) = analyse_text((FIXTURES / "out-v3.5.2-good.txt").read_text())["gpus"]
    assert "pciutils before 3.5.3" in gpu["reason"]
    assert "lspci -xxx" in gpu["fix"]


@pytest.mark.parametrize("name", ["out-v3.14.0-{}.txt", "out-v3.7.0-{}.txt", "{}.hex"])
def test_two_cards_in_one_dump_get_a_verdict_each(name: str) -> None:
    text = "".join((FIXTURES / name.format(t)).read_text() for t in ("good", "rp_nocompleter"))
    result = analyse_text(text)
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:0a:00.0": "missing"}
    assert result["verdict"] == "missing"
    assert result["reason"] == "PCIe AtomicOps of 2 GPUs: 1 ok, 1 missing"


def test_an_integrated_gpu_and_audio_functions_are_told_apart() -> None:
    names = ("out-v3.14.0-good.txt", "out-v3.14.0-vf.txt")
    result = analyse_text("".join((FIXTURES / n).read_text() for n in names))
    assert list(result["verdicts"]) == ["0000:03:00.0"]
    assert [(i["address"], i["kind"]) for i in result["ignored"]] == [
        ("0000:03:00.1", "audio"),
        ("0000:0f:00.0", "igpu"),
    ]


def test_the_am5_host_as_lspci_text() -> None:
    result = analyse_text((FIXTURES / "am5.txt").read_text())
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:0b:00.0": "missing"}
    assert result["gpus"][1]["deciding"]["hops"] == ["0000:05:00.0", "0000:06:09.0"]
    assert [hop["address"] for hop in result["gpus"][1]["chain"]] == [
        "0000:0a:00.0",
        "0000:09:00.0",
        "0000:06:09.0",
        "0000:05:00.0",
        "0000:00:02.1",
    ]
    assert [i["kind"] for i in result["ignored"]] == ["audio", "audio", "igpu", "audio"]
