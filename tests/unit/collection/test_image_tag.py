"""image_tag: the right image under the name, by ID, and nothing changed by a failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.frank.fleet.plugins.modules import image_tag
from unit.collection.fakehost import FakeHost

SOURCE, TARGET = "docker.io/stilldeadcode/vllm-radiance:0.9.3", "localhost/radiance-vllm:0.9.3"


def tag(host: FakeHost, check: bool = False, **changes: Any) -> dict[str, Any]:
    return host.ok("image_tag", check, source=SOURCE, target=TARGET, **changes)


def archive(host: FakeHost, **images: str) -> str:
    path = host.root / "image.tar"
    path.write_text(json.dumps(images))
    return str(path)


def test_a_present_source_is_tagged_once(host: FakeHost) -> None:
    host.set(images={SOURCE: "i1"})
    first, second = tag(host), tag(host)
    assert (first["changed"], first["image_id"], first["previous_id"]) == (True, "i1", None)
    assert (second["changed"], second["image_id"]) == (False, "i1")
    assert host.state["images"][TARGET] == "i1"
    assert host.changes() == [f"podman tag i1 {TARGET}"]


def test_a_new_image_moves_the_tag_and_tells_the_old_one(host: FakeHost) -> None:
    host.set(images={SOURCE: "i2", TARGET: "i1"})
    result = tag(host)
    assert (result["changed"], result["image_id"], result["previous_id"]) == (True, "i2", "i1")
    assert result["diff"] == {"before": f"{TARGET} i1\n", "after": f"{TARGET} i2\n"}


def test_a_missing_source_is_named_with_ways_to_get_it(host: FakeHost) -> None:
    host.set(images={TARGET: "i1"})
    message = host.error("image_tag", source=SOURCE, target=TARGET)
    assert SOURCE in message and "pull: true" in message and "archive:" in message
    assert host.changes() == [] and host.state["images"] == {TARGET: "i1"}


def test_an_archive_is_loaded_only_when_the_source_is_missing(host: FakeHost) -> None:
    path = archive(host, **{SOURCE: "i1"})
    assert tag(host, archive=path)["changed"]
    assert tag(host, archive=path)["changed"] is False
    assert host.changes() == [f"podman load --quiet --input {path}", f"podman tag i1 {TARGET}"]


def test_an_archive_without_the_source_is_a_failure(host: FakeHost) -> None:
    path = archive(host, **{"other:1": "i9"})
    message = host.error("image_tag", source=SOURCE, target=TARGET, archive=path)
    assert path in message and f"podman save -o FILE {SOURCE}" in message


def test_a_missing_archive_is_named(host: FakeHost) -> None:
    message = host.error("image_tag", source=SOURCE, target=TARGET, archive="/nowhere.tar")
    assert "/nowhere.tar" in message and "copy it there" in message


def test_a_pull_brings_the_newer_image(host: FakeHost) -> None:
    host.set(images={SOURCE: "i1", TARGET: "i1"}, registry={SOURCE: "i2"})
    assert tag(host, pull=True)["image_id"] == "i2"
    assert tag(host, pull=True)["changed"] is False


def test_a_failed_pull_leaves_everything_as_it_is(host: FakeHost) -> None:
    before = {SOURCE: "i1", TARGET: "i0"}
    host.set(images=before)
    message = host.error("image_tag", source=SOURCE, target=TARGET, pull=True)
    assert "manifest unknown" in message and host.state["images"] == before


def test_a_broken_store_is_not_taken_for_a_missing_image(host: FakeHost) -> None:
    host.set(fail={"podman image inspect": "Error: database is locked"})
    assert "database is locked" in host.error("image_tag", source=SOURCE, target=TARGET)


@pytest.mark.parametrize("with_podman", [True, False])
@pytest.mark.parametrize("extra", [{"pull": True}, {"archive": "image.tar"}])
def test_check_mode_predicts_without_fetching(host: FakeHost, extra: dict[str, Any], with_podman: bool) -> None:
    if "archive" in extra:
        extra = {"archive": archive(host, **{SOURCE: "i1"})}
    if not with_podman:
        host.remove_command("podman")
    assert tag(host, check=True, **extra)["changed"]
    assert host.changes() == [] and host.state["images"] == {}


def test_check_mode_without_podman_or_archive_does_not_fail(host: FakeHost) -> None:
    host.remove_command("podman")
    assert tag(host, check=True)["changed"]


def test_check_mode_says_that_the_source_is_missing(host: FakeHost) -> None:
    host.set(images={TARGET: "i1"})
    assert SOURCE in host.error("image_tag", check=True, source=SOURCE, target=TARGET)


def test_check_mode_knows_an_image_that_is_as_wanted(host: FakeHost) -> None:
    host.set(images={SOURCE: "i1", TARGET: "i1"})
    path = archive(host)
    assert tag(host, check=True, archive=path)["changed"] is False
    assert Path(path).exists()


def test_without_podman_the_fix_is_named(host: FakeHost) -> None:
    host.remove_command("podman")
    assert "install the package podman" in host.error("image_tag", source=SOURCE, target=TARGET)


def test_what_the_target_stood_for_keeps_a_name(host: FakeHost) -> None:
    host.set(images={SOURCE: "i2", TARGET: "i1"})
    tag(host, previous="localhost/x:previous")
    assert host.state["images"] == {SOURCE: "i2", TARGET: "i2", "localhost/x:previous": "i1"}
    assert tag(host, previous="localhost/x:previous")["changed"] is False
    assert host.state["images"]["localhost/x:previous"] == "i1", "it stays when the target does"


def test_the_first_image_has_none_before_it(host: FakeHost) -> None:
    host.set(images={SOURCE: "i1"})
    tag(host, previous="localhost/x:previous")
    assert "localhost/x:previous" not in host.state["images"]


@pytest.mark.parametrize("wanted", ["i1", "sha256:i1"])
def test_the_image_that_was_asked_for_is_tagged(host: FakeHost, wanted: str) -> None:
    host.set(images={SOURCE: "i1"})
    assert tag(host, image_id=wanted)["changed"]


def test_another_image_than_asked_for_is_refused_before_it_is_tagged(host: FakeHost) -> None:
    host.set(images={SOURCE: "i2", TARGET: "i1"})
    message = host.error("image_tag", source=SOURCE, target=TARGET, image_id="i3")
    assert "i2" in message and "i3" in message and host.state["images"][TARGET] == "i1" and host.changes() == []


def test_a_source_by_digest_is_a_source(host: FakeHost) -> None:
    pinned = "docker.io/stilldeadcode/vllm-radiance@sha256:" + "a" * 64
    host.set(images={pinned: "i1"})
    assert host.ok("image_tag", source=pinned, target=TARGET)["image_id"] == "i1"


def test_a_disk_without_room_fails_before_the_archive_is_loaded(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(host, **{SOURCE: "i1"})
    monkeypatch.setattr(image_tag, "ROOM", 1e15)
    message = host.error("image_tag", source=SOURCE, target=TARGET, archive=path)
    assert "GiB free" in message and path in message and not any("load" in call for call in host.changes())


def test_an_archive_with_the_wanted_image_replaces_an_older_one(host: FakeHost) -> None:
    host.set(images={SOURCE: "i1", TARGET: "i1"})
    assert tag(host, archive=archive(host, **{SOURCE: "i2"}), image_id="i2")["image_id"] == "i2"
    assert host.state["images"][TARGET] == "i2"
