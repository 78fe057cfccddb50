"""The report reads from fault to fix, and counts."""

from __future__ import annotations

from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Fault, Report, text_of


def test_a_sound_host_gets_a_table() -> None:
    report = Report()
    report.row("shape", "tp2")
    report.row("podman", "5.4.2 " + "and more " * 11)
    assert text_of(report, "box").splitlines() == [
        "box is ready.",
        "",
        "  shape   tp2",
        "  podman  5.4.2 and more and more and more and more and more and more and more and more and more and more and",
        "          more",
    ]


def test_faults_are_numbered_and_leave_no_room_for_a_table() -> None:
    report = Report()
    report.row("shape", "tp2")
    report.fault("a is wrong", "/a", "b would fail", "sudo a " + "x" * 150)
    report.fault("c is wrong", "/c", "d would fail", "sudo c")
    report.warn("mind e")
    assert text_of(report, "box").splitlines() == [
        "box is not ready: 2 faults. Nothing was changed.",
        "",
        "1. a is wrong",
        "   where: /a",
        "   why:   b would fail",
        "   fix:   sudo a " + "x" * 150,
        "",
        "2. c is wrong",
        "   where: /c",
        "   why:   d would fail",
        "   fix:   sudo c",
        "",
        "1 warning, which stops nothing:",
        "- mind e",
    ]


def test_two_ways_to_one_fault_or_warning_make_one() -> None:
    report = Report()
    for _ in range(2):
        report.fault("a", "b", "c", "d")
        report.warn("e")
    assert report.faults == [Fault("a", "b", "c", "d")]
    assert report.warnings == ["e"]
    assert text_of(report, "box").startswith("box is not ready: 1 fault. ")


def test_warnings_alone_leave_the_host_ready() -> None:
    report = Report(warnings=["a", "b"])
    assert text_of(report, "box").splitlines() == [
        "box is ready.", "", "2 warnings, which stop nothing:", "- a", "- b",
    ]  # fmt: skip
