"""A short soak: clients leave at every phase, and afterwards nothing of theirs is held."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import soak

REQUESTS = 300


@pytest.mark.clause("TO-29")
def test_clients_that_leave_at_any_phase_leave_nothing_held(tmp_path: Path) -> None:
    found = soak(tmp_path, requests=REQUESTS, timed=False)
    assert [each for each in found if not each.good] == []
    counts = {each.what: each.found for each in found}
    for phase in ("before headers", "in the stream", "after the answer"):
        assert counts[f"left {phase}"], phase
    assert counts["prompt tokens reused"], "no prefix was shared"
