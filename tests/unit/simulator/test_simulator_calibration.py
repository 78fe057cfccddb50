"""What was measured on the cards comes out of the model within 15 %."""

import pytest
from engine_simulator.calibration import TOLERANCE, Row, render, rows


def test_the_model_gives_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    table = list(rows())
    with capsys.disabled():
        print(f"\n{render(table)}")
    off = [row for row in table if row.binding and abs(row.ratio - 1) > TOLERANCE]
    assert not off
    assert len([row for row in table if row.binding]) >= 18


def test_the_table_says_what_is_not_modelled() -> None:
    text = render([Row("a", "ms", 10, 12), Row("b", "ms", 10, 20, binding=False)])
    assert [line.split()[2:] for line in text.splitlines()[1:]] == [
        ["10", "12", "1.20"],
        ["10", "20", "2.00", "(not", "modelled)"],
    ]
