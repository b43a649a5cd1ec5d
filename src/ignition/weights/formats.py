"""How stored numbers are packed, and which float32 each packed number means.

A row is cut into blocks of equally many columns; a block is a fixed run of bytes that
`LAYOUTS` spells out field by field.  Nothing here knows files or tensors' names.

Always: the same bytes give the same float32 bits, on every machine and for every shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Blocks = NDArray[np.void]


class Format(Enum):
    """The stored formats that we read."""

    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    Q8_0 = "Q8_0"
    Q4_0 = "Q4_0"
    Q4_1 = "Q4_1"
    Q4_K = "Q4_K"
    Q6_K = "Q6_K"


BLOCK_COLUMNS: Final[Mapping[Format, int]] = {
    Format.F32: 1,
    Format.F16: 1,
    Format.BF16: 1,
    Format.Q8_0: 32,
    Format.Q4_0: 32,
    Format.Q4_1: 32,
    Format.Q4_K: 256,
    Format.Q6_K: 256,
}

LAYOUTS: Final[Mapping[Format, np.dtype[np.void]]] = {
    Format.F32: np.dtype([("value", "<f4")]),
    Format.F16: np.dtype([("value", "<f2")]),
    Format.BF16: np.dtype([("high_half", "<u2")]),
    Format.Q8_0: np.dtype([("scale", "<f2"), ("quants", "i1", (32,))]),
    Format.Q4_0: np.dtype([("scale", "<f2"), ("nibbles", "u1", (16,))]),
    Format.Q4_1: np.dtype([("scale", "<f2"), ("least", "<f2"), ("nibbles", "u1", (16,))]),
    Format.Q4_K: np.dtype(
        [("scale", "<f2"), ("least", "<f2"), ("packed", "u1", (3, 4)), ("nibbles", "u1", (4, 32))]
    ),
    Format.Q6_K: np.dtype(
        [
            ("low", "u1", (2, 64)),
            ("high", "u1", (2, 32)),
            ("scales", "i1", (16,)),
            ("scale", "<f2"),
        ]
    ),
}


def block_columns(stored: Format) -> int:
    """Columns in one block."""
    return BLOCK_COLUMNS[stored]


def block_nbytes(stored: Format) -> int:
    """Bytes in one block."""
    return LAYOUTS[stored].itemsize


def row_nbytes(stored: Format, *, columns: int) -> int:
    """Bytes of one row; `columns` must be whole blocks."""
    blocks, rest = divmod(columns, block_columns(stored))
    assert rest == 0, "rows are whole blocks; readers check this at the door"
    return blocks * block_nbytes(stored)


def dequantise(raw: Bytes, stored: Format) -> Floats:
    """The numbers that packed rows mean: (..., row bytes) becomes (..., columns)."""
    blocks = np.ascontiguousarray(raw).reshape(-1).view(LAYOUTS[stored])
    # Broken scales (infinite, undefined) mean what arithmetic makes of them: no warning.
    with np.errstate(invalid="ignore", over="ignore"):
        values = MEANINGS[stored](blocks)
    row_blocks = raw.shape[-1] // block_nbytes(stored)
    return values.reshape(*raw.shape[:-1], row_blocks * block_columns(stored))


def plain(blocks: Blocks) -> Floats:
    """F32 and F16: the stored value itself."""
    return as_floats(blocks["value"])


def upper_half(blocks: Blocks) -> Floats:
    """BF16: the upper sixteen bits of a float32."""
    return (blocks["high_half"].astype(np.uint32) << np.uint32(16)).view(np.float32)


def eight_bit(blocks: Blocks) -> Floats:
    """Q8_0: scale * quant."""
    return column(blocks["scale"]) * as_floats(blocks["quants"])


def four_bit(blocks: Blocks) -> Floats:
    """Q4_0: scale * (nibble - 8); low nibbles are the first half of the columns."""
    signed = nibbles_of(blocks["nibbles"]).astype(np.int8) - np.int8(8)
    return column(blocks["scale"]) * as_floats(signed.reshape(len(blocks), 32))


def four_bit_from_least(blocks: Blocks) -> Floats:
    """Q4_1: scale * nibble + least."""
    nibbles = as_floats(nibbles_of(blocks["nibbles"]).reshape(len(blocks), 32))
    return column(blocks["scale"]) * nibbles + column(blocks["least"])


def four_bit_nested(blocks: Blocks) -> Floats:
    """Q4_K: eight groups of 32, each with its own six-bit scale and least value."""
    scales, leasts = six_bit_pairs(blocks["packed"])
    group_scale = column(blocks["scale"]) * as_floats(scales)
    group_least = column(blocks["least"]) * as_floats(leasts)
    nibbles = as_floats(nibbles_of(blocks["nibbles"]).reshape(len(blocks), 8, 32))
    return group_scale[..., None] * nibbles - group_least[..., None]


def six_bit_nested(blocks: Blocks) -> Floats:
    """Q6_K: sixteen groups of 16, each with its own signed scale; quants are less 32."""
    group_scale = column(blocks["scale"]) * as_floats(blocks["scales"])
    low = nibbles_of(blocks["low"]).reshape(len(blocks), 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)
    high = (blocks["high"][:, :, None, :] >> shifts) & np.uint8(3)
    quants = (low | (high << np.uint8(4))).astype(np.int8) - np.int8(32)
    return group_scale[..., None] * as_floats(quants.reshape(len(blocks), 16, 16))


def nibbles_of(packed: Bytes) -> Bytes:
    """All low nibbles, then all high nibbles, on a new axis before the last."""
    return np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=-2)


def six_bit_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Unpack Q4_K's eight scales and eight least values from three rows of four bytes.

    Rows one and two hold the first four scales and leasts in their low six bits; the last
    four have their low nibbles in row three and their upper two bits on top of those rows.
    """
    first_scales, first_leasts, nibbles = packed[:, 0], packed[:, 1], packed[:, 2]
    six, upper = np.uint8(63), np.uint8(0x30)
    last_scales = (nibbles & np.uint8(15)) | ((first_scales >> np.uint8(2)) & upper)
    last_leasts = (nibbles >> np.uint8(4)) | ((first_leasts >> np.uint8(2)) & upper)
    return (
        np.concatenate([first_scales & six, last_scales], axis=-1),
        np.concatenate([first_leasts & six, last_leasts], axis=-1),
    )


def as_floats(values: NDArray[Any]) -> Floats:
    """Every stored type fits float32 exactly."""
    return values.astype(np.float32)


def column(scales: NDArray[Any]) -> Floats:
    """One float per block, shaped to multiply the block's columns."""
    return as_floats(scales)[:, None]


MEANINGS: Final[Mapping[Format, Callable[[Blocks], Floats]]] = {
    Format.F32: plain,
    Format.F16: plain,
    Format.BF16: upper_half,
    Format.Q8_0: eight_bit,
    Format.Q4_0: four_bit,
    Format.Q4_1: four_bit_from_least,
    Format.Q4_K: four_bit_nested,
    Format.Q6_K: six_bit_nested,
}
