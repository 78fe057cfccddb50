"""The contract holds after a reboot, with nobody logged in since."""

import pytest
from contract import CONTRACT, SERVICES, USER, as_user, endpoint_names_both_replicas_up, journal
from waiting import wait_until

testinfra_hosts = ["ansible://dankserver"]


def boot_time(host) -> float:
    """Seconds since the epoch at which this boot's PID 1 came up."""
    return float(host.check_output("systemctl show --property=UserspaceTimestamp --timestamp=unix").partition("@")[2])


def test_the_host_has_rebooted(host):
    before = host.file("/root/boot_id_before").content_string
    assert before != host.check_output("cat /proc/sys/kernel/random/boot_id") + "\n"


def test_nobody_has_logged_in(host):
    assert host.check_output(f"loginctl show-user {USER} --property=State") == "State=lingering"
    assert f"session opened for user {USER}" not in host.check_output(
        "journalctl -b -t sshd -t sshd-session -t login -o cat"
    )


def test_both_replicas_are_up_within_a_minute(host):
    wait_until(lambda: endpoint_names_both_replicas_up(host), seconds=60, context=lambda: journal(host))


def test_systemd_held_the_endpoint_before_the_proxy_was_there(host):
    unit, since = "frank-medium-proxy", "ActiveEnterTimestampMonotonic"
    socket, service = (
        dict(line.split("=", 1) for line in as_user(host, f"systemctl --user show {unit}.{kind}").splitlines())
        for kind in ("socket", "service")
    )
    assert socket["ActiveState"] == "active" and "sockets.target" in socket["WantedBy"].split()
    assert 0 < int(socket[since]) <= int(service[since])


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(host, check):
    check(host)


def test_containers_are_younger_than_the_boot(host):
    for service in SERVICES:
        started = as_user(host, f"podman inspect --format '{{{{.State.StartedAt.Unix}}}}' {service}")
        assert float(started) >= boot_time(host), service
