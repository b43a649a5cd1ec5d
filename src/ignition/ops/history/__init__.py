"""Rotary positions, and keys and values kept in pages."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import Field, Kernel
from ignition.ops.tolerance import Within

Floats = npt.NDArray[np.float32]


def rotate(x: Floats, positions: npt.NDArray[np.int32], turns: Floats) -> Floats:
    """Turn adjacent pairs of columns by each row's position (Su et al. 2021, arXiv 2104.09864).

    `x` [rows, heads, width]; `turns` [positions, width]: cosine and sine of each pair.
    """
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    turn = turns[positions].reshape(len(positions), 1, -1, 2)
    cosine, sine = turn[..., 0], turn[..., 1]
    out = np.stack(
        [
            pairs[..., 0] * cosine - pairs[..., 1] * sine,
            pairs[..., 0] * sine + pairs[..., 1] * cosine,
        ],
        axis=-1,
    )
    return out.reshape(x.shape).astype(np.float32)


def store(
    plane: Floats,
    x: Floats,
    *,
    pages: npt.NDArray[np.uint32],
    positions: npt.NDArray[np.int32],
) -> None:
    """Put rows [rows, heads, width] into one layer of a plane [pages, heads, page_tokens, width].

    `pages` [rows, row_pages]: the page table of each row's slot.
    """
    page_tokens = plane.shape[2]
    page = pages[np.arange(len(positions)), positions // page_tokens]
    plane[page, :, positions % page_tokens] = x


TOLERANCE: Final = Within(relative=4e-3)  # half a unit in the last place of bfloat16

HISTORY_FIELDS: Final = {
    "slots": Field.WORDS,
    "lanes": Field.WORDS,
    "positions": Field.INTS,
    "rows": Field.WORDS,
    "pages": Field.WORDS,
    "keys": Field.BYTES,
    "values": Field.BYTES,
    "page_stride": Field.U64,
    "layer_offset": Field.U64,
    "row_pages": Field.U32,
    "page_tokens": Field.U32,
    "query_heads": Field.U32,
    "key_heads": Field.U32,
    "width": Field.U32,
}

ROTATE_AND_STORE: Final = Kernel(
    "rotate_and_store",
    {
        "x": Field.FLOATS,  # [rows, stride]: query heads, key heads, value heads
        "turns": Field.FLOATS,
        "queries": Field.FLOATS,
        **HISTORY_FIELDS,
        "stride": Field.U32,
    },
)
