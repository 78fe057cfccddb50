"""Replicas that are renamed or removed in the inventory: drained, stopped, in the trash, and nothing left of them."""

from typing import Any

from contract import QUADLET_DIR, as_user
from deploying import deploy, fleet, refused
from engines import BOTH_UP, SLOW, restarted, settle, started

A, B = {"name": "frank-medium-a", "gpu": 0, "port": 7771}, {"name": "frank-medium-b", "gpu": 1, "port": 7772}
C, D = {**A, "name": "frank-medium-c"}, {**B, "name": "frank-medium-d"}


def serving(*replicas: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the variables of a deploy with these replicas."""
    return {"vllm_replica_environment_extra": SLOW, "llm_fleet": {**fleet(), "replicas": list(replicas)}, **more}


def nothing_is_left_of(host: Any, name: str) -> None:
    """No file, no unit, no container; the file is in the trash."""
    assert not host.file(f"{QUADLET_DIR}/{name}.container").exists
    assert as_user(host, f"systemctl --user show {name}.service -p LoadState -p ActiveState --value").split() == [
        "not-found",
        "inactive",
    ]
    assert as_user(host, f"podman ps --all --quiet --filter name={name}") == ""
    assert as_user(host, f"ls .AGENTTRASH/*/{name}.container")
    assert name not in as_user(host, "cat .local/share/frank-fleet/manifest.json")


def test_a_renamed_replica(host, traffic):
    before = started(host)
    deploy(**serving(C, B))
    nothing_is_left_of(host, "frank-medium-a")
    settle(host, {"frank-medium-c": "up", "frank-medium-b": "up"})
    assert started(host)["frank-medium-b"] == before["frank-medium-b"]


def test_a_removed_replica(host):
    deploy(**serving(B))
    nothing_is_left_of(host, "frank-medium-c")
    settle(host, {"frank-medium-b": "up"})


def test_the_last_one_is_not_retired_unless_told_so(host):
    before = started(host)
    told = refused(**serving(D))
    assert "frank-medium-b is the last replica that serves" in told and "llm_allow_outage=true" in told
    assert started(host) == before
    settle(host, {"frank-medium-b": "up"})
    deploy(**serving(D), llm_allow_outage="true")
    nothing_is_left_of(host, "frank-medium-b")
    settle(host, {"frank-medium-d": "up"})


def test_all_at_once_are_not_retired_one_by_one(host):
    deploy(**serving(A, B), llm_allow_outage="true")
    before = started(host)
    told = refused(**serving(C, D))
    assert "the last replica that serves" in told and started(host) == before
    settle(host, BOTH_UP)


def test_a_container_whose_unit_was_deleted_by_hand(host):
    as_user(host, "rm .config/containers/systemd/frank-medium-a.container && systemctl --user daemon-reload")
    assert "frank-medium-a" in started(host), "it runs on, and nothing can stop it by its name"
    deploy(**serving(B))
    assert set(started(host)) == {"frank-medium-b", "frank-medium-proxy"}


def test_a_unit_that_comes_back_from_the_trash(host):
    found = as_user(host, "ls -d .AGENTTRASH/*/frank-medium-a.container | tail -n 1")
    as_user(host, f"cp -n {found} .config/containers/systemd/ && systemctl --user daemon-reload")
    before = started(host)
    as_user(host, "systemctl --user start frank-medium-a")
    assert restarted(host, {**before, "frank-medium-a": 0}) == ["frank-medium-a"]
    deploy(**serving(A, B))
    settle(host, BOTH_UP)


def test_a_unit_that_has_failed_for_good(host):
    as_user(host, "systemctl --user stop frank-medium-a")
    edits = "-e 's|^Entrypoint=.*|Entrypoint=/bin/false|' -e 's|^RestartSec=.*|RestartSec=0.1|'"
    as_user(host, f"sed -i {edits} .config/containers/systemd/frank-medium-a.container")
    as_user(host, "systemctl --user daemon-reload; systemctl --user start --no-block frank-medium-a; sleep 8")
    result = as_user(host, "systemctl --user show frank-medium-a -p ActiveState --value")
    assert result == "failed", result
    deploy(**serving(B))
    nothing_is_left_of(host, "frank-medium-a")
