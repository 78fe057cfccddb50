"""A sound host is green, in one short table, and is left as it is."""

import json

import yaml
from conftest import PROJECT

testinfra_hosts = ["ansible://dankserver"]

DUMP = "tests/fixtures/pcie/am5.txt"
ROWS = ("shape", "GPUs", "podman", "user", "ports", "folders", "disk", "clock")


def test_a_sound_host_gets_a_table(playbook, listing):
    before = listing()
    result = playbook("playbooks/preflight.yml")
    assert result.returncode == 0, result.stdout
    assert "dankserver is ready." in result.stdout
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert [row for row in ROWS if not any(line.startswith(f"{row} ") for line in lines)] == []
    assert listing() == before


def test_a_dump_is_analysed_without_the_host(playbook):
    result = playbook("playbooks/preflight.yml", "-e", f"pcie_atomics_dump={DUMP}", "-e", "ansible_host=192.0.2.1")
    assert result.returncode == 0, result.stdout
    assert "0b:00.0 sits behind 05:00.0 and 06:09.0, which do not route AtomicOps" in result.stdout
    assert "shape auto is replicas there" in result.stdout
    assert "unreachable=0" in result.stdout and "host_preflight" not in result.stdout


def test_the_shape_is_known_for_any_tag(playbook):
    for tree, has_proxy in (("threadripper", False), ("am5", True)):
        arguments = ("--check", "--tags", "routing_proxy", "-e", f"host_preflight_pcie_root=/srv/pcie/{tree}")
        result = playbook("site.yml", *arguments)
        assert result.returncode == 0, result.stdout
        assert ("(item=frank-medium-proxy)" in result.stdout) is has_proxy


def test_tp2_is_refused_without_atomics_even_where_the_preflight_is_skipped(playbook):
    arguments = ("-e", "llm_shape=tp2", "-e", "host_preflight_pcie_root=/srv/pcie/am5")
    result = playbook("site.yml", "--tags", "retired_units", *arguments)
    assert result.returncode != 0
    assert "shape tp2 is refused on dankserver: PCIe AtomicOps of 0b:00.0 are missing" in result.stdout + result.stderr


def test_an_operator_can_override_the_refusal(playbook):
    arguments = ("-e", "llm_shape=tp2", "-e", "llm_shape_override=true")
    result = playbook("playbooks/preflight.yml", *arguments, "-e", "host_preflight_pcie_root=/srv/pcie/am5")
    assert result.returncode == 0, result.stdout
    assert "shape tp2 is overridden by the operator" in result.stdout


def test_a_shape_that_was_measured_not_to_fit_is_a_warning_that_stops_nothing(playbook):
    fleet = yaml.safe_load((PROJECT / "inventory/group_vars/frank_medium/fleet.yml").read_text())["llm_fleet"]
    fleet["knobs"]["MAXLEN"] = 131072
    arguments = ("-e", json.dumps({"llm_fleet": fleet}), "-e", "host_preflight_pcie_root=/srv/pcie/am5")
    result = playbook("playbooks/preflight.yml", *arguments)
    assert result.returncode == 0, result.stdout
    read = " ".join(result.stdout.split())
    assert "2 warnings, which stop nothing: - frank-medium-a: MAXLEN=131072 with CHUNK=8192 does not fit" in read
