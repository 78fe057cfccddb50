"""The folder of a Prometheus that is somebody else's: what is ours in it, and how it is replaced."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils.files import (
    read_plain,
    refuse_links,
    sweep_temporaries,
    write_atomically,
)
from ansible_collections.frank.fleet.plugins.module_utils.prometheus_text import with_alertmanager, with_includes

FOLDER = "frank-fleet"
RULES = "frank-fleet.rules.yml"
SCRAPE = "scrape.yml"
STAGE = ".frank-fleet-"
#: Keeps what was replaced until Prometheus has confirmed what is new.
BEFORE = "frank-fleet.before"
#: Larger files beside a configuration are data.
LARGEST = 2**20


class Files:
    """The configuration and our two files: as they are, as they are wanted, and as they were last confirmed."""

    def __init__(self, module: AnsibleModule):
        self.config = Path(module.params["config"])
        self.folder = self.config.parent
        self.kept = self.folder / BEFORE
        ours = self.folder / FOLDER
        refuse_links(ours, base=self.folder)
        found = read_plain(self.config)
        if found is None and not module.check_mode:
            module.fail_json(msg=f"{self.config} does not exist: install Prometheus first, or say where it is (config)")
        text, alertmanager = with_includes(found or ""), module.params["alertmanager"]
        wanted = {ours / SCRAPE: module.params["scrape"], ours / RULES: module.params["rules"]}
        # The configuration last: it must not name files that are not there yet.
        self.after = {**wanted, self.config: with_alertmanager(text, alertmanager) if alertmanager else text}
        self.before = {path: read_plain(path) for path in self.after}
        self.unconfirmed = self.kept.is_dir()

    @property
    def changed(self) -> list[Path]:
        """Files that differ from what is wanted."""
        return [path for path in self.after if self.before[path] != self.after[path]]

    def keep(self) -> None:
        """Keep what is about to be replaced, unless an earlier run that was never confirmed did already."""
        if self.unconfirmed:
            return
        draft = Path(tempfile.mkdtemp(prefix=STAGE, dir=self.folder))
        for path, text in self.before.items():
            if text is not None:
                write_atomically(draft / path.name, text, 0o600)
        draft.rename(self.kept)

    def write(self) -> None:
        """Write what is wanted."""
        for path in self.changed:
            replace(path, self.after[path])

    def put_back(self) -> None:
        """Write what was last confirmed."""
        for path in self.after:
            text = read_plain(self.kept / path.name)
            if text is None:
                path.unlink(missing_ok=True)
            else:
                replace(path, text)

    def confirmed(self) -> None:
        """Forget what was kept."""
        shutil.rmtree(self.kept)


def replace(path: Path, text: str) -> None:
    """Write a file, with the mode and owner of the one that it replaces."""
    if path.exists():
        was = path.stat()
        write_atomically(path, text, was.st_mode & 0o7777, (was.st_uid, was.st_gid))
    else:
        write_atomically(path, text)


def sweep(folder: Path) -> None:
    """Remove what a killed run left: temporary files, and stages."""
    sweep_temporaries(folder)
    for leftover in folder.glob(f"{STAGE}*"):
        shutil.rmtree(leftover)


def is_data(folder: str, names: list[str]) -> set[str]:
    """What beside a configuration is none: our stages, databases, large files."""
    found = {name for name in names if name.startswith((STAGE, BEFORE))}
    for name in names:
        path = Path(folder, name)
        large = path.is_file() and path.stat().st_size > LARGEST
        if large or (path / "wal").exists() or (path / "chunks_head").exists():
            found.add(name)
    return found
