"""A process receives what the inventory says: through generator, systemd and podman, on a real host."""

import json
import shlex

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.quoting import environment_lines, systemd_quote
from contract import QUADLET_DIR, USER, as_user
from units.test_quoting import AWKWARD

testinfra_hosts = ["ansible://dankserver"]

SEEN = f"/home/{USER}/quoting"
# Written by the process itself: neither podman's nor the journal's idea of its words comes between.
RECORD = "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open('/seen/seen.json', 'w'))"


def unit(words: list[str], environment: dict[str, str]) -> str:
    lines = [
        "[Container]",
        "Image=localhost/radiance-vllm:0.9.3",
        "Pull=never",
        "Entrypoint=/usr/bin/python3",
        f"Volume={SEEN}:/seen",
        environment_lines(environment),
        "Exec=" + " ".join(systemd_quote(word) for word in ["-c", RECORD, *words]),
        "[Service]",
        "Type=oneshot",
        "[Quadlet]",
        "DefaultDependencies=false",
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def seen(host):
    file = f"{QUADLET_DIR}/quoting.container"
    environment = {f"AWKWARD_{number}": value for number, value in enumerate(AWKWARD)}
    try:
        as_user(host, f"mkdir {SEEN} && printf %s {shlex.quote(unit(AWKWARD, environment))} > {file}")
        as_user(host, "systemctl --user daemon-reload && systemctl --user start quoting.service")
        yield json.loads(host.file(f"{SEEN}/seen.json").content), environment
    finally:
        as_user(host, f"rm -rf {file} {SEEN} && systemctl --user daemon-reload")


def test_the_process_receives_what_was_meant(seen):
    (words, received), environment = seen
    assert words == AWKWARD
    assert {name: received[name] for name in environment} == environment
