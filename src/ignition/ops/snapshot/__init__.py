"""Partial pages: kept in continuation rows, and copied back to private pages (AH-15, AH-16).

A continuation row holds one page of keys, then one page of values, laid out as pages are.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import Field, Kernel

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int32]

NOWHERE: Final = -1


def restore(
    plane: Array, saved: Array, *, tables: Words, endpoints: Words, rows: Ints, pages: Ints
) -> None:
    """Copy each lane's partial page, from a continuation row or else from another page.

    `plane` [pages, layers, heads, page_tokens, width]; `saved` [rows, ...] alike; `tables`
    [lanes, row_pages]; `endpoints`, `rows`, `pages` [lanes], where -1 names nothing.
    """
    page_tokens = plane.shape[3]
    for table, endpoint, row, page in zip(tables, endpoints, rows, pages, strict=True):
        index, records = divmod(int(endpoint), page_tokens)
        if not records or row == page == NOWHERE:
            continue
        source = plane[page] if row == NOWHERE else saved[row]
        plane[table[index]][:, :, :records] = source[:, :, :records]


def publish(plane: Array, saved: Array, *, tables: Words, endpoints: Words, rows: Ints) -> None:
    """Keep each lane's partial page in its continuation row; shapes as in `restore`."""
    page_tokens = plane.shape[3]
    for table, endpoint, row in zip(tables, endpoints, rows, strict=True):
        index, records = divmod(int(endpoint), page_tokens)
        if records:
            saved[row][:, :, :records] = plane[table[index]][:, :, :records]


STRIPS: Final = {
    "live_rows": Field.WORDS,
    "slots": Field.WORDS,
    "endpoints": Field.WORDS,
    "rows": Field.INTS,  # of continuations
    "tables": Field.WORDS,
    "keys": Field.BYTES,
    "values": Field.BYTES,
    "continuations": Field.BYTES,
    "page_stride": Field.U64,
    "strip_nbytes": Field.U64,  # one head of one layer of a page
    "strips": Field.U32,  # layers times heads
    "row_pages": Field.U32,
    "page_tokens": Field.U32,
}

RESTORE: Final = Kernel("restore", {**STRIPS, "pages": Field.INTS})
PUBLISH: Final = Kernel("publish", STRIPS)
