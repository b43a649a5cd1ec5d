"""Stored blocks to packed matrices: the layouts of `build/cpu/packed.h`, nothing rounded.

Quantised tensors keep every bit: 4-bit numbers stay packed, 6-bit ones are kept in bytes
(6.6 to 8.6 bits a weight, said in the catalog), scales and minima are moved, not converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

ROWS: Final = 16


def padded(raw: Bytes) -> Bytes:
    """Rows up to a multiple of 16: zero blocks stand for zero weights."""
    missing = -len(raw) % ROWS
    if not missing:
        return raw
    return np.concatenate([raw, np.zeros((missing, *raw.shape[1:]), np.uint8)])


def by_row(values: Bytes, *, unit: int) -> Bytes:
    """[rows, groups, units x unit bytes] to [blocks, groups, units, 16 rows, unit bytes], flat."""
    rows, groups, nbytes = values.shape
    units = nbytes // unit
    split = values.reshape(rows // ROWS, ROWS, groups, units, unit)
    return split.transpose(0, 2, 3, 1, 4).reshape(rows // ROWS, groups, -1)


def join(*parts: Bytes) -> Bytes:
    """Parts of a group, one after another."""
    return np.ascontiguousarray(np.concatenate(parts, axis=-1))


def pack_q4_0(raw: Bytes) -> Bytes:
    """[rows, groups, 18]: scale, nibbles."""
    return join(by_row(raw[..., 2:], unit=4), by_row(raw[..., :2], unit=2))


def pack_q4_1(raw: Bytes) -> Bytes:
    """[rows, groups, 20]: scale, minimum, nibbles."""
    return join(
        by_row(raw[..., 4:], unit=4), by_row(raw[..., :2], unit=2), by_row(raw[..., 2:4], unit=2)
    )


def pack_q8_0(raw: Bytes) -> Bytes:
    """[rows, groups, 34]: scale, signed bytes; stored unsigned, plus 128."""
    unsigned = raw[..., 2:] ^ np.uint8(0x80)
    return join(by_row(unsigned, unit=4), by_row(raw[..., :2], unit=2))


def pack_q4_k(raw: Bytes) -> Bytes:
    """[rows, supers, 144]: d, dmin, 12 bytes of 6-bit scales and minima, nibbles of 256."""
    rows, supers, _ = raw.shape
    scales, minima = six_bit_pairs(raw[..., 4:16])
    chunks = raw[..., 16:].reshape(rows, supers, 4, 32)
    # A chunk's low nibbles are one group of 32 columns, its high nibbles the next.
    columns = np.stack([chunks & 15, chunks >> 4], axis=3).reshape(rows, supers * 8, 32)
    nibbles = columns[..., :16] | (columns[..., 16:] << 4)
    groups = join(
        by_row(nibbles, unit=4),
        by_row(scales.reshape(rows, supers * 8, 1), unit=1),
        by_row(minima.reshape(rows, supers * 8, 1), unit=1),
    )
    header = join(by_row(raw[..., 0:2], unit=2), by_row(raw[..., 2:4], unit=2))
    return join(header, groups.reshape(rows // ROWS, supers, -1))


def six_bit_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight minima of 6 bits from 12 bytes."""
    low, middle, high = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=-1)
    minima = np.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], axis=-1)
    return scales, minima


def pack_q6_k(raw: Bytes) -> Bytes:
    """[rows, supers, 210]: low nibbles, high pairs, 16 signed scales, d; values kept in bytes."""
    rows, supers, _ = raw.shape
    low = raw[..., :128].reshape(rows, supers, 2, 2, 32)
    high = raw[..., 128:192].reshape(rows, supers, 2, 1, 32)
    nibbles = np.concatenate([low & 15, low >> 4], axis=3)  # [2][4][32]
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)
    values = nibbles | (((high >> shifts) & 3) << 4)
    unsigned = (values.reshape(rows, supers * 8, 32) + np.uint8(96)).astype(
        np.uint8
    )  # q - 32 + 128
    scales = raw[..., 192:208].reshape(rows, supers * 8, 2)
    groups = join(by_row(unsigned, unit=4), by_row(scales, unit=1))
    return join(by_row(raw[..., 208:210], unit=2), groups.reshape(rows // ROWS, supers, -1))


def pack_numbers(raw: Bytes) -> Bytes:
    """[rows, columns, nbytes]: numbers as they are, [column][16 rows]."""
    return by_row(raw, unit=raw.shape[2])


PACKERS: Final[Mapping[str, Callable[[Bytes], Bytes]]] = {
    "q4_0": pack_q4_0,
    "q4_1": pack_q4_1,
    "q8_0": pack_q8_0,
    "q4_k": pack_q4_k,
    "q6_k": pack_q6_k,
    "f16": pack_numbers,
    "bf16": pack_numbers,
    "f32": pack_numbers,
}
"""Layout -> from [rows, stored blocks, bytes] to [blocks of 16 rows, bytes]."""


def pack_matrix(layout: str, parts: Sequence[Bytes], *, gated: bool) -> Bytes:
    """The bytes of a matrix made of parts, each [rows, stored blocks, bytes]."""
    packed = [PACKERS[layout](padded(part)).reshape(-(-len(part) // ROWS), -1) for part in parts]
    if gated:
        gate, up = (part.reshape(len(part) // 2, 2, -1) for part in packed)
        return np.concatenate([gate, up], axis=1).reshape(-1)
    return np.concatenate(packed).reshape(-1)
