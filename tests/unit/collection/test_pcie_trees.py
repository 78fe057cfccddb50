"""Captured trees: the AM5 host, one with both cards on CPU lanes, virtual machines, and one that hides everything."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.module_utils import pcie_kfd, pcie_log, pcie_lspci, pcie_sysfs
from ansible_collections.frank.fleet.plugins.module_utils.pcie_verdict import Evidence, analyse
from fixtures.pcie import trees


def evidence_of(root: Path) -> Evidence:
    """Read a tree as the module does."""
    log = root / "kernel.log"
    return Evidence(
        sysfs=pcie_sysfs.read_functions(root),
        topology=pcie_kfd.read_topology(root),
        log=pcie_log.parse(log.read_text()) if log.exists() else None,
    )


def analyse_host(host: trees.Host, root: Path) -> dict[str, Any]:
    """Build a host's tree and analyse it."""
    return analyse(evidence_of(trees.build(host, root)))


def change(host: trees.Host, address: str, **changes: Any) -> trees.Host:
    """Return the host with one device changed."""
    devices = [dataclasses.replace(d, **changes) if d.address == address else d for d in host.devices]
    return dataclasses.replace(host, devices=devices)


def sources(gpu: dict[str, Any]) -> dict[str, str]:
    """Return the verdict of each source."""
    return {s["source"]: s["verdict"] for s in gpu["sources"]}


def test_am5_first_card_is_ok_and_second_misses_at_both_chipset_ports(tmp_path: Path) -> None:
    result = analyse_host(trees.AM5, tmp_path)
    first, second = result["gpus"]
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:0b:00.0": "missing"}
    assert sources(first) == {"kfd": "ok", "config": "ok", "kernel_log": "unknown"}
    assert sources(second) == {"kfd": "missing", "config": "missing", "kernel_log": "missing"}
    assert second["reason"] == "0b:00.0 sits behind 05:00.0 and 06:09.0, which do not route AtomicOps"
    assert second["fix"].startswith("no software can change that; move the card to a CPU slot")
    assert second["deciding"] == {
        "source": "config",
        "hop": "0000:05:00.0",
        "register": "DevCap2",
        "bit": "AtomicOp routing (bit 6) is 0",
        "hops": ["0000:05:00.0", "0000:06:09.0"],
    }
    assert [(h["address"], h["routing"], h["status"]) for h in second["chain"]] == [
        ("0000:0a:00.0", True, "ok"),
        ("0000:09:00.0", True, "ok"),
        ("0000:06:09.0", False, "missing"),
        ("0000:05:00.0", False, "missing"),
        ("0000:00:02.1", True, "ok"),
    ]
    assert (first["render_node"], first["kfd_node"], first["driver"]) == ("/dev/dri/renderD128", 1, "amdgpu")
    assert (first["requester_enabled"], second["requester_enabled"]) == (True, False)
    assert first["disagreements"] == second["disagreements"] == []


def test_am5_processor_graphics_has_no_verdict(tmp_path: Path) -> None:
    ignored = analyse_host(trees.AM5, tmp_path)["ignored"]
    assert {"address": "0000:12:00.0", "ids": "1002:13c0", "kind": "igpu"} in ignored


@pytest.mark.parametrize("hide", ["kfd", "siblings"])
def test_processor_graphics_is_known_by_its_kfd_node_or_by_its_neighbours(tmp_path: Path, hide: str) -> None:
    host = dataclasses.replace(trees.AM5, kfd=[]) if hide == "kfd" else trees.AM5
    if hide == "siblings":
        host = dataclasses.replace(
            host, devices=[d for d in host.devices if d.address[:-1] != "0000:12:00." or d.render]
        )
    assert "0000:12:00.0" not in analyse_host(host, tmp_path)["verdicts"]


def test_both_cards_on_cpu_lanes_are_ok_although_their_root_ports_do_not_route(tmp_path: Path) -> None:
    result = analyse_host(trees.THREADRIPPER, tmp_path)
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:43:00.0": "ok"}
    assert result["verdict"] == "ok"
    assert [gpu["chain"][-1]["routing"] for gpu in result["gpus"]] == [False, False]


def test_vm_with_a_root_port_without_completers_is_missing_and_told_to_change_the_vm(tmp_path: Path) -> None:
    (gpu,) = analyse_host(trees.VM, tmp_path)["gpus"]
    assert gpu["verdict"] == "missing"
    assert "root port 00:02.0, which does not complete 32-bit and 64-bit AtomicOps" in gpu["reason"]
    assert "pcie-root-port" in gpu["fix"]
    assert "slot" not in gpu["fix"].split("check that")[0]


def test_vm_without_a_visible_root_port_is_unknown_although_driver_and_kfd_say_yes(tmp_path: Path) -> None:
    (gpu,) = analyse_host(trees.VM_NO_ROOT_PORT, tmp_path)["gpus"]
    assert gpu["verdict"] == "unknown"
    assert "no root port is visible above 00:05.0" in gpu["reason"]
    assert sources(gpu) == {"kfd": "unknown", "config": "unknown"}


