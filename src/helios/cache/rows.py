"""Continuation rows: where the payload of a page that is not full is kept (AH-05, AH-15).

Knows numbers only; what a row contains is the contract's business.  A row is taken for a
snapshot, adopted by the prefix tree once the snapshot's fence has passed, and shared by whoever
restores from it until that fence has passed.
"""

from __future__ import annotations

from helios.cache.pool import Pool
from helios.values import SnapshotRow

RowPool = Pool[SnapshotRow]


def row_pool(total: int) -> RowPool:
    """So many continuation rows, all free."""
    return RowPool(total, kind="row")
