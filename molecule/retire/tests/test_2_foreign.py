"""What somebody else holds is named with the way to free it, before anything is changed."""

import pytest
from contract import QUADLET_DIR, as_user
from deploying import deploy, fleet, refused
from engines import SLOW, started

OTHER = {"name": "frank-medium-c", "gpu": 2, "port": 7773}
WANTED = {"vllm_replica_environment_extra": SLOW, "llm_fleet": {**fleet(), "replicas": [*fleet()["replicas"], OTHER]}}


@pytest.mark.parametrize(
    ("make", "undo", "words"),
    [
        (
            "podman run --detach --name frank-medium-c --entrypoint sleep localhost/radiance-vllm:0.9.3 600",
            "podman rm --force --time 0 frank-medium-c",
            "another container has the name frank-medium-c",
        ),
        (
            "printf '[Container]\\nImage=localhost/x:1\\n' > .config/containers/systemd/frank-medium-c.container",
            "rm .config/containers/systemd/frank-medium-c.container",
            "the unit frank-medium-c is not one of frank-fleet",
        ),
        (
            "printf '[Service]\\nExecStart=true\\n' > .config/systemd/user/frank-medium-c.service",
            "rm .config/systemd/user/frank-medium-c.service",
            "another unit has the name frank-medium-c",
        ),
        (
            "systemd-run --user --quiet --unit=squatter python3 -m http.server 7773 && sleep 1",
            "systemctl --user stop squatter",
            "port 7773 of frank-medium-c is taken",
        ),
    ],
    ids=["container", "unit file", "service", "port"],
)
def test_a_holder_is_refused(host, make: str, undo: str, words: str) -> None:
    before, units = started(host), host.file(QUADLET_DIR).listdir()
    as_user(host, make)
    try:
        assert words in refused(**WANTED)
        names = {name for name in started(host) if name != "frank-medium-c"}
        assert names == set(before) and {n: started(host)[n] for n in before} == before
        assert set(host.file(QUADLET_DIR).listdir()) - {"frank-medium-c.container"} == set(units)
    finally:
        as_user(host, undo)


def test_a_unit_of_somebody_else_is_kept_when_it_is_replaced(host):
    text = "[Container]\nImage=localhost/x:1\n# by hand\n"
    as_user(host, f"printf '{text}' > .config/containers/systemd/frank-medium-c.container")
    deploy(**WANTED, llm_adopt=True)
    assert "# by hand" in as_user(host, "cat .AGENTTRASH/*/frank-medium-c.container")
    assert "frank-medium-c" in started(host)
