"""runtime_versions: what no unit names goes, everything else stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.collection.fakehost import FakeHost

OLD, GOOD, NEW = "engine-aaaaaaaaaaaa", "engine-bbbbbbbbbbbb", "routing_proxy-cccccccccccc"


@pytest.fixture
def runtime(host: FakeHost) -> Path:
    """A host whose unit runs NEW and could go back to GOOD; nobody names OLD."""
    root = host.home / ".local/share/frank-fleet/runtime"
    for name in (OLD, GOOD, NEW, "bin", "engine-notahash"):
        (root / name).mkdir(parents=True)
        (root / name / "script").touch()
    host.path.mkdir(parents=True)
    (host.path / "a.container").write_text(f"Entrypoint=/opt/frank-fleet/{NEW}/entrypoint.sh\n")
    good = {"text": f"Entrypoint=/opt/frank-fleet/{GOOD}/entrypoint.sh\n"}
    host.manifest.write_text(json.dumps({"owners": {"o": {"a.container": {"good": good}}}}))
    return root


def names(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir())


def test_only_what_no_unit_names_goes(host: FakeHost, runtime: Path) -> None:
    result = host.ok("runtime_versions")
    assert (result["changed"], result["removed"]) == (True, [OLD])
    assert names(runtime) == ["bin", GOOD, "engine-notahash", NEW]
    assert not host.ok("runtime_versions")["changed"]


def test_check_mode_predicts(host: FakeHost, runtime: Path) -> None:
    assert host.ok("runtime_versions", check=True)["removed"] == [OLD] and OLD in names(runtime)


def test_without_a_manifest_the_units_alone_count(host: FakeHost, runtime: Path) -> None:
    host.manifest.unlink()
    assert host.ok("runtime_versions")["removed"] == [OLD, GOOD]


def test_a_fresh_host_has_nothing_to_remove(host: FakeHost) -> None:
    assert host.ok("runtime_versions")["removed"] == []
