"""What packed numbers mean, against the `gguf` package's own dequantisation."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ignition.weights.formats import (
    BLOCK_COLUMNS,
    LAYOUTS,
    MEANINGS,
    Bytes,
    Format,
    block_columns,
    block_nbytes,
    dequantise,
    row_nbytes,
)

# Half floats that are easy to get wrong: zeros of both signs, the smallest and largest
# subnormals, the largest number, infinities and one that is undefined.
ODD_HALVES = (0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00)


def expected(raw: Bytes, stored: Format) -> np.ndarray:
    """The independent implementation; it warns about broken scales, we do not."""
    with np.errstate(all="ignore"):
        found = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[stored.value])
    return np.asarray(found, np.float32)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.shape == right.shape and left.tobytes() == right.tobytes()


def half_fields(stored: Format) -> list[int]:
    """Where a block's half floats begin."""
    layout = LAYOUTS[stored]
    assert layout.fields is not None
    return [offset for kind, offset, *_ in layout.fields.values() if kind == np.dtype("<f2")]


def test_every_format_has_a_layout_and_a_meaning() -> None:
    assert set(LAYOUTS) == set(BLOCK_COLUMNS) == set(MEANINGS) == set(Format)


@pytest.mark.parametrize("stored", Format)
def test_blocks_are_as_large_as_the_gguf_package_says(stored: Format) -> None:
    expected_columns, expected_nbytes = gguf.GGML_QUANT_SIZES[
        gguf.GGMLQuantizationType[stored.value]
    ]
    assert (block_columns(stored), block_nbytes(stored)) == (expected_columns, expected_nbytes)
    assert row_nbytes(stored, columns=3 * expected_columns) == 3 * expected_nbytes


@pytest.mark.parametrize("stored", Format)
@settings(deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 40), blocks=st.integers(1, 3))
def test_random_blocks_mean_the_same_bits(
    stored: Format, seed: int, rows: int, blocks: int
) -> None:
    nbytes = blocks * block_nbytes(stored)
    raw = np.random.default_rng(seed).integers(0, 256, (rows, nbytes), np.uint8)
    assert same_bits(dequantise(raw, stored), expected(raw, stored))


@pytest.mark.parametrize("stored", Format)
@settings(deadline=None)
@given(data=st.data())
def test_chosen_blocks_mean_the_same_bits(stored: Format, data: st.DataObject) -> None:
    raw = data.draw(arrays(np.uint8, (2, block_nbytes(stored))))
    assert same_bits(dequantise(raw, stored), expected(raw, stored))


@pytest.mark.parametrize("half", ODD_HALVES)
@pytest.mark.parametrize("stored", Format)
def test_odd_scales_mean_the_same_bits(stored: Format, half: int) -> None:
    raw = np.random.default_rng(half).integers(0, 256, (4, block_nbytes(stored)), np.uint8)
    for offset in half_fields(stored):
        raw[:, offset : offset + 2] = np.frombuffer(half.to_bytes(2, "little"), np.uint8)
    assert same_bits(dequantise(raw, stored), expected(raw, stored))


@pytest.mark.parametrize("stored", Format)
def test_blocks_of_zeros_are_zeros(stored: Format) -> None:
    raw = np.zeros((2, block_nbytes(stored)), np.uint8)
    values = dequantise(raw, stored)
    assert not values.any()
    assert same_bits(values, expected(raw, stored))


@pytest.mark.parametrize("stored", Format)
def test_the_shape_of_the_rows_is_kept(stored: Format) -> None:
    raw = np.zeros((3, 2, 2 * block_nbytes(stored)), np.uint8)
    assert dequantise(raw, stored).shape == (3, 2, 2 * block_columns(stored))
    assert dequantise(raw[:0], stored).shape == (0, 2, 2 * block_columns(stored))


@pytest.mark.parametrize("stored", Format)
def test_rows_that_are_not_contiguous_are_read_as_they_are(stored: Format) -> None:
    raw = np.random.default_rng(3).integers(0, 256, (8, block_nbytes(stored)), np.uint8)
    assert same_bits(dequantise(raw[::2], stored), expected(raw[::2].copy(), stored))
