"""The units of the production inventory, through Podman's generator and systemd's own check."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from units.quadlet import Generate, Generated

ROOT = Path(__file__).parents[2]
INSTALLED = ("frank-medium-a", "frank-medium-b", "frank-medium-proxy")
TARGET = "frank-medium"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Everything that the inventory renders now: file name to text."""
    folder = tmp_path_factory.mktemp("rendered")
    command = [Path(sys.executable).with_name("ansible-playbook"), "playbooks/render.yml", "-e", f"render_dir={folder}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def rendered(written: dict[str, str]) -> dict[str, str]:
    """What is for Podman's generator."""
    return {name: text for name, text in written.items() if name.endswith(".container")}


@pytest.fixture(scope="module")
def generated(rendered: dict[str, str], generate: Generate) -> Generated:
    result = generate(rendered)
    assert result.returncode == 0, result.stderr
    return result


def setting(text: str, key: str) -> list[str]:
    """Values of a key, in order."""
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def environment(generated: Generated, name: str) -> dict[str, str]:
    """What the generated service passes to its container with --env."""
    words = shlex.split(setting(generated.files[f"{name}.service"], "ExecStart")[0])
    # The generator writes them in an order of its own, so they are read as a set.
    return dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--env")


def seconds(generated: Generated, name: str, key: str) -> int:
    return int(setting(generated.files[f"{name}.service"], key)[-1])


def test_the_repository_shows_what_the_inventory_renders(written):
    def unstamped(units: dict[str, str]) -> dict[str, str]:  # its hashes change with every line of the proxy
        hashes = r"(?m)(^Label=io\.frank-fleet\.spec=).*|(/opt/frank-fleet/\w+-)[0-9a-f]{12}"
        return {name: re.sub(hashes, r"\1\2", text) for name, text in units.items()}

    shown = {path.name: path.read_text() for path in (ROOT / "docs/units/dankserver").iterdir()}
    assert unstamped(shown) == unstamped(written), "run `ansible-playbook playbooks/render.yml` and commit docs/units"


def test_every_unit_is_generated_and_wanted_at_boot(generated):
    services = {f"{name}.service" for name in (*INSTALLED, TARGET)}
    assert set(generated.files) == services
    assert generated.wants == services
    assert generated.stderr == ""


@pytest.mark.parametrize("fault", ["Network=host", "[Container]", "Image="])
def test_a_fault_is_seen_here(rendered, generate, fault):
    """The negative of the test above: the generator drops a unit with an unknown key, a wrong section or no image."""
    broken = rendered["frank-medium-a.container"].replace(
        fault, "X" + fault if fault != "[Container]" else "[Contaner]"
    )
    result = generate({"frank-medium-a.container": broken})
    assert "frank-medium-a.service" not in result.files
    assert result.stderr


@pytest.mark.parametrize("name", [*INSTALLED, TARGET])
def test_systemd_accepts_every_key(generated, written, rootfs, name):
    """Quadlet passes [Unit] and [Service] through unread: only systemd knows a typo there."""
    units = rootfs / "tmp" / f"verify-{os.getpid()}-{name}"
    units.mkdir()
    try:
        (units / f"{name}.service").write_text(generated.files[f"{name}.service"])
        if f"{name}.socket" in written:
            (units / f"{name}.socket").write_text(written[f"{name}.socket"])
        inside = Path("/") / units.relative_to(rootfs)
        check = (
            f"mkdir -m 0700 {inside}/run; export XDG_RUNTIME_DIR={inside}/run; "
            f"systemd-analyze --user --man=no --recursive-errors=yes verify {inside}/{name}.*"
        )
        done = subprocess.run(["chroot", rootfs, "sh", "-c", check], capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(units)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "gpus", "port"),
    [("frank-medium-a", "0", "7771"), ("frank-medium-b", "1", "7772"), (TARGET, "0,1", "7770")],
)
def test_each_engine_has_its_card_and_port(generated, name, gpus, port):
    passed = environment(generated, name)
    assert passed["HIP_VISIBLE_DEVICES"] == gpus
    assert "ROCR_VISIBLE_DEVICES" not in passed
    assert passed["PORT"] == port


