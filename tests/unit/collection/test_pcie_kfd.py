"""KFD topology: which link is read, what its flags mean, which nodes are cards."""

from __future__ import annotations

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.pcie_kfd import Node, Topology, judge, parse_properties

GPU = {"simd_count": 128, "cpu_cores_count": 0, "location_id": 0x0300, "domain": 0}
CPU = {"cpu_cores_count": 32, "simd_count": 0}


def topology(flags: int, node_to: int = 0) -> Topology:
    link = {"type": 2, "node_to": node_to, "flags": flags}
    return Topology([Node(0, CPU), Node(1, GPU, [link]), Node(2, {**GPU, "location_id": 0x0800})], present=True)


@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        (1, "ok"),
        (3, "ok"),
        (13, "missing"),
        (15, "missing"),
        (5, "missing"),
        (9, "missing"),
        (29, "missing"),
        (17, "ok"),
        (0, "unknown"),
        (12, "unknown"),
        (2147483649, "ok"),
        (2147483661, "missing"),
    ],
)
def test_flags_of_the_link_from_gpu_to_cpu(flags: int, verdict: str) -> None:
    assert judge(topology(flags), "0000:03:00.0").verdict == verdict


def test_the_bits_are_named() -> None:
    assert "NO_ATOMICS_64_BIT set (flags 9)" in judge(topology(9), "0000:03:00.0").faults[0].bit


def test_a_link_to_another_gpu_says_nothing() -> None:
    finding = judge(topology(13, node_to=2), "0000:03:00.0")
    assert (finding.verdict, finding.faults) == ("unknown", [])
    assert "no link to a CPU node" in finding.detail


def test_the_cpu_side_of_the_link_is_not_read() -> None:
    cpu = Node(0, CPU, [{"type": 2, "node_to": 1, "flags": 13}])
    gpu = Node(1, GPU, [{"type": 2, "node_to": 0, "flags": 1}])
    assert judge(Topology([cpu, gpu], present=True), "0000:03:00.0").verdict == "ok"


def test_no_topology_and_no_node_are_told_apart() -> None:
    assert "no KFD topology" in judge(Topology(), "0000:03:00.0").detail
    assert "no node for this GPU" in judge(topology(1), "0000:44:00.0").detail


def test_properties_are_read_by_name_whatever_their_order_and_size() -> None:
    text = "flags 2147483661\nname gfx1201\nnode_to 0\n\nweight\nlatency 1 2\n"
    assert parse_properties(text) == {"flags": 2147483661, "node_to": 0}
    assert parse_properties(None) == {}


def test_location_is_decoded_with_its_domain() -> None:
    node = Node(1, {"simd_count": 1, "location_id": 0xE1 << 8 | 2 << 3 | 1, "domain": 0x10000})
    assert node.address == "10000:e1:02.1"


@pytest.mark.parametrize(
    ("node", "integrated"),
    [
        (Node(1, {**GPU, "gfx_target_version": 120001}, heaps=[1]), False),
        (Node(1, {**GPU, "gfx_target_version": 100306}, heaps=[1]), True),
        (Node(1, {**GPU, "cpu_cores_count": 8}), True),
        (Node(1, GPU, heaps=[0]), True),
        (Node(1, GPU), False),
    ],
)
def test_processor_graphics_nodes(node: Node, integrated: bool) -> None:
    assert node.is_integrated is integrated
