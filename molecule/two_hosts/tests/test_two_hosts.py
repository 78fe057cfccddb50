"""Replicas on two hosts are rolled like those of one, through the one proxy."""

from typing import Any

import pytest
import testinfra
from contract import as_user
from deploying import INVENTORY, deploy, fleet, refused
from engines import BOTH_UP, SLOW, knob, restarted, settle, started

testinfra_hosts = ["ansible://dankserver"]


def over_two(last: dict[str, Any] | None = None, **knobs: Any) -> dict[str, Any]:
    """Return the variables of a deploy of the fleet over both hosts; `last` are knobs of the second replica alone."""
    known = fleet(**knobs)
    here, there = known["replicas"]
    replicas = [here, {**there, "host": "cardserver", "knobs": last or {}}]
    return {"vllm_replica_environment_extra": SLOW, "llm_fleet": {**known, "host": "dankserver", "replicas": replicas}}


@pytest.fixture(scope="module")
def other() -> Any:
    """The second host."""
    return testinfra.get_host(f"ansible://cardserver?ansible_inventory={INVENTORY}")


def test_each_runs_its_part(host, other):
    deploy(**over_two())
    assert set(started(host)) == {"frank-medium-a", "frank-medium-proxy"}
    assert set(started(other)) == {"frank-medium-b"}
    settle(host, BOTH_UP)


def test_a_change_of_both_is_rolled_host_after_host(host, other, traffic):
    before, there = started(host), started(other)
    deploy(**over_two(MAXSEQS=3))
    assert restarted(host, before) == ["frank-medium-a"] and restarted(other, there) == ["frank-medium-b"]
    assert started(host)["frank-medium-a"] < started(other)["frank-medium-b"]
    settle(host, BOTH_UP)


def test_a_limit_touches_one_host_and_loses_no_backend(host, other, traffic):
    before, there = started(host), started(other)
    deploy("-l", "cardserver", **over_two(MAXSEQS=3, last={"MAXSEQS": 2}))
    assert restarted(host, before) == [] and restarted(other, there) == ["frank-medium-b"]
    assert knob(other, "frank-medium-b", "MAXSEQS") == "2"
    settle(host, BOTH_UP)


def test_the_last_that_serves_is_on_another_host_than_the_proxy(host, other):
    as_user(host, "systemctl --user stop frank-medium-a")
    settle(host, {"frank-medium-a": "down", "frank-medium-b": "up"})
    there = started(other)
    told = refused("-l", "cardserver", **over_two(MAXSEQS=3, last={"MAXSEQS": 1}))
    assert "frank-medium-b is the last replica that serves" in told and restarted(other, there) == []
