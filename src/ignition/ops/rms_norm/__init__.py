"""Root-mean-square norm of rows (Zhang and Sennrich 2019, arXiv 1910.07467)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import ACTIVATION, Field, Kernel
from ignition.ops.tolerance import Within

Floats = npt.NDArray[np.float32]


def rms_norm(x: Floats, weight: Floats, *, epsilon: float) -> Floats:
    """Rows of `x` [rows, columns] over their root mean square, times `weight` [columns]."""
    wide = x.astype(np.float32)
    scale = 1.0 / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + np.float32(epsilon))
    out: Floats = (wide * scale * weight).astype(np.float32)
    return out


TOLERANCE: Final = Within(relative=2e-6)

ROWS: Final = {
    "x": Field.FLOATS,
    "picks": Field.WORDS,  # input row of each result row; null: the same
    "rows": Field.WORDS,  # live count
}

NORM: Final = Kernel(
    "rms_norm",
    {
        **ROWS,
        "weight": Field.FLOATS,
        "out": Field.FLOATS,
        "columns": Field.U32,
        "stride": Field.U32,
        "out_stride": Field.U32,
        "epsilon": Field.F32,
    },
)

NORM_QUANTISE: Final = Kernel(
    "rms_norm_quantise",
    {
        **ROWS,
        "weight": Field.FLOATS,
        **ACTIVATION,
        "columns": Field.U32,
        "stride": Field.U32,
        "epsilon": Field.F32,
    },
)

QUANTISE: Final = Kernel(
    "quantise",
    {
        "x": Field.FLOATS,
        "rows": Field.WORDS,
        **ACTIVATION,
        "columns": Field.U32,
        "stride": Field.U32,
    },
)


FINE_STEPS: Final = 256
"""How much finer the steps of 16-bit activations are than those of 8-bit ones."""


def quantised(x: Floats, *, fine: bool = False) -> Floats:
    """What quantised activations keep of `x`: groups of 32 columns, scale = largest / 127.

    With `fine` a step is a 256th of that.
    """
    groups = x.reshape(*x.shape[:-1], -1, 32).astype(np.float32)
    most = np.max(np.abs(groups), axis=-1, keepdims=True)
    steps = np.float32(127.0 * FINE_STEPS if fine else 127.0)
    with np.errstate(divide="ignore"):
        inverse = np.where(most > 0, steps / most, np.float32(0.0))
    rounded = np.rint(groups * inverse.astype(np.float32))
    kept: Floats = (rounded * (most / steps)).reshape(x.shape).astype(np.float32)
    return kept
