"""The set that quadlet_units stages, judged by Podman's own generator."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.frank.fleet.plugins.module_utils.generator import Verdict, validate

INSTALL = "[Install]\nWantedBy=default.target\n"


def unit(body: str = "", install: str = INSTALL) -> str:
    return f"# Managed by frank-fleet\n[Container]\nImage=localhost/x:1\n{body}{install}"


def judge(generator: Path, live: Path, **units: str) -> Verdict:
    return validate(str(generator), live, {f"{name}.container": text for name, text in units.items()})


def test_good_units_are_named_with_their_services(generator: Path, tmp_path: Path) -> None:
    verdict = judge(generator, tmp_path, a=unit(), b=unit("ServiceName=other\n"))
    assert verdict.services == {"a.container": "a.service", "b.container": "other.service"}
    assert (verdict.faults, verdict.warnings) == ([], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (unit("Memory=4g\n"), "unsupported key 'Memory'"),  # Known from Podman 5.5 on, the host has 5.4.
        (unit("Imgae=x\n"), "unsupported key 'Imgae'"),
        ("[Container]\n" + INSTALL, "no Image or Rootfs key specified"),
        (unit("Network=gone.network\n"), "gone.network was not found"),
        (unit("this is no line\n"), "not a key-value pair"),
        (unit(install=""), "would not start at boot"),
        (unit(install="[Install]\nWantedBy=multi-user.target\n"), "would not start at boot"),
    ],
)
def test_a_unit_that_would_not_run_is_a_fault_with_its_reason(
    generator: Path, tmp_path: Path, text: str, reason: str
) -> None:
    [fault, *others] = judge(generator, tmp_path, bad=text).faults
    assert fault.startswith("bad.container would") and reason in fault and others == []


def test_a_good_unit_beside_a_bad_one_is_no_fault(generator: Path, tmp_path: Path) -> None:
    faults = judge(generator, tmp_path, good=unit(), bad=unit("Memory=4g\n")).faults
    assert [fault.split()[0] for fault in faults] == ["bad.container"]


def test_a_bad_unit_of_somebody_else_is_a_warning(generator: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/theirs.container").write_text(unit("Memory=4g\n"))
    verdict = judge(generator, tmp_path, a=unit())
    assert verdict.faults == [] and "theirs.container" in verdict.warnings[0]


def test_a_foreign_file_that_stops_the_generator_is_named(generator: Path, tmp_path: Path) -> None:
    """Podman 5.4 then makes nothing at all, so after a reload every unit of the user would be gone."""
    (tmp_path / "theirs.container").write_text("this is no line\n")
    assert "theirs.container" in judge(generator, tmp_path, a=unit()).faults[0]


def test_the_live_unit_of_the_same_name_is_replaced_and_its_drop_in_counts(generator: Path, tmp_path: Path) -> None:
    (tmp_path / "a.container").write_text(unit("Memory=4g\n"))
    assert judge(generator, tmp_path, a=unit()).faults == []
    (tmp_path / "a.container.d").mkdir()
    (tmp_path / "a.container.d/10.conf").write_text("[Container]\nMemory=4g\n")
    assert "unsupported key 'Memory'" in judge(generator, tmp_path, a=unit()).faults[0]


def test_a_unit_may_refer_to_one_that_is_live(generator: Path, tmp_path: Path) -> None:
    (tmp_path / "there.network").write_text("[Network]\n")
    assert judge(generator, tmp_path, a=unit("Network=there.network\n")).faults == []


def test_the_live_folder_is_not_touched(generator: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.container").write_text(unit())
    judge(generator, tmp_path, a=unit())
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.container"]


def test_warnings_about_our_units_are_passed_on(generator: Path, tmp_path: Path) -> None:
    [warning] = judge(generator, tmp_path, a=unit().replace("localhost/x:1", "short")).warnings
    assert "a.container" in warning and "not a fully qualified image name" in warning