def test_a_gpu_on_a_virtual_bus_of_any_number_has_no_root_port(tmp_path: Path) -> None:
    devices = [dataclasses.replace(d, address="0000:05:00.0") for d in trees.VM_NO_ROOT_PORT.devices]
    trees.build(trees.Host(devices), tmp_path)
    assert analyse(evidence_of(tmp_path))["verdicts"] == {"0000:05:00.0": "unknown"}


def test_vm_without_a_visible_root_port_stays_missing_when_kfd_says_so(tmp_path: Path) -> None:
    host = dataclasses.replace(trees.VM_NO_ROOT_PORT, kfd=[trees.KfdGpu("0000:00:05.0", trees.LINK_NO_ATOMICS)])
    assert analyse_host(host, tmp_path)["verdict"] == "missing"


def test_everything_unreadable_is_unknown_with_the_way_out(tmp_path: Path) -> None:
    result = analyse_host(trees.UNREADABLE, tmp_path)
    assert result["verdicts"] == {"0000:03:00.0": "unknown", "0000:0b:00.0": "unknown"}
    for gpu in result["gpus"]:
        assert sources(gpu) == {"kfd": "unknown", "config": "unknown"}
        assert "can be read by root only" in gpu["reason"]
        assert "may not be read" in gpu["reason"]
        assert gpu["fix"].startswith("run as root")
        assert gpu["deciding"] is None


def test_a_node_that_refuses_to_be_read_hides_nothing_else(tmp_path: Path) -> None:
    trees.build(trees.AM5, tmp_path)
    properties = tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties"
    properties.unlink()
    properties.mkdir()  # reading a folder is an OSError for root too, as EPERM is
    first, second = analyse(evidence_of(tmp_path))["gpus"]
    assert (first["address"], sources(first)["kfd"]) == ("0000:03:00.0", "ok")
    assert (second["address"], sources(second)["kfd"], second["verdict"]) == ("0000:0b:00.0", "unknown", "missing")


def test_kfd_alone_decides_without_root_and_says_how_to_learn_the_hop(tmp_path: Path) -> None:
    trees.build(dataclasses.replace(trees.AM5, log=None), tmp_path)
    for config in tmp_path.glob("sys/devices/**/config"):
        config.write_bytes(config.read_bytes()[:64])
    result = analyse(evidence_of(tmp_path))
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:0b:00.0": "missing"}
    second = result["gpus"][1]
    assert second["deciding"]["register"] == "KFD io_link flags"
    assert second["fix"].startswith("run as root to learn which hop")


def test_gpus_come_in_the_order_of_their_kfd_nodes(tmp_path: Path) -> None:
    host = dataclasses.replace(trees.THREADRIPPER, kfd=trees.THREADRIPPER.kfd[::-1])
    assert list(analyse_host(host, tmp_path)["verdicts"]) == ["0000:43:00.0", "0000:03:00.0"]


def test_missing_outweighs_unknown_in_the_summary(tmp_path: Path) -> None:
    trees.build(dataclasses.replace(trees.AM5, kfd=[], log=None), tmp_path)
    (config,) = tmp_path.glob("sys/devices/**/0000:03:00.0/config")
    config.write_bytes(b"\xff" * 256)
    result = analyse(evidence_of(tmp_path))
    assert (result["verdict"], result["reason"]) == ("missing", "PCIe AtomicOps of 2 GPUs: 1 missing, 1 unknown")


def test_sysfs_outranks_the_numbers_of_a_dump(tmp_path: Path) -> None:
    trees.build(dataclasses.replace(trees.AM5, kfd=[], log=None), tmp_path)
    other = change(trees.AM5, "0000:0b:00.0", ctl2=trees.REQUESTS)
    evidence = dataclasses.replace(evidence_of(tmp_path), dump=pcie_lspci.parse(trees.hex_dump(other)))
    assert analyse(evidence)["verdicts"]["0000:0b:00.0"] == "missing"


def test_a_skipped_card_behind_the_chipset_is_told_both(tmp_path: Path) -> None:
    log = "kfd kfd: amdgpu: skipped device 1002:7551, PCI rejects atomics 1850<2090"
    host = dataclasses.replace(trees.AM5, kfd=trees.AM5.kfd[:1], log=log)
    second = analyse_host(host, tmp_path)["gpus"][1]
    assert second["reason"].startswith("0b:00.0 sits behind 05:00.0 and 06:09.0")
    assert "MEC firmware" in second["reason"]
    assert "CPU slot" in second["fix"]
    assert "linux-firmware" in second["fix"]


def test_kfd_is_trusted_over_config_space_and_the_disagreement_reported(tmp_path: Path) -> None:
    host = dataclasses.replace(trees.AM5, kfd=[trees.KfdGpu(g.address, trees.LINK_OK, g.target) for g in trees.AM5.kfd])
    second = analyse_host(host, tmp_path)["gpus"][1]
    assert second["verdict"] == "ok"
    assert [n.split(":")[0] for n in second["disagreements"]] == [
        "kfd says ok, config says missing",
        "kfd says ok, kernel_log says missing",
    ]


