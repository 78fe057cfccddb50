"""Tests that the documentation calls a proof are there."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
PROOFS = {path: re.findall(r"`(test_\w+)`", path.read_text()) for path in sorted(PROJECT.glob("docs/*.md"))}
TESTS = "\n".join(path.read_text() for top in ("molecule", "tests") for path in PROJECT.glob(f"{top}/**/test_*.py"))


@pytest.mark.parametrize("path", [path for path in PROOFS if PROOFS[path]], ids=lambda path: path.name)
def test_every_proof_exists(path):
    assert [name for name in PROOFS[path] if f"def {name}(" not in TESTS] == []


def test_the_table_of_changes_names_proofs():
    assert len(set(PROOFS[PROJECT / "docs/runbook.md"])) > 10
