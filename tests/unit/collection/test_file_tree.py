"""file_tree: a folder that holds exactly the set, and tree_files, which reads one."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.frank.fleet.plugins.filter.tree_files import tree_files
from unit.collection.fakehost import FakeHost

FILES = {"tool.sh": "#!/bin/sh\n", "package/__init__.py": "x = 'ü'\n"}


@pytest.fixture
def dest(host: FakeHost) -> Path:
    return host.home / "share/tool"


def content(folder: Path) -> dict[str, tuple[str, str]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_text(), oct(path.stat().st_mode & 0o777)) for path in files}


def test_the_set_is_installed_and_a_second_run_changes_nothing(host, dest):
    result = host.ok("file_tree", dest=str(dest), files=FILES)
    assert result["changed"] and sorted(result["written"]) == sorted(FILES)
    expected = {"tool.sh": ("#!/bin/sh\n", "0o755"), "package/__init__.py": ("x = 'ü'\n", "0o644")}
    assert content(dest) == expected
    assert not host.ok("file_tree", dest=str(dest), files=FILES)["changed"]


def test_strangers_go_and_compiled_files_stay(host, dest):
    host.ok("file_tree", dest=str(dest), files=FILES)
    cache = dest / "package/__pycache__/module.pyc"
    cache.parent.mkdir()
    cache.touch()
    (dest / "package/old.py").touch()
    result = host.ok("file_tree", dest=str(dest), files=FILES)
    assert (result["removed"], result["written"]) == (["package/old.py"], [])
    assert cache.exists() and not (dest / "package/old.py").exists()


@pytest.mark.parametrize("damage", ["content", "mode", "link"])
def test_a_damaged_file_is_restored(host, dest, damage):
    host.ok("file_tree", dest=str(dest), files=FILES)
    file, elsewhere = dest / "tool.sh", host.home / "elsewhere"
    elsewhere.write_text(FILES["tool.sh"])
    elsewhere.chmod(0o755)
    if damage == "content":
        file.write_text("#!/bin/false\n")
    elif damage == "mode":
        file.chmod(0o644)
    else:
        file.unlink()
        file.symlink_to(elsewhere)
    assert host.ok("file_tree", dest=str(dest), files=FILES)["written"] == ["tool.sh"]
    assert content(dest)["tool.sh"] == ("#!/bin/sh\n", "0o755")
    assert not file.is_symlink() and elsewhere.exists()


def test_check_mode_predicts_and_writes_nothing(host, dest):
    before = host.snapshot()
    result = host.ok("file_tree", check=True, dest=str(dest), files=FILES)
    assert result["changed"]
    assert {part["after_header"]: part["after"] for part in result["diff"]} == {
        str(dest / name): text for name, text in FILES.items()
    }
    assert host.snapshot() == before


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out"])
def test_a_path_that_leaves_the_folder_is_refused(host, dest, name):
    assert "leads out of" in host.error("file_tree", dest=str(dest), files={name: ""})


def test_a_link_on_the_way_is_refused(host, dest):
    (host.home / "real").mkdir()
    dest.parent.symlink_to(host.home / "real")
    assert "is a symlink" in host.error("file_tree", dest=str(dest), files=FILES)
    assert list((host.home / "real").iterdir()) == []


def test_what_a_killed_run_left_is_swept(host, dest):
    dest.mkdir(parents=True)
    (dest / ".frank-fleet-x.tmp").touch()
    host.ok("file_tree", dest=str(dest), files=FILES)
    assert sorted(content(dest)) == sorted(FILES)


def test_tree_files_reads_what_file_tree_installs(host, dest):
    host.ok("file_tree", dest=str(dest), files=FILES)
    (dest / "package/__pycache__").mkdir()
    (dest / "package/__pycache__/module.pyc").write_bytes(b"\xff")
    assert tree_files(str(dest)) == FILES


def test_tree_files_of_nothing_is_an_error(tmp_path):
    with pytest.raises(AnsibleFilterError, match="no files below"):
        tree_files(str(tmp_path))
