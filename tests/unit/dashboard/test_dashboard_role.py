"""The role on a folder that stands for a Grafana's host, and a stub of Grafana's HTTP API."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILE = ROOT / "roles/grafana_dashboard/files/llm-fleet.json"
ENVIRONMENT = {
    "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_PIPELINING": "1",
}
PLAY = [{"hosts": "localhost", "gather_facts": False, "roles": ["grafana_dashboard"]}]


@dataclass
class Host:
    """Folders of a host, and how its Grafana is restarted: by a line in a file."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    def deploy(self, *flags: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """Run the role."""
        given = {
            "grafana_dashboard_provisioning_dir": str(self.folder / "provisioning"),
            "grafana_dashboard_dir": str(self.folder / "boards"),
            "grafana_dashboard_owner": os.getuid(),
            "grafana_dashboard_group": os.getgid(),
            "grafana_dashboard_datasource_url": "http://127.0.0.1:9090",
            "grafana_dashboard_restart_command": ["sh", "-c", f"echo again >> {self.folder}/restarts"],
        }
        given |= {f"grafana_dashboard_{name}": value for name, value in settings.items()}
        play = self.folder / "play.yml"
        play.write_text(json.dumps(PLAY))
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-c", "local", play]
        return subprocess.run(
            [*command, "-e", json.dumps(given), "-e", f"ansible_python_interpreter={sys.executable}", *flags],
            env=os.environ | ENVIRONMENT,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def restarts(self) -> int:
        """How often Grafana was restarted."""
        file = self.folder / "restarts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def read(self, path: str) -> Any:
        """A YAML or JSON file of the host."""
        return yaml.safe_load((self.folder / path).read_text())


def changed(done: subprocess.CompletedProcess[str]) -> int:
    """How many tasks changed something; fails for a run that failed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.search(r"changed=(\d+)", done.stdout)[1])


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def grafana() -> Iterator[ThreadingHTTPServer]:
    """A Grafana that serves `board` to who has the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.asked.append((self.path, self.headers.get("Authorization")))
            answers = self.server.answers
            status, board = answers.pop(0) if len(answers) > 1 else answers[0]
            body = json.dumps({"dashboard": board, "meta": {}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def test_a_check_changes_nothing_a_deploy_does_and_the_next_does_not(host):
    assert changed(host.deploy("--check", "--diff")) > 0
    assert [path.name for path in host.folder.iterdir()] == ["play.yml"]

    assert changed(host.deploy()) > 0
    assert (host.folder / "boards/llm-fleet.json").read_bytes() == FILE.read_bytes()
    assert "{{replica}}" in (host.folder / "boards/llm-fleet.json").read_text()
    (provider,) = host.read("provisioning/dashboards/frank-fleet.yml")["providers"]
    assert provider["options"]["path"] == str(host.folder / "boards")
    assert (provider["type"], provider["updateIntervalSeconds"], provider["allowUiUpdates"]) == ("file", 30, False)
    (source,) = host.read("provisioning/datasources/frank-fleet.yml")["datasources"]
    assert (source["uid"], source["url"]) == ("frank-fleet-prometheus", "http://127.0.0.1:9090")
    assert host.restarts == 1

    assert changed(host.deploy()) == 0
    assert host.restarts == 1


def test_grafana_is_restarted_for_its_provisioning_and_not_for_a_dashboard(host):
    assert host.deploy(restart_command=["false"]).returncode != 0
    assert changed(host.deploy()) > 0
    assert host.restarts == 1, "a restart that failed is made up for by the next run"
    (host.folder / "boards/llm-fleet.json").write_text("{}")
    assert changed(host.deploy()) == 1
    assert host.restarts == 1
    assert changed(host.deploy(folder="Models")) > 0
    assert host.restarts == 2


def test_a_container_and_a_data_source_of_the_hosts_own(host):
    settings = {"mounted_at": "/boards", "datasource_uid": "P1809F7CD0C75ACF3", "datasource_url": ""}
    done = host.deploy(**settings, restart_command=[])
    assert changed(done) > 0
    assert "Restart Grafana, so that it reads" in done.stdout
    (provider,) = host.read("provisioning/dashboards/frank-fleet.yml")["providers"]
    assert provider["options"]["path"] == "/boards"
    assert not (host.folder / "provisioning/datasources/frank-fleet.yml").exists()
    (variable,) = [
        entry for entry in host.read("boards/llm-fleet.json")["templating"]["list"] if entry["type"] == "datasource"
    ]
    assert variable["current"]["value"] == "P1809F7CD0C75ACF3"


def test_a_uid_that_grafana_refuses_is_refused_before_anything_is_written(host):
    done = host.deploy(datasource_uid="a b")
    assert done.returncode != 0 and "must be 1 to 40 letters" in done.stdout
    assert not (host.folder / "boards").exists()


def test_grafana_is_asked_until_it_serves_this_dashboard(host, grafana):
    board = json.loads(FILE.read_text())
    former = board | {"panels": board["panels"][:3]}
    grafana.answers = [(404, {}), (200, former), (200, board)]
    assert changed(host.deploy(url=grafana.url, token="letmein")) > 0
    assert grafana.asked == [("/api/dashboards/uid/frank-fleet-llm", "Bearer letmein")] * 3


def test_a_grafana_that_does_not_let_us_ask_fails_the_run_at_once(host, grafana):
    grafana.answers = [(401, {})]
    done = host.deploy(url=grafana.url)
    assert done.returncode != 0 and "grafana_dashboard_token" in done.stdout
    assert grafana.asked == [("/api/dashboards/uid/frank-fleet-llm", None)]
