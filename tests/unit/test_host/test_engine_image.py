"""The image as a file: what `podman load` reads, and what decides its ID."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest
from engine_image.archive import Layer, LayerWriter, digest, image_config, image_id, write_archive

TAG = "docker.io/stilldeadcode/vllm-radiance:0.9.3"


def make_layer(folder: Path, name: str, content: bytes = b"echo hello\n") -> Layer:
    target = folder / f"{name}.tar"
    layer = LayerWriter(target)
    layer.file("/opt/bin/start", content, 0o755)
    layer.link("/opt/bin/python3", "/usr/bin/python3")
    layer.close()
    return Layer(target, digest(target))


@pytest.fixture
def archive(tmp_path: Path) -> tarfile.TarFile:
    layers = [make_layer(tmp_path, "lower"), make_layer(tmp_path, "upper", b"other\n")]
    write_archive(tmp_path / "image.tar", layers, image_config(layers, "amd64", ["/opt/bin/start"], {"a": "b"}), TAG)
    return tarfile.open(tmp_path / "image.tar")


def read(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    assert member is not None
    return member.read()


def test_the_manifest_names_the_tag_and_every_part(archive: tarfile.TarFile) -> None:
    [manifest] = json.loads(read(archive, "manifest.json"))
    assert manifest["RepoTags"] == [TAG]
    assert sorted([manifest["Config"], "manifest.json", *manifest["Layers"]]) == sorted(archive.getnames())


def test_names_and_digests_are_those_of_the_content(archive: tarfile.TarFile) -> None:
    [manifest] = json.loads(read(archive, "manifest.json"))
    config = read(archive, manifest["Config"])
    assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    digests = [f"sha256:{hashlib.sha256(read(archive, name)).hexdigest()}" for name in manifest["Layers"]]
    assert json.loads(config)["rootfs"] == {"type": "layers", "diff_ids": digests}
    assert len(json.loads(config)["history"]) == len(digests)


def test_the_container_starts_with_the_entrypoint_and_stops_on_sigterm(archive: tarfile.TarFile) -> None:
    [manifest] = json.loads(read(archive, "manifest.json"))
    config = json.loads(read(archive, manifest["Config"]))["config"]
    assert config["Entrypoint"] == ["/opt/bin/start"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["Labels"] == {"a": "b"}


def test_a_layer_has_folders_before_files_and_keeps_modes(tmp_path: Path) -> None:
    with tarfile.open(make_layer(tmp_path, "layer").path) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["opt", "opt/bin", "opt/bin/start", "opt/bin/python3"]
    assert [oct(member.mode) for member in members[:3]] == ["0o755", "0o755", "0o755"]
    assert members[3].linkname == "/usr/bin/python3"
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, 0)}


def test_a_tree_goes_in_without_bytecode(tmp_path: Path) -> None:
    for name in ("package/__init__.py", "package/deep/module.py", "package/__pycache__/module.cpython-313.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    layer = LayerWriter(tmp_path / "layer.tar")
    layer.tree(tmp_path / "package", "/opt/package")
    layer.close()
    with tarfile.open(tmp_path / "layer.tar") as tar:
        files = [member.name for member in tar.getmembers() if member.isfile()]
    assert files == ["opt/package/__init__.py", "opt/package/deep/module.py"]


def test_the_same_content_is_the_same_image_and_a_label_makes_another(tmp_path: Path) -> None:
    once, again = make_layer(tmp_path, "once"), make_layer(tmp_path, "again")
    assert once.diff_id == again.diff_id
    plain = image_id(image_config([once], "amd64", ["/x"], {}))
    assert plain == image_id(image_config([again], "amd64", ["/x"], {}))
    assert plain != image_id(image_config([once], "amd64", ["/x"], {"frank-fleet.variant": "next"}))
    assert plain != image_id(image_config([make_layer(tmp_path, "other", b"x")], "amd64", ["/x"], {}))
