"""Keys and tokens reach those who need them, and nobody else sees them."""

import threading

from contract import as_user
from deploying import deploy
from engines import SLOW, restarted, started

KEY, OTHER, TOKEN = "s3cr3t-SENTINEL-0001", "s3cr3t-SENTINEL-0002", "hf_s3cr3t-SENTINEL-0003"
STATUS = "curl -sS -o /dev/null -w '%{http_code}' http://127.0.0.1:7770/v1/models"
WITH = {"vllm_replica_environment_extra": SLOW, "vllm_replica_hf_token": TOKEN}


def arguments_seen(host, over: threading.Event, found: list[str]) -> None:
    """Note every command line on the host that shows a secret."""
    while not over.wait(0.2):
        found += [line for line in host.run("ps -eo args").stdout.splitlines() if "SENTINEL" in line]


def test_they_are_shown_nowhere(host):
    over, found = threading.Event(), []
    watch = threading.Thread(target=arguments_seen, args=(host, over, found))
    watch.start()
    try:
        told = deploy("-vvv", "--diff", **WITH, routing_proxy_api_keys=[KEY])
    finally:
        over.set()
        watch.join()
    # The line that names the command is the test's own: a vault would not be on it.
    assert "SENTINEL" not in told and found == []
    for place in (
        "podman inspect frank-medium-a frank-medium-proxy",
        "systemctl --user show frank-medium-a frank-medium-proxy",
        "cat .config/containers/systemd/*.container .local/share/frank-fleet/manifest.json",
    ):
        assert "SENTINEL" not in as_user(host, place), place
    assert "SENTINEL" not in host.check_output("journalctl --no-pager")
    readable = host.run("grep -rl SENTINEL /home/dank/.config /home/dank/.local/share/frank-fleet").stdout.split()
    assert len(readable) == 2 and {host.file(path).mode for path in readable} == {0o600}


def test_they_work(host):
    assert as_user(host, STATUS) == "401"
    assert as_user(host, f"{STATUS} -H 'Authorization: Bearer {KEY}'") == "200"
    assert as_user(host, "podman exec frank-medium-a sh -c 'cat \"$HF_TOKEN_PATH\"'") == TOKEN


def test_another_key_needs_no_restart(host):
    before = started(host)
    deploy(**WITH, routing_proxy_api_keys=[OTHER])
    assert restarted(host, before) == []
    as_user(host, "sleep 5")  # The proxy looks at its file every 2 s.
    assert as_user(host, f"{STATUS} -H 'Authorization: Bearer {KEY}'") == "401"
    assert as_user(host, f"{STATUS} -H 'Authorization: Bearer {OTHER}'") == "200"


def test_without_them_the_files_are_gone(host):
    deploy(vllm_replica_environment_extra=SLOW)
    assert as_user(host, STATUS) == "200"
    assert host.run("grep -rl SENTINEL /home/dank/.config").stdout == ""
