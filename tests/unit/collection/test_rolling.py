"""What a roll needs of the modules: one unit written at a time, what was ready on record, what a restart takes down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.collection.fakehost import FakeHost
from unit.collection.serving import SERVICE, Engine, arguments, failing, ready
from unit.collection.unit_files import arguments as unit_arguments
from unit.collection.unit_files import text

OLD, NEW = text("Label=a=1\nEnvironment=PORT=7771\n").replace("=abc", "=s1"), text("Label=a=2\n").replace("=abc", "=s2")


def entry(host: FakeHost) -> dict[str, Any]:
    """What the manifest says of a.container."""
    found: dict[str, Any] = json.loads(host.manifest.read_text())["owners"]["replicas"]["a.container"]
    return found


@pytest.fixture
def installed(running: FakeHost) -> FakeHost:
    """The host on which a.service runs spec s1, with its unit file."""
    running.ok("quadlet_units", **unit_arguments(running, a=OLD))
    running.unit(SERVICE, SourcePath=str(running.path / "a.container"))
    return running


def test_only_what_is_to_be_written_is_written(host: FakeHost) -> None:
    listed = unit_arguments(host, a=OLD, b=OLD)
    result = host.ok("quadlet_units", **listed, write=["b.container"])
    assert [unit["name"] for unit in result["units"]] == ["b.container"]
    assert [path.name for path in host.path.iterdir()] == ["b.container"]
    assert list(json.loads(host.manifest.read_text())["owners"]["replicas"]) == ["b.container"]


def test_the_whole_set_is_validated_before_its_first_unit_is_written(host: FakeHost) -> None:
    listed = unit_arguments(host, a=OLD, b=text(install=""))
    error = host.error("quadlet_units", **listed, write=["a.container"])
    assert "refuses the units, nothing was changed" in error and not host.path.exists()


def test_a_validation_alone_changes_nothing(host: FakeHost) -> None:
    result = host.ok("quadlet_units", **unit_arguments(host, a=OLD), write=[])
    assert (result["changed"], result["units"], host.changes(), host.snapshot()) == (False, [], [], {})


def test_a_unit_to_write_that_is_not_given_is_refused(host: FakeHost) -> None:
    assert "not among the units" in host.error("quadlet_units", **unit_arguments(host, a=OLD), write=["c.container"])


def test_a_unit_that_is_ready_is_on_record_as_good(installed: FakeHost, engine: Engine) -> None:
    installed.ok("quadlet_service", **arguments(ready=ready(engine.url)))
    assert entry(installed)["good"] == {"text": OLD, "spec": "s1", "image_id": "i1", "port": 7771}


def test_what_was_good_stays_on_record_until_the_new_unit_is(installed: FakeHost, engine: Engine) -> None:
    installed.ok("quadlet_service", **arguments())
    result = installed.ok("quadlet_units", **unit_arguments(installed, a=NEW))
    assert result["good"]["a.container"]["text"] == OLD and entry(installed)["good"]["spec"] == "s1"

    failing(installed)
    installed.error("quadlet_service", **arguments(spec="s2"))
    assert entry(installed)["good"]["spec"] == "s1"


def test_a_file_that_was_edited_since_the_start_is_not_good(installed: FakeHost) -> None:
    (installed.path / "a.container").write_text(NEW)
    installed.ok("quadlet_service", **arguments())
    assert "good" not in entry(installed)


def test_a_unit_that_is_not_in_the_manifest_is_not_noted(installed: FakeHost) -> None:
    installed.manifest.unlink()
    installed.ok("quadlet_service", **arguments())
    assert not installed.manifest.exists()


@pytest.mark.parametrize(("state", "takes"), [("active", True), ("failed", False), ("activating", False)])
def test_a_look_tells_whether_a_restart_takes_something_down(installed: FakeHost, state: str, takes: bool) -> None:
    installed.unit(SERVICE, ActiveState=state)
    result = installed.ok("quadlet_service", check=True, **arguments(spec="s2"))
    assert result["running"] is takes and installed.changes()[1:] == []
