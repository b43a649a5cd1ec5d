"""Log-probabilities: of a given token, and of the likeliest ones."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import Field, Kernel

MOST_TOP: Final = 20  # build/cpu/scores.h
NO_TOKEN: Final = -1

Floats = npt.NDArray[np.float32]


def log_probabilities(logits: Floats) -> npt.NDArray[np.float64]:
    """Log-softmax of one row."""
    wide = logits.astype(np.float64) - logits.max()
    shares: npt.NDArray[np.float64] = wide - np.log(np.exp(wide).sum())
    return shares


def likeliest(logits: Floats, count: int) -> npt.NDArray[np.int32]:
    """The ids of the largest logits, lower ids first among equals; none that is out."""
    order = np.lexsort((np.arange(len(logits)), -logits))[:count]
    return order[logits[order] > -np.inf].astype(np.int32)


def top_row(logits: Floats, count: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """Ids and log-probabilities of the likeliest, in rows of `MOST_TOP`."""
    ids = np.full(MOST_TOP, NO_TOKEN, np.int32)
    values = np.zeros(MOST_TOP, np.float32)
    if count > 0:
        found = likeliest(logits, count)
        ids[: len(found)] = found
        values[: len(found)] = log_probabilities(logits)[found]
    return ids, values


SCORE: Final = Kernel(
    "score",
    {
        "logits": Field.FLOATS,  # [rows, stride]; only read
        "rows": Field.WORDS,
        "targets": Field.INTS,  # [rows]; -1: no score
        "lanes": Field.WORDS,  # [rows]
        "slots": Field.WORDS,
        "states": Field.BYTES,
        "logprobs": Field.FLOATS,  # [rows]
        "top_ids": Field.INTS,  # [rows, MOST_TOP]
        "top_logprobs": Field.FLOATS,  # [rows, MOST_TOP]
        "tokens": Field.U32,
        "stride": Field.U32,
        "slot_stride": Field.U32,
    },
)
