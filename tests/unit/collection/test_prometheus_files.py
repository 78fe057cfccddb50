"""prometheus_files: checked before, confirmed after, and as it was where either fails."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.modules import prometheus_files
from unit.collection.fakehost import FakeHost
from unit.collection.serving import serving

RULES = "groups:\n- name: x\n  rules:\n    - alert: ReplicaDown\n      expr: up == 0\n"
SCRAPE = "scrape_configs:\n- job_name: frank-medium\n"
CONFIG = "# theirs\nglobal: {}\n"


class Api:
    """A Prometheus: its API, and what a reload makes of the files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.successful, self.loaded_at = folder, 1, 0.0
        self.targets, self.refuses, self.reloads = ["10.0.0.1:7771"], False, 0
        self.alerts: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = api.answer(self.path).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                api.reload()
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def reload(self) -> None:
        """Load what is on disk, unless this one refuses whatever names our files."""
        self.reloads += 1
        text = (self.folder / "prometheus.yml").read_text()
        self.successful = int(not (self.refuses and "frank-fleet" in text))
        if self.successful:
            self.loaded_at = time.time()
            self.alerts = ["ReplicaDown"] if "frank-fleet" in text else []

    def answer(self, path: str) -> str:
        if path == "/metrics":
            return (
                f"prometheus_config_last_reload_successful {self.successful}\n"
                f"prometheus_config_last_reload_success_timestamp_seconds {self.loaded_at}\n"
            )
        if path == "/api/v1/rules":
            return json.dumps({"data": {"groups": [{"rules": [{"name": name} for name in self.alerts]}]}})
        found = [{"discoveredLabels": {"__address__": address}} for address in self.targets]
        return json.dumps({"data": {"activeTargets": found}})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a Prometheus that somebody else configured."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    (folder / "prometheus.yml").write_text(CONFIG)
    (folder / "others.yml").write_text("theirs\n")
    return folder


@pytest.fixture
def api(folder: Path) -> Iterator[Api]:
    api = Api(folder)
    with serving(api.server):
        yield api


def wanted(folder: Path, api: Api, verdict: int = 0, **changes: Any) -> dict[str, Any]:
    """Arguments of the module; promtool notes what it was shown, and answers as told."""
    shown = folder.parent / "shown"
    judge = (
        "import pathlib, sys; stage = pathlib.Path(sys.argv[-1]).parent;"
        f"pathlib.Path({str(shown)!r}).write_text(repr(sorted(str(p.relative_to(stage)) for p in stage.rglob('*'))));"
        f"print('promtool: judged'); sys.exit({verdict})"
    )
    post = f"import urllib.request as u; u.urlopen(u.Request({api.url + '/-/reload'!r}, method='POST'))"
    return {
        "config": str(folder / "prometheus.yml"), "scrape": SCRAPE, "rules": RULES, "url": api.url,
        "promtool": [sys.executable, "-c", judge], "reload": [sys.executable, "-c", post],
        "targets": ["10.0.0.1:7771"], "timeout": 1, "log": [sys.executable, "-c", ""], **changes,
    }  # fmt: skip


