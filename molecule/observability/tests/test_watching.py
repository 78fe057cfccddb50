"""Prometheus scrapes the whole fleet; a replica that dies fires its alert alone, and its return ends it."""

import json
import time
from typing import Any

import pytest
from contract import REPLICAS, as_user
from deploying import PROJECT, run

WATCH = "molecule/observability/watch.yml"
CONFIG = "/etc/prometheus/prometheus.yml"
OURS = "/etc/prometheus/frank-fleet"


def ask(host: Any, path: str) -> Any:
    """Return what Prometheus' API answers."""
    return json.loads(host.check_output(f"curl -sS -m 10 'http://127.0.0.1:9090{path}'"))["data"]


def firing(host: Any) -> set[tuple[str, str]]:
    """Return the alerts that fire, with the replica that each is about."""
    alerts = ask(host, "/api/v1/alerts")["alerts"]
    return {(a["labels"]["alertname"], a["labels"].get("replica", "")) for a in alerts if a["state"] == "firing"}


def until(what: Any, seconds: float) -> Any:
    """Ask until the answer is true or the time is over; return the last answer."""
    deadline = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < deadline:
        time.sleep(1)
    return found


def targets(host: Any) -> dict[tuple[str, str], str]:
    """Return the health of each target by its job and replica."""
    active = ask(host, "/api/v1/targets?state=active")["activeTargets"]
    return {(t["labels"]["job"], t["labels"].get("replica", "")): t["health"] for t in active}


def installed(host: Any) -> str:
    """Return everything that is configured."""
    return str(host.check_output(f"cat {CONFIG} {OURS}/*"))


def test_every_target_is_scraped(host):
    wanted = {
        ("prometheus", ""): "up",
        ("frank-medium-proxy", ""): "up",
        **{("frank-medium", replica): "up" for replica in REPLICAS},
    }
    assert until(lambda: targets(host) == wanted, 30), targets(host)


def test_the_configuration_of_somebody_else_is_as_it_was(host):
    text = host.file(CONFIG).content_string
    assert "# Somebody else's configuration" in text and "scrape_interval: 1s     # was 15s" in text
    assert text.count("frank-fleet/") == 2 and '# - "first_rules.yml"' in text


def test_the_metrics_of_engines_and_proxy_arrive(host):
    for query in ("vllm:kv_cache_usage_perc", "routing_proxy_replica_up"):
        found = until(lambda query=query: ask(host, f"/api/v1/query?query={query}")["result"], 20)
        assert {series["metric"]["replica"] for series in found} == set(REPLICAS)


def test_nothing_fires_at_rest(host):
    assert until(lambda: not firing(host), 60) and firing(host) == set()


def test_a_replica_that_is_down_fires_its_alert_and_no_other(host):
    as_user(host, "systemctl --user stop frank-medium-b")
    try:
        assert until(lambda: firing(host), 60) == {("FleetReplicaDown", "frank-medium-b")}
    finally:
        as_user(host, "systemctl --user start frank-medium-b")
    assert until(lambda: not firing(host), 90), firing(host)


def test_the_alert_and_its_end_were_told_to_the_webhook(host):
    def told() -> list[tuple[str, str]]:
        notes = [json.loads(line) for line in host.run("cat /srv/alerts").stdout.splitlines() if line]
        return [(alert["labels"]["alertname"], alert["status"]) for note in notes for alert in note["alerts"]]

    wanted = [("FleetReplicaDown", "firing"), ("FleetReplicaDown", "resolved")]
    assert until(lambda: set(told()) == set(wanted), 60), told()


@pytest.mark.parametrize("limit", [(), ("-l", "monitoring"), ("-l", "dankserver")])
def test_no_limit_loses_a_target(host, limit):
    before = installed(host)
    done = run(WATCH, *limit)
    assert done.returncode == 0 and "changed=0" in done.stdout, done.stdout[-3000:]
    assert installed(host) == before


def test_rules_that_prometheus_cannot_read_leave_everything_as_it_was(host):
    before = installed(host)
    done = run(WATCH, _prometheus_rules_text="groups: [{name: x, rules: [{alert: A, expr: 'up{'}]}]")
    assert done.returncode != 0 and "promtool refuses the files, nothing was changed" in done.stdout
    assert installed(host) == before and targets(host)


def test_a_reload_that_is_refused_puts_the_old_files_back(host):
    before = installed(host)
    done = run(WATCH, prometheus_rules_faster=61, prometheus_rules_reload=["false"])
    assert done.returncode != 0 and "the old ones are back" in done.stdout
    assert installed(host) == before


def test_a_file_that_was_written_but_not_loaded_is_loaded_by_the_next_run(host):
    host.check_output(f"touch {OURS}/frank-fleet.rules.yml")
    done = run(WATCH)
    assert done.returncode == 0 and "changed=1" in done.stdout, done.stdout[-3000:]
    assert (PROJECT / WATCH).exists()
