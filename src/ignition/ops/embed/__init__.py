"""Rows of the embedding table."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import Field, Kernel
from ignition.ops.linear import NUMBERS, PACKED
from ignition.ops.tolerance import Within


def embed(tokens: npt.NDArray[np.int32], table: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rows of `table` [vocabulary, columns] named by `tokens` [rows]."""
    return table[tokens].astype(np.float32)


TOLERANCE: Final = Within(relative=0.0)

EMBED: Final = {
    name: Kernel(
        f"embed_{name}",
        {
            "weights": Field.BYTES,
            "tokens": Field.INTS,
            "rows": Field.WORDS,
            "out": Field.FLOATS,
            "columns": Field.U32,
            "stride": Field.U32,
            "block_nbytes": Field.U64,
        },
        "embed",
    )
    for name in (*PACKED, *NUMBERS)
}
