"""A change that cannot work ends before it harms, and says why."""

import json

import pytest
from contract import REPLICAS, as_user
from deploying import deploy, fleet, refused, run
from engines import BOTH_UP, SLOW, images, knob, new_image, restarted, settle, started, unit_file

# More context than one card carries: the engine itself refuses to start with it.
TOO_LONG = fleet(MAXLEN=262144)


@pytest.fixture(scope="module", autouse=True)
def sound(host):
    """The fleet as the inventory has it."""
    deploy(vllm_replica_environment_extra=SLOW)


def test_the_prediction_names_what_would_restart(host):
    before = started(host)
    done = run("site.yml", "--check", "--diff", vllm_replica_environment_extra=SLOW, llm_fleet=TOO_LONG)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "+Environment=MAXLEN=262144" in done.stdout
    assert restarted(host, before) == []
    settle(host, BOTH_UP)


def test_an_engine_that_refuses_to_start_is_undone(host, traffic):
    before, units = started(host), [unit_file(host, replica) for replica in REPLICAS]
    told = refused(vllm_replica_environment_extra=SLOW, llm_fleet=TOO_LONG)
    assert "KV cache" in told and "The end of its journal" in told and "What was ready before is back" in told
    assert restarted(host, before) == ["frank-medium-a"], "the second one was never touched"
    assert [unit_file(host, replica) for replica in REPLICAS] == units
    assert knob(host, "frank-medium-a", "MAXLEN") == "114688"
    settle(host, BOTH_UP)


def test_an_image_that_does_not_start_is_undone(host):
    good, before = images(host), started(host)
    new_image(host, "broken")
    told = refused(vllm_replica_environment_extra={**SLOW, "SIM_BOOT_ERROR": "out-of-memory"})
    assert "What was ready before is back" in told
    assert restarted(host, before) == ["frank-medium-a"] and images(host) == good
    settle(host, BOTH_UP)


def test_without_rollback_the_rest_serves_on_and_the_fault_can_be_looked_at(host):
    before = started(host)
    refused(vllm_replica_environment_extra=SLOW, llm_fleet=TOO_LONG, llm_rollback="false")
    settle(host, {"frank-medium-a": "down", "frank-medium-b": "up"})
    assert "MAXLEN=262144" in unit_file(host, "frank-medium-a")
    assert "MAXLEN=114688" in unit_file(host, "frank-medium-b"), "a reboot brings it back as it is"
    assert started(host)["frank-medium-b"] == before["frank-medium-b"]
    deploy(vllm_replica_environment_extra=SLOW)
    settle(host, BOTH_UP)
    assert knob(host, "frank-medium-a", "MAXLEN") == "114688"


@pytest.fixture
def one_is_down(host):
    """What an operator stopped or an engine's end left."""
    as_user(host, "systemctl --user stop frank-medium-b")
    settle(host, {"frank-medium-a": "up", "frank-medium-b": "down"})


def test_what_does_not_hold_is_a_line_and_an_exit_code(one_is_down, tmp_path):
    verified = run("playbooks/verify.yml", verify_json=str(tmp_path / "verify.json"))
    assert verified.returncode != 0 and "FAIL  frank-medium-b        unit" in verified.stdout
    findings = json.loads((tmp_path / "verify.json").read_text())["findings"]
    assert {found["check"] for found in findings if not found["ok"]} == {"unit", "container", "completion", "health"}


def test_one_that_is_down_goes_first_so_that_the_other_can_follow(host, one_is_down, traffic):
    before = {**started(host), "frank-medium-b": 0}
    deploy(vllm_replica_environment_extra=SLOW, llm_fleet=fleet(MAXLEN=100000))
    assert restarted(host, before) == ["frank-medium-b", "frank-medium-a"]
    settle(host, BOTH_UP)
    assert knob(host, "frank-medium-a", "MAXLEN") == knob(host, "frank-medium-b", "MAXLEN") == "100000"
