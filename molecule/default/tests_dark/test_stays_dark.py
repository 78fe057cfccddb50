"""Without linger nothing comes back: proof that the reboot test measures the boot, and not a login of its own."""

import time

import pytest
from contract import UID, linger_is_on

testinfra_hosts = ["ansible://dankserver"]

# With linger the endpoint answers within about 10 s of the boot.
DARK_SECONDS = 20


def test_nothing_answers(host):
    deadline = time.monotonic() + DARK_SECONDS
    while time.monotonic() < deadline:
        assert host.run("curl -sS -m 2 http://127.0.0.1:7770/health").rc != 0
        time.sleep(1)


def test_no_user_manager_runs(host):
    assert not host.file(f"/run/user/{UID}").exists


def test_the_contract_says_so(host):
    with pytest.raises(AssertionError):
        linger_is_on(host)
