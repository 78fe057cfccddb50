"""One engine over both cards serves the endpoint, and nothing of the replicas is left."""

import json

from contract import ENDPOINT, unit_properties
from remains import all_containers, manifest_units, open_ports, services, unit_files

testinfra_hosts = ["ansible://dankserver"]


def test_the_one_unit_is_all_there_is(host):
    assert unit_files(host) == {"frank-medium.container"}
    assert services(host) == {"frank-medium.service"}
    assert all_containers(host) == {"frank-medium"}
    assert manifest_units(host) == {"frank-medium.container"}


def test_it_alone_listens(host):
    assert open_ports(host) == {7770}


def test_it_runs_and_comes_back_at_boot(host):
    properties = unit_properties(host, "frank-medium", "ActiveState", "SubState", "NRestarts", "WantedBy")
    assert properties == {
        "ActiveState": "active", "SubState": "running", "NRestarts": "0", "WantedBy": "default.target",
    }  # fmt: skip


def test_it_spans_both_cards(host):
    unit = host.file("/home/dank/.config/containers/systemd/frank-medium.container").content_string.splitlines()
    assert {"Environment=TP=2", "Environment=HIP_VISIBLE_DEVICES=0,1", "Environment=KV_MEM=18563072000"} <= set(unit)


def test_the_endpoint_completes(host):
    body = json.dumps({"model": "frank-medium", "messages": [{"role": "user", "content": "Say OK"}], "max_tokens": 8})
    command = f"curl -sS -m 30 -H 'Content-Type: application/json' -d '{body}' {ENDPOINT}/v1/chat/completions"
    completion = json.loads(host.check_output(command))
    assert completion["model"] == "frank-medium"
    assert completion["choices"][0]["message"]["content"]
