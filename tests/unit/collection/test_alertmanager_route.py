"""alertmanager_route: nobody else's configuration is taken, nothing is shown, and a refused one is put back."""

from __future__ import annotations

import grp
import json
import os
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.collection.fakehost import FakeHost
from unit.collection.serving import serving

URL = "http://127.0.0.1:9/s3cr3t-SENTINEL"
GROUP = grp.getgrgid(os.getgid()).gr_name


class Api:
    """An Alertmanager's metrics, and its reload."""

    def __init__(self) -> None:
        self.successful, self.loaded_at, self.refuses, self.reloads = 1, 0.0, False, 0
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                names = ("successful", "success_timestamp_seconds")
                lines = zip(names, (api.successful, api.loaded_at), strict=True)
                text = "".join(f"alertmanager_config_last_reload_{name} {value}\n" for name, value in lines)
                self.wfile.write(text.encode())

            def do_POST(self) -> None:
                api.reloads += 1
                api.successful = int(not api.refuses)
                api.loaded_at = api.loaded_at if api.refuses else time.time()
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    with serving(api.server):
        yield api


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "alertmanager.yml"


def wanted(config: Path, api: Api, **changes: Any) -> dict[str, Any]:
    post = f"import urllib.request as u; u.urlopen(u.Request({api.url + '/-/reload'!r}, method='POST'))"
    return {
        "url": URL, "config": str(config), "group": GROUP, "api": api.url, "timeout": 1,
        "amtool": [sys.executable, "-c", ""], "reload": [sys.executable, "-c", post], **changes,
    }  # fmt: skip


def test_the_fleets_alerts_go_to_the_webhook_and_others_nowhere(host: FakeHost, config: Path, api: Api) -> None:
    assert host.ok("alertmanager_route", **wanted(config, api))["changed"]
    route = yaml.safe_load(config.read_text())["route"]
    assert route["receiver"] == "nobody" and route["routes"][0]["receiver"] == "webhook"
    assert not host.ok("alertmanager_route", **wanted(config, api))["changed"] and api.reloads == 1


def test_the_address_is_in_a_file_of_its_own_and_shown_nowhere(host: FakeHost, config: Path, api: Api) -> None:
    shown = host.ok("alertmanager_route", **wanted(config, api))
    secret = config.with_name("frank-fleet-webhook")
    assert secret.read_text() == URL and secret.stat().st_mode & 0o777 == 0o640
    assert "SENTINEL" not in json.dumps(shown) + config.read_text()


def test_a_configuration_of_somebody_else_is_left_alone(host: FakeHost, config: Path, api: Api) -> None:
    config.write_text("route: {}\n")
    assert "somebody else's" in host.error("alertmanager_route", **wanted(config, api))
    assert config.read_text() == "route: {}\n"
    host.ok("alertmanager_route", **wanted(config, api, adopt=True))
    assert config.with_name("alertmanager.yml.before-frank-fleet").read_text() == "route: {}\n"


def test_what_amtool_refuses_changes_nothing(host: FakeHost, config: Path, api: Api) -> None:
    error = host.error("alertmanager_route", **wanted(config, api, amtool=[sys.executable, "-c", "exit('bad route')"]))
    assert "bad route" in error and not config.exists() and api.reloads == 0


def test_what_the_alertmanager_refuses_is_put_back(host: FakeHost, config: Path, api: Api) -> None:
    api.refuses = True
    error = host.error("alertmanager_route", **wanted(config, api))
    assert "the old one is back" in error and not config.exists()


def test_a_run_that_was_killed_before_the_reload_is_finished(host: FakeHost, config: Path, api: Api) -> None:
    host.ok("alertmanager_route", **wanted(config, api))
    api.loaded_at = time.time() - 60
    assert host.ok("alertmanager_route", **wanted(config, api))["changed"] and api.reloads == 2


def test_check_mode_needs_no_alertmanager(host: FakeHost, config: Path, api: Api) -> None:
    fresh = {**wanted(config, api, amtool=["amtool"]), "api": "http://127.0.0.1:1"}
    assert host.ok("alertmanager_route", check=True, **fresh)["changed"] and not config.exists()


def test_without_an_address_nobody_is_notified_any_more(host: FakeHost, config: Path, api: Api) -> None:
    host.ok("alertmanager_route", **wanted(config, api))
    assert host.ok("alertmanager_route", **{**wanted(config, api), "url": ""})["changed"]
    assert yaml.safe_load(config.read_text())["route"] == {"receiver": "nobody"}
    assert not config.with_name("frank-fleet-webhook").exists()
    assert not host.ok("alertmanager_route", **{**wanted(config, api), "url": ""})["changed"]


@pytest.mark.parametrize("text", [None, "route: {}\n"])
def test_without_an_address_nothing_of_others_is_touched(
    host: FakeHost, config: Path, api: Api, text: str | None
) -> None:
    if text:
        config.write_text(text)
    assert not host.ok("alertmanager_route", **{**wanted(config, api), "url": ""})["changed"]
    assert (config.read_text() if text else None) == text and api.reloads == 0