def test_an_enabled_requester_bit_is_trusted_over_the_path(tmp_path: Path) -> None:
    host = change(dataclasses.replace(trees.AM5, kfd=[], log=None), "0000:0b:00.0", ctl2=trees.REQUESTS)
    second = analyse_host(host, tmp_path)["gpus"][1]
    assert second["verdict"] == "ok"
    assert "but 0b:00.0 sits behind 05:00.0 and 06:09.0" in second["disagreements"][0]


@pytest.mark.parametrize(("driver", "verdict"), [("amdgpu", "missing"), ("vfio-pci", "ok"), (None, "ok")])
def test_a_requester_bit_that_is_off_counts_only_when_amdgpu_left_it_so(
    tmp_path: Path, driver: str | None, verdict: str
) -> None:
    host = dataclasses.replace(trees.THREADRIPPER, kfd=[], log=None)
    gpu = analyse_host(change(host, "0000:03:00.0", ctl2=0, driver=driver), tmp_path)["gpus"][0]
    assert gpu["verdict"] == verdict
    assert "off" in gpu["disagreements"][0]


def test_one_blind_hop_makes_the_path_unknown_never_ok(tmp_path: Path) -> None:
    host = change(dataclasses.replace(trees.THREADRIPPER, kfd=[], log=None), "0000:03:00.0", ctl2=0)
    trees.build(host, tmp_path)
    (config,) = tmp_path.glob("sys/devices/**/0000:01:00.0/config")
    config.write_bytes(config.read_bytes()[:64])
    gpu = analyse(evidence_of(tmp_path))["gpus"][0]
    assert gpu["verdict"] == "unknown"
    assert "configuration space of 01:00.0" in gpu["reason"]


def test_a_card_that_fell_off_the_bus_is_unknown(tmp_path: Path) -> None:
    trees.build(dataclasses.replace(trees.THREADRIPPER, kfd=[]), tmp_path)
    (config,) = tmp_path.glob("sys/devices/**/0000:43:00.0/config")
    config.write_bytes(b"\xff" * 256)
    result = analyse(evidence_of(tmp_path))
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:43:00.0": "unknown"}
    assert "does not answer" in result["gpus"][1]["reason"]


def test_a_virtual_function_takes_its_answer_from_kfd_only(tmp_path: Path) -> None:
    trees.build(dataclasses.replace(trees.THREADRIPPER, kfd=[]), tmp_path)
    device = tmp_path / "sys/bus/pci/devices/0000:43:00.0"
    (device / "physfn").symlink_to("../0000:43:00.1")
    gpu = analyse(evidence_of(tmp_path))["gpus"][1]
    assert (gpu["kind"], gpu["verdict"]) == ("vf", "unknown")
    assert "virtual function" in gpu["reason"]


def test_a_gpu_in_a_vmd_domain_ends_at_its_own_root_port(tmp_path: Path) -> None:
    host = trees.Host(
        [
            trees.root_port("10000:e0:06.0", 0xE1, 0xE1, trees.COMPLETES, (0x8086, 0x09AB)),
            trees.Device(
                "10000:e1:00.0", trees.R9700, trees.VGA, trees.LEGACY, "10000:e0:06.0", None, trees.COMPLETES, 0x40
            ),
        ]
    )
    trees.build(host, tmp_path)
    below_vmd = tmp_path / "sys/devices/pci0000:00/0000:00:0e.0"
    below_vmd.mkdir(parents=True)
    (tmp_path / "sys/devices/pci10000:e0").rename(below_vmd / "pci10000:e0")
    for link in (tmp_path / "sys/bus/pci/devices").iterdir():
        target = str(link.readlink()).replace("pci10000:e0/", "pci0000:00/0000:00:0e.0/pci10000:e0/")
        link.unlink()
        link.symlink_to(target)
    (gpu,) = analyse(evidence_of(tmp_path))["gpus"]
    assert (gpu["address"], gpu["verdict"]) == ("10000:e1:00.0", "ok")
    assert [hop["address"] for hop in gpu["chain"]] == ["10000:e0:06.0"]


def test_kfd_is_enough_where_pci_is_hidden(tmp_path: Path) -> None:
    trees.build(trees.AM5, tmp_path)
    (tmp_path / "sys/bus/pci/devices").rename(tmp_path / "hidden")
    result = analyse(evidence_of(tmp_path))
    assert result["verdicts"] == {"0000:03:00.0": "ok", "0000:0b:00.0": "missing"}
    assert result["gpus"][0]["render_node"] == "/dev/dri/renderD128"


@pytest.mark.parametrize("name", sorted(trees.HOSTS))
def test_a_hex_dump_of_a_host_agrees_with_its_config_space(name: str, tmp_path: Path) -> None:
    host = dataclasses.replace(trees.HOSTS[name], kfd=[], log=None, privileged=True)
    from_tree = analyse_host(host, tmp_path)["verdicts"]
    dump = pcie_lspci.parse(trees.hex_dump(host))
    assert analyse(Evidence(dump=dump))["verdicts"] == from_tree