@pytest.mark.parametrize(
    ("name", "special"),
    [
        ("frank-medium-a", {"TP": "1", "MAXLEN": "114688", "KV_MEM": "0"}),
        ("frank-medium-b", {"TP": "1", "MAXLEN": "114688", "KV_MEM": "0"}),
        (TARGET, {"TP": "2", "MAXLEN": "262144", "KV_MEM": "18563072000"}),
    ],
)
def test_knobs_reach_the_container_literally(generated, name, special):
    common = {
        "MAXSEQS": "4", "CHUNK": "8192", "GPU_UTIL": "0.98", "SPEC_METHOD": "dflash", "SPEC": "7",
        "SNAP": "/models/Qwen3.8-27B-Uncensored-MXFP4-awq", "DRAFTER": "/models/Qwen3.8-27B-DFlash2-FP8",
        "SERVED_MODEL_NAME": "frank-medium",
    }  # fmt: skip
    passed = environment(generated, name)
    assert {key: passed[key] for key in common | special} == common | special


def test_the_proxy_knows_every_replica(generated):
    passed = environment(generated, "frank-medium-proxy")
    assert passed["BACKENDS"] == "frank-medium-a=http://127.0.0.1:7771,frank-medium-b=http://127.0.0.1:7772"
    assert passed["PORT"] == "7770"


@pytest.mark.parametrize("name", [*INSTALLED, TARGET])
def test_restarts_and_timeouts(generated, rendered, name):
    service = generated.files[f"{name}.service"]
    unit_section = service.partition("[Unit]")[2].partition("\n[")[0]
    assert setting(service, "Restart") == ["on-failure"]
    assert setting(unit_section, "StartLimitBurst"), "systemd ignores start limits outside [Unit]"
    interval = int(setting(unit_section, "StartLimitIntervalSec")[0])
    burst = int(setting(unit_section, "StartLimitBurst")[0])
    # The limit must be within reach of an engine that fails after a whole load (180 s), or it restarts for ever.
    failing = 180 if name != "frank-medium-proxy" else 1
    assert interval > burst * (seconds(generated, name, "RestartSec") + failing)
    container_stop = int(setting(rendered[f"{name}.container"], "StopTimeout")[0])
    # The user manager as a whole gets 120 s at shutdown (user@.service of systemd 257).
    assert container_stop < seconds(generated, name, "TimeoutStopSec") < 120


def test_the_start_timeout_of_an_engine_covers_a_cold_load(generated):
    for name in ("frank-medium-a", "frank-medium-b", TARGET):
        assert seconds(generated, name, "TimeoutStartSec") >= 600


def test_systemd_holds_the_port_of_the_proxy_from_the_boot_on(written):
    sockets = {name: text for name, text in written.items() if name.endswith(".socket")}
    assert list(sockets) == ["frank-medium-proxy.socket"]
    [text] = sockets.values()
    assert setting(text, "ListenStream") == ["0.0.0.0:7770"] and setting(text, "WantedBy") == ["sockets.target"]


def test_nothing_waits_for_the_network(generated):
    for name, text in generated.files.items():
        ordering = [value for key in ("Wants", "After", "Requires") for value in setting(text, key)]
        assert not [value for value in ordering if "network-online" in value], name


def test_only_folders_are_mounted(rendered):
    """A mounted file would keep the content of the container's start: none of ours may be one."""
    for name, text in rendered.items():
        for volume in setting(text, "Volume"):
            source = volume.partition(":")[0]
            assert not Path(source).suffix or source.endswith("compile-0.9.3"), (name, volume)


def test_scripts_are_mounted_read_only(rendered):
    for name, text in rendered.items():
        [scripts] = [volume for volume in setting(text, "Volume") if ":/opt/frank-fleet" in volume]
        assert scripts.endswith(":ro"), name


def test_images_are_local_and_never_pulled(rendered):
    for text in rendered.values():
        assert setting(text, "Image") == ["localhost/radiance-vllm:0.9.3"]
        assert setting(text, "Pull") == ["never"]


def test_one_healthcheck_serves_all(rendered):
    assert {tuple(setting(text, "HealthCmd")) for text in rendered.values()} == {
        ("/opt/frank-fleet/bin/healthcheck.sh",)
    }
