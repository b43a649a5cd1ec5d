"""Causal attention over keys and values kept in pages (Vaswani et al. 2017, grouped heads)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.history import HISTORY_FIELDS
from ignition.ops.kernel import ACTIVATION, Field, Kernel
from ignition.ops.tolerance import Within

Floats = npt.NDArray[np.float32]


def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    *,
    pages: npt.NDArray[np.uint32],
    positions: npt.NDArray[np.int32],
    scale: float,
) -> Floats:
    """Each row's weighted values over the positions up to its own.

    `queries` [rows, heads, width]; `keys`, `values`: one layer of a plane
    [pages, key_heads, page_tokens, width]; `pages` [rows, row_pages].
    """
    out = np.empty_like(queries)
    page_tokens, heads = keys.shape[2], queries.shape[1]
    group = heads // keys.shape[1]
    for row, position in enumerate(positions):
        used = pages[row, : position // page_tokens + 1]
        k = keys[used].transpose(1, 0, 2, 3).reshape(keys.shape[1], -1, keys.shape[3])
        v = values[used].transpose(1, 0, 2, 3).reshape(k.shape)
        k = np.repeat(k[:, : position + 1], group, axis=0)
        v = np.repeat(v[:, : position + 1], group, axis=0)
        scores = np.einsum("hw,hpw->hp", queries[row], k) * np.float32(scale)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[row] = np.einsum("hp,hpw->hw", weights, v)
    return out


TOLERANCE: Final = Within(relative=2e-5)  # against keys and values as they were stored

MOST_QUERIES: Final = 16
"""Query rows that one unit keeps scores for (`cpu.c`)."""

ATTEND: Final = Kernel(
    "attend",
    {
        "queries": Field.FLOATS,
        **HISTORY_FIELDS,
        "out": Field.FLOATS,  # null: quantised
        "q": ACTIVATION["q"],
        "activation_scale": ACTIVATION["scale"],
        "sum": ACTIVATION["sum"],
        "bias": ACTIVATION["bias"],
        "out_stride": Field.U32,
        "score_stride": Field.U32,
        "tile": Field.U32,
        "scale": Field.F32,
    },
)
