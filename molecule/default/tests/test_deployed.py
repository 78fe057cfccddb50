"""What the deploy put there, beyond the contract."""

import json

from contract import QUADLET_DIR, REPLICAS, SERVICES, as_user, containers, unit_properties

testinfra_hosts = ["ansible://dankserver"]

KNOBS = {"TP": "1", "MAXLEN": "114688", "KV_MEM": "0", "MAXSEQS": "4", "CHUNK": "8192", "GPU_UTIL": "0.98", "SPEC": "7"}


def test_the_target_shape_is_not_installed(host):
    assert not host.file(f"{QUADLET_DIR}/frank-medium.container").exists


def test_containers_carry_the_spec_of_the_installed_unit(host):
    for container in containers(host):
        [name] = container["Names"]
        unit = host.file(f"{QUADLET_DIR}/{name}.container").content_string
        assert f"Label=io.frank-fleet.spec={container['Labels']['io.frank-fleet.spec']}" in unit.splitlines()


def test_every_container_runs_the_image_behind_the_tag(host):
    image = as_user(host, "podman image inspect --format '{{.Id}}' localhost/radiance-vllm:0.9.3")
    assert {container["ImageID"] for container in containers(host)} == {image}


def test_each_replica_sees_its_own_card_and_its_knobs(host):
    for gpu, name in enumerate(REPLICAS):
        [inspected] = json.loads(as_user(host, f"podman container inspect {name}"))
        environment = dict(entry.split("=", 1) for entry in inspected["Config"]["Env"])
        assert environment["HIP_VISIBLE_DEVICES"] == str(gpu)
        assert "ROCR_VISIBLE_DEVICES" not in environment
        assert KNOBS.items() <= environment.items()


def test_the_engine_got_a_zero_as_a_zero(host):
    command = as_user(host, "podman top frank-medium-a args")
    assert "--kv-cache-memory 0" in command


def test_replicas_answer_on_their_own_ports(host):
    for port in (7771, 7772):
        models = json.loads(host.check_output(f"curl -sS -m 20 http://127.0.0.1:{port}/v1/models"))
        assert [model["id"] for model in models["data"]] == ["frank-medium"]


def test_the_entrypoint_says_what_it_skipped(host):
    log = as_user(host, "podman logs frank-medium-a 2>&1")
    assert "/patches is empty: no patches applied" in log
    assert "/r4d is empty: the image keeps its own r4d.so" in log


def test_restart_and_timeouts_are_what_the_unit_asks_for(host):
    for service in SERVICES:
        properties = unit_properties(host, service, "Restart", "NRestarts", "NeedDaemonReload")
        assert properties == {"Restart": "on-failure", "NRestarts": "0", "NeedDaemonReload": "no"}, service
