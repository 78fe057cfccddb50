"""A small soak through the real proxy: replicas killed under load, every request accounted for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.proxy_soak.__main__ import soak


def test_every_request_is_accounted_for(tmp_path: Path) -> None:
    books = asyncio.run(soak(requests=300, kills=4, workers=12, seed=7, scratch=tmp_path))
    assert books.violations() == []
    kinds = {outcome.kind for outcome in books.outcomes}
    assert len(books.outcomes) >= 300
    assert sum(map(len, books.ledger.kills.values())) >= 4
    assert {"answered", "rejected", "abandoned"} <= kinds, "the load was not mixed"
    assert any(len(copies) > 1 for copies in books.ledger.copies.values()), "nothing was ever sent again"
