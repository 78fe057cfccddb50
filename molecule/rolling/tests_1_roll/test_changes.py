"""Each kind of change restarts what it concerns, one at a time, and no client loses anything."""

from contract import REPLICAS
from deploying import deploy, fleet
from engines import BOTH_UP, SLOW, images, knob, new_image, restarted, settle, started

PROXY = "frank-medium-proxy"


CHANGED = fleet()
CHANGED["replicas"][1]["knobs"] = {"MAXSEQS": 3}


def test_a_knob_of_one_replica(host, traffic):
    before = started(host)
    deploy(vllm_replica_environment_extra=SLOW, llm_fleet=CHANGED)
    assert restarted(host, before) == ["frank-medium-b"]
    assert (knob(host, "frank-medium-a", "MAXSEQS"), knob(host, "frank-medium-b", "MAXSEQS")) == ("4", "3")
    settle(host, BOTH_UP)


def test_the_image(host, traffic):
    before, image = started(host), new_image(host, "newer")
    # With streams open all the time no quiet moment comes.
    deploy(vllm_replica_environment_extra=SLOW, llm_fleet=CHANGED, routing_proxy_quiet_timeout=5)
    assert restarted(host, before) == [*REPLICAS, PROXY], "one after the other"
    assert set(images(host).values()) == {image}
    settle(host, BOTH_UP)


def test_the_proxy(host, traffic):
    before = started(host)
    deploy(
        vllm_replica_environment_extra=SLOW,
        llm_fleet=CHANGED,
        routing_proxy_environment_extra={"HEALTH_INTERVAL": "1"},
        routing_proxy_quiet_timeout=5,
    )
    assert restarted(host, before) == [PROXY]
    settle(host, BOTH_UP)


def test_nothing(host):
    before = started(host)
    told = deploy(
        vllm_replica_environment_extra=SLOW,
        llm_fleet=CHANGED,
        routing_proxy_environment_extra={"HEALTH_INTERVAL": "1"},
    )
    assert "changed=0" in told and restarted(host, before) == []
