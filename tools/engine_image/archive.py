"""Image layers and the docker-archive format, byte for byte the same for the same content."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Images have no clock: a date of its own would give every build another ID.
CREATED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Layer:
    """An uncompressed layer on disk and its digest ("sha256:" and 64 hex digits)."""

    path: Path
    diff_id: str


def digest(path: Path) -> str:
    """Return the digest of a file's content in the form that image formats use."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


class LayerWriter:
    """Collects files into a layer; owner root, no dates, so that only content and modes count."""

    def __init__(self, target: Path) -> None:
        self._tar = tarfile.open(target, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by close()
        self._folders: set[str] = set()

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file at an absolute path, with the folders above it."""
        entry = self._entry(path)
        entry.size, entry.mode = len(data), mode
        self._tar.addfile(entry, io.BytesIO(data))

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        entry = self._entry(path)
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
        self._tar.addfile(entry)

    def tree(self, source: Path, path: str) -> None:
        """Add the files of a folder below an absolute path, but no bytecode."""
        for file in sorted(source.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                name = f"{path}/{file.relative_to(source)}"
                self.file(name, file.read_bytes(), 0o755 if file.stat().st_mode & 0o100 else 0o644)

    def close(self) -> None:
        """Finish the layer."""
        self._tar.close()

    def _entry(self, path: str) -> tarfile.TarInfo:
        name = path.lstrip("/")
        for parent in reversed(Path(name).parents[:-1]):
            self._folder(str(parent))
        return tarfile.TarInfo(name)

    def _folder(self, name: str) -> None:
        if name not in self._folders:
            self._folders.add(name)
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            self._tar.addfile(entry)


def image_config(
    layers: Sequence[Layer], architecture: str, entrypoint: Sequence[str], labels: Mapping[str, str]
) -> bytes:
    """Return the image's configuration; its SHA-256 is the image ID."""
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": {
            "Entrypoint": list(entrypoint),
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Labels": dict(labels),
            "StopSignal": "SIGTERM",
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": CREATED, "created_by": "frank-fleet engine_image"} for _ in layers],
    }
    return json.dumps(config, sort_keys=True).encode()


def image_id(config: bytes) -> str:
    """Return the image ID (64 hex digits) that Podman will show for this configuration."""
    return hashlib.sha256(config).hexdigest()


def write_archive(target: Path, layers: Sequence[Layer], config: bytes, tag: str) -> None:
    """Write what `podman load` takes: layers, configuration, and a manifest that names them and the tag."""
    files = [f"{layer.diff_id.removeprefix('sha256:')}.tar" for layer in layers]
    config_name = f"{image_id(config)}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": files}]).encode()
    with tarfile.open(target, "w") as tar:
        for name, data in ((config_name, config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
        for name, layer in zip(files, layers, strict=True):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = layer.path.stat().st_size, 0o644
            with layer.path.open("rb") as file:
                tar.addfile(entry, file)
