"""Replicas and proxy hold the whole contract, and nothing of the TP=2 engine is left."""

import pytest
from contract import CONTRACT
from remains import all_containers, manifest_units, open_ports, services, trash, unit_files

testinfra_hosts = ["ansible://dankserver"]
NAMES = ("frank-medium-a", "frank-medium-b", "frank-medium-proxy")


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(host, check):
    check(host)


def test_the_three_units_are_all_there_is(host):
    assert unit_files(host) == {f"{name}.container" for name in NAMES}
    assert services(host) == {*(f"{name}.service" for name in NAMES), "frank-medium-proxy.socket"}
    assert all_containers(host) == set(NAMES)
    assert manifest_units(host) == {f"{name}.container" for name in NAMES}


def test_each_listens_on_its_port(host):
    assert open_ports(host) == {7769, 7770, 7771, 7772}


def test_nothing_was_lost(host):
    """The retired unit is in the trash, and so is the one that a killed run had written and that was replaced."""
    texts = trash(host).values()
    assert any("Environment=TP=2" in text for text in texts)
    assert any("# Written by a run that was killed" in text for text in texts)
