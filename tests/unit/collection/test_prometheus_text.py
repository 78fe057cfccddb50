"""What is included in somebody else's prometheus.yml, what is scraped, and rules for a drill."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.filter import faster_rules, scrape_jobs
from ansible_collections.frank.fleet.plugins.module_utils.prometheus_text import (
    RULES,
    SCRAPES,
    UneditableError,
    alerts_in,
    with_alertmanager,
    with_includes,
)

ROOT = Path(__file__).parents[3]
FLEET = yaml.safe_load((ROOT / "inventory/group_vars/frank_medium/fleet.yml").read_text())["llm_fleet"]
jobs = scrape_jobs.FilterModule().filters()["scrape_jobs"]
faster = faster_rules.FilterModule().filters()["faster_rules"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "global: {}\n",
        "global:\n  a: 1 # x\nrule_files:\n  # - first\n\nscrape_configs: []\n",
        'rule_files:\n- "a.yml"\n- b.yml\nscrape_config_files:\n    - x.yml\n',
        "rule_files: []   # none yet\nscrape_config_files: []\n",
        "rule_files:\nscrape_configs:\n  - job_name: rule_files\n",
    ],
)
def test_two_lines_are_added_and_nothing_else_changes(text: str) -> None:
    result = with_includes(text)
    before, after = yaml.safe_load(text) or {}, yaml.safe_load(result)
    assert RULES in after.pop("rule_files") and SCRAPES in after.pop("scrape_config_files")
    assert after == {key: value for key, value in before.items() if key not in ("rule_files", "scrape_config_files")}
    assert with_includes(result) == result
    kept = [line for line in text.splitlines() if line.strip() and "[]" not in line]
    assert [line for line in kept if line not in result.splitlines()] == []


def test_entries_of_others_stay(text: str = 'rule_files:\n- "a.yml"\n- b.yml\n') -> None:
    assert yaml.safe_load(with_includes(text))["rule_files"] == [RULES, "a.yml", "b.yml"]


@pytest.mark.parametrize("text", ["rule_files: [a.yml]\n", "rule_files:\n  [a.yml]\n", "global: {}\n...\n"])
def test_what_cannot_be_extended_safely_is_left_to_its_owner(text: str) -> None:
    with pytest.raises(UneditableError, match=r"frank-fleet/\*\.rules\.yml"):
        with_includes(text)


def test_blank_lines_at_the_end_stay() -> None:
    assert with_includes("global: {}\n\n\n").startswith("global: {}\n\n\n\nrule_files:")


def test_one_job_for_engines_and_one_for_proxies() -> None:
    found = jobs({"box": FLEET}, {"box": "192.168.0.235"}, {}, ["frank-large"])
    assert found == [
        {"job_name": "frank-large", "static_configs": []},
        {
            "job_name": "frank-medium",
            "static_configs": [
                {"targets": ["192.168.0.235:7771"],
                 "labels": {"fleet": "frank-medium", "replica": "frank-medium-a", "host": "box"}},
                {"targets": ["192.168.0.235:7772"],
                 "labels": {"fleet": "frank-medium", "replica": "frank-medium-b", "host": "box"}},
            ],
        },
        {
            "job_name": "frank-medium-proxy",
            "static_configs": [{"targets": ["192.168.0.235:7770"], "labels": {"fleet": "frank-medium", "host": "box"}}],
        },
    ]  # fmt: skip


def test_the_one_engine_of_tp2_is_at_the_endpoint() -> None:
    found = jobs({"box": FLEET}, {"box": "fd00::9"}, {"box": "tp2"})
    assert [(job["job_name"], job["static_configs"][0]["targets"]) for job in found] == [
        ("frank-medium", ["[fd00::9]:7770"])
    ]


def test_several_hosts_and_fleets_share_jobs_by_name() -> None:
    spread = copy.deepcopy(FLEET)
    spread["host"], spread["replicas"][1]["host"] = "front", "back"
    large = {**copy.deepcopy(FLEET), "name": "frank-large"}
    found = jobs({"front": spread, "back": spread, "big": large}, {"front": "10.0.0.1", "back": "10.0.0.2", "big": "b"})
    flat = {job["job_name"]: [t for config in job["static_configs"] for t in config["targets"]] for job in found}
    assert flat == {
        "frank-large": ["b:7771", "b:7772"],
        "frank-large-proxy": ["b:7770"],
        "frank-medium": ["10.0.0.2:7772", "10.0.0.1:7771"],
        "frank-medium-proxy": ["10.0.0.1:7770"],
    }


@pytest.mark.parametrize(("fleet", "address"), [(FLEET, ""), ({**FLEET, "port": 7771}, "10.0.0.1")])
def test_a_host_that_cannot_be_scraped_is_refused(fleet: dict[str, Any], address: str) -> None:
    with pytest.raises(AnsibleFilterError, match="scrape_jobs: "):
        jobs({"box": fleet}, {"box": address})


@pytest.mark.parametrize("limit", ["dankclaw", "all"])
def test_no_limit_of_a_run_loses_a_target_of_the_inventory(limit: str) -> None:
    done = subprocess.run(
        ["ansible", "monitoring", "-l", limit, "-m", "debug", "-a", "var=prometheus_rules_jobs", "-o"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout.partition("=>")[2])["prometheus_rules_jobs"]
    flat = {job["job_name"]: [t for config in job["static_configs"] for t in config["targets"]] for job in told}
    assert flat == {
        "frank-large": [],
        "frank-medium": ["192.168.0.235:7771", "192.168.0.235:7772"],
        "frank-medium-proxy": ["192.168.0.235:7770"],
    }


def test_a_drill_shortens_the_waits_alone() -> None:
    text = (ROOT / "roles/prometheus_rules/files/frank-fleet.rules.yml").read_text()
    assert faster(text, 1) == text and alerts_in(text)
    before, after = yaml.safe_load(text), yaml.safe_load(faster(text, 3600))
    for group, quick in zip(before["groups"], after["groups"], strict=True):
        assert quick["interval"] == "1s"
        for rule, drilled in zip(group["rules"], quick["rules"], strict=True):
            waits = ("for", "keep_firing_for")
            assert {k: v for k, v in rule.items() if k not in waits} == {
                k: v for k, v in drilled.items() if k not in waits
            }
            assert all(drilled[wait] == "1s" for wait in waits if wait in rule)


def test_a_drill_divides_by_one_or_more() -> None:
    with pytest.raises(AnsibleFilterError):
        faster("", 0)


def test_an_alertmanager_is_named_where_there_is_none() -> None:
    text = with_alertmanager(with_includes("global: {}\n"), "localhost:9093")
    assert yaml.safe_load(text)["alerting"] == {
        "alertmanagers": [{"static_configs": [{"targets": ["localhost:9093"]}]}]
    }
    assert with_alertmanager(text, "localhost:9093") == text
    with pytest.raises(UneditableError, match="has alerting already"):
        with_alertmanager("alerting: {}  # not yet other:9093\n", "other:9093")