def snapshot(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_files_are_included_loaded_and_confirmed(host: FakeHost, folder: Path, api: Api) -> None:
    result = host.ok("prometheus_files", **wanted(folder, api))
    assert result["changed"] and len(result["diff"]) == 3
    assert set(snapshot(folder)) == {
        "prometheus.yml", "others.yml", "frank-fleet/scrape.yml", "frank-fleet/frank-fleet.rules.yml",
    }  # fmt: skip
    assert snapshot(folder)["prometheus.yml"].startswith(CONFIG)
    assert not host.ok("prometheus_files", **wanted(folder, api))["changed"] and api.reloads == 1


def test_promtool_sees_the_folder_as_it_would_be(host: FakeHost, folder: Path, api: Api) -> None:
    host.ok("prometheus_files", **wanted(folder, api))
    shown = (folder.parent / "shown").read_text()
    assert "frank-fleet/frank-fleet.rules.yml" in shown and "others.yml" in shown


def test_what_promtool_refuses_changes_nothing(host: FakeHost, folder: Path, api: Api) -> None:
    before = snapshot(folder)
    assert "promtool: judged" in host.error("prometheus_files", **wanted(folder, api, verdict=1))
    assert snapshot(folder) == before and api.reloads == 0


def test_what_prometheus_refuses_is_put_back(host: FakeHost, folder: Path, api: Api) -> None:
    api.refuses, before = True, snapshot(folder)
    error = host.error("prometheus_files", **wanted(folder, api))
    assert "its last reload failed" in error and "the old ones are back" in error
    assert snapshot(folder) == before and api.reloads == 2 and api.successful == 1


@pytest.mark.parametrize("targets", [[], ["10.0.0.9:1"]])
def test_a_target_that_is_not_there_is_a_failure(host: FakeHost, folder: Path, api: Api, targets: list[str]) -> None:
    api.targets = targets
    assert "it does not have 10.0.0.1:7771" in host.error("prometheus_files", **wanted(folder, api))


def test_a_reload_that_cannot_be_asked_for_is_put_back(host: FakeHost, folder: Path, api: Api) -> None:
    before = snapshot(folder)
    error = host.error("prometheus_files", **wanted(folder, api, reload=[sys.executable, "-c", "exit('no such unit')"]))
    assert "no such unit" in error and snapshot(folder) == before


def test_a_run_that_was_killed_before_the_reload_is_finished(host: FakeHost, folder: Path, api: Api) -> None:
    host.ok("prometheus_files", **wanted(folder, api))
    later = time.time() + 60
    os.utime(folder / "frank-fleet/scrape.yml", (later, later))
    assert "has not reloaded since" in host.run("prometheus_files", check=False, **wanted(folder, api))["reasons"][0]


def test_a_stage_that_a_killed_run_left_goes(host: FakeHost, folder: Path, api: Api) -> None:
    (folder / ".frank-fleet-abc/all").mkdir(parents=True)
    (folder / ".frank-fleet-def.tmp").touch()
    host.ok("prometheus_files", **wanted(folder, api))
    assert list(folder.glob(".frank-fleet-*")) == []


def test_a_run_that_was_killed_before_it_was_confirmed_can_still_be_undone(
    host: FakeHost, folder: Path, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(folder)
    with monkeypatch.context() as patch:
        patch.setattr(prometheus_files, "reload", lambda _: sys.exit("killed"))
        with pytest.raises(json.JSONDecodeError):
            host.run("prometheus_files", **wanted(folder, api))
    assert "frank-fleet" in snapshot(folder)["prometheus.yml"]

    api.refuses = True
    error = host.error("prometheus_files", **wanted(folder, api))
    assert "the old ones are back" in error and snapshot(folder) == before


def test_the_configuration_keeps_its_mode(host: FakeHost, folder: Path, api: Api) -> None:
    (folder / "prometheus.yml").chmod(0o640)
    host.ok("prometheus_files", **wanted(folder, api))
    assert (folder / "prometheus.yml").stat().st_mode & 0o777 == 0o640


def test_a_database_beside_the_configuration_is_not_copied(host: FakeHost, folder: Path, api: Api) -> None:
    (folder / "data/wal").mkdir(parents=True)
    (folder / "data/01ABC").touch()
    host.ok("prometheus_files", **wanted(folder, api))
    assert "data" not in (folder.parent / "shown").read_text()


def test_a_diff_shows_no_line_of_others(host: FakeHost, folder: Path, api: Api) -> None:
    (folder / "prometheus.yml").write_text("# password: s3cr3t\nrule_files:\n  - theirs.yml\n")
    shown = json.dumps(host.ok("prometheus_files", **wanted(folder, api))["diff"])
    assert "frank-fleet/*.rules.yml" in shown and "s3cr3t" not in shown


def test_a_refusal_comes_with_prometheus_own_words(host: FakeHost, folder: Path, api: Api) -> None:
    api.refuses = True
    log = [sys.executable, "-c", "print('err=bad regex')"]
    assert "err=bad regex" in host.error("prometheus_files", **wanted(folder, api, log=log))


def test_check_mode_checks_and_writes_nothing(host: FakeHost, folder: Path, api: Api) -> None:
    before = snapshot(folder)
    assert host.ok("prometheus_files", check=True, **wanted(folder, api))["changed"]
    assert snapshot(folder) == before and api.reloads == 0


def test_check_mode_needs_no_prometheus(host: FakeHost, folder: Path, api: Api) -> None:
    fresh = wanted(folder, api, config="/nowhere/prometheus/prometheus.yml", promtool=["promtool"])
    result = host.ok("prometheus_files", check=True, **fresh)
    assert result["changed"] and "not installed here yet" in result["warnings"][0]
    assert "install Prometheus first" in host.error("prometheus_files", **fresh)


def test_a_prometheus_that_is_down_is_said(host: FakeHost, folder: Path, api: Api) -> None:
    error = host.error("prometheus_files", **wanted(folder, api, url="http://127.0.0.1:1"))
    assert "does not answer as expected" in error
