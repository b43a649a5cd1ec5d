"""Products, norms and embeddings: every kernel against its meaning, on every level that runs."""

from __future__ import annotations

import numpy as np
import pytest

from ignition.ops.embed import EMBED, embed
from ignition.ops.linear import (
    GATED_LINEAR,
    LINEAR,
    NUMBER_LINEAR,
    NUMBERS,
    PACKED,
    SILU_GATE,
    TOLERANCE,
    linear,
    silu_gate,
)
from ignition.ops.rms_norm import (
    NORM,
    NORM_QUANTISE,
    QUANTISE,
    quantised,
    rms_norm,
)
from ignition.ops.rms_norm import TOLERANCE as NORM_TOLERANCE
from ignition.plan.matrices import block_nbytes
from ignition.weights.formats import block_columns, dequantise
from ignition.weights.formats import block_nbytes as stored_nbytes
from tests.ops.kernels import SHARES, STORED, Activations, Array, Kernels, count, packed

ROWS = (1, 2, 3, 4, 5, 8, 13, 16, 17, 33)


def random_weights(layout: str, rows: int, columns: int, *, seed: int) -> tuple[Array, Array]:
    """Stored blocks with sane scales, and the floats they mean."""
    stored = STORED[layout]
    rng = np.random.default_rng(seed)
    blocks = columns // block_columns(stored)
    if layout in NUMBERS:
        values = rng.normal(0, 0.05, (rows, columns)).astype(np.float32)
        if layout == "f32":
            raw = values.view(np.uint8)
        elif layout == "f16":
            raw = values.astype(np.float16).view(np.uint8)
        else:
            raw = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        raw = raw.reshape(rows, columns, -1)
    else:
        raw = rng.integers(0, 256, (rows, blocks, stored_nbytes(stored)), np.uint8)
        scales = rng.uniform(0.001, 0.01, (rows, blocks, 2)).astype(np.float16).view(np.uint8)
        scales = scales.reshape(rows, blocks, 4)
        if layout == "q6_k":
            raw[..., -2:] = scales[..., :2]
        else:
            width = 2 if layout in ("q4_0", "q8_0") else 4
            raw[..., :width] = scales[..., :width]
    floats = dequantise(raw.reshape(rows, -1), stored).reshape(rows, columns)
    return raw, floats


def random_rows(rows: int, columns: int, *, seed: int) -> Array:
    """Activations with a few outliers, as models have them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (rows, columns)).astype(np.float32)
    x[rng.random(x.shape) < 0.002] *= 30
    return x


def quantise(kernels: Kernels, x: Array, *, fine: bool = False) -> Activations:
    """Rows as the device would hold them."""
    out = Activations(len(x), x.shape[1], fine=fine)
    kernels.run(
        QUANTISE,
        SHARES,
        x=x,
        rows=count(len(x)),
        columns=x.shape[1],
        stride=x.shape[1],
        **out.arguments(),
    )
    return out


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("rows", ROWS)
def test_quantising_keeps_what_its_meaning_keeps(
    kernels: Kernels, rows: int, *, fine: bool
) -> None:
    x = random_rows(rows, 96, seed=rows)
    x[0, :32] = 0.0
    kept = quantise(kernels, x, fine=fine).floats()
    assert np.array_equal(kept, quantised(x, fine=fine))
    assert np.abs(kept - x).max() <= np.abs(x).max() / (250 * (80 if fine else 1))


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("layout", PACKED)
@pytest.mark.parametrize("rows", ROWS)
def test_a_packed_product_is_exact_for_what_its_activations_kept(
    kernels: Kernels, layout: str, rows: int, *, fine: bool
) -> None:
    raw, floats = random_weights(layout, 48, 512, seed=1)
    x = quantise(kernels, random_rows(rows, 512, seed=2), fine=fine)
    out = np.full((rows, 64), np.nan, np.float32)
    kernels.run(
        LINEAR[layout],
        3,
        weights=packed(layout, raw),
        rows=count(rows),
        out=out,
        groups=16,
        stride=64,
        accumulate=0,
        **x.arguments(),
    )
    assert TOLERANCE["quantised"].error(out[:, :48], linear(x.floats(), floats)) < 3e-6
    assert np.isnan(out[:, 48:]).all()


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("layout", PACKED)
@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0xFF])
def test_products_are_exact_at_the_ends_of_their_digits(
    kernels: Kernels, layout: str, byte: int, *, fine: bool
) -> None:
    raw, _ = random_weights(layout, 16, 256, seed=17)
    if layout == "q6_k":  # after the numbers come scales
        raw[..., :192] = byte
    else:
        raw[..., {"q4_0": 2, "q8_0": 2, "q4_1": 4, "q4_k": 16}[layout] :] = byte
    floats = dequantise(raw.reshape(16, -1), STORED[layout]).reshape(16, 256)
    x = np.ones((5, 256), np.float32) * np.array([[1], [-1], [3], [1], [-7]], np.float32)
    x[3, 1::2] = -1
    kept = quantise(kernels, x, fine=fine).floats()
    found = product(kernels, layout, packed(layout, raw), x, fine=fine)
    assert TOLERANCE["quantised"].error(found, linear(kept, floats)) < 1e-5


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("layout", PACKED)
def test_a_row_does_not_depend_on_its_neighbours(
    kernels: Kernels, layout: str, *, fine: bool
) -> None:
    raw, _ = random_weights(layout, 16, 512, seed=3)
    weights, rows = packed(layout, raw), random_rows(33, 512, seed=4)
    together = product(kernels, layout, weights, rows, fine=fine)
    for first in range(33):
        for length in (1, 2, 5, 16):
            some = product(kernels, layout, weights, rows[first : first + length], fine=fine)
            assert np.array_equal(some, together[first : first + length])


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("layout", PACKED)
@pytest.mark.parametrize("blocks", range(1, 12))
def test_one_row_is_the_same_however_many_blocks_are_read_at_once(
    kernels: Kernels, layout: str, blocks: int, *, fine: bool
) -> None:
    raw, _ = random_weights(layout, 16 * blocks, 512, seed=18)
    weights, rows = packed(layout, raw), random_rows(3, 512, seed=19)
    together = product(kernels, layout, weights, rows, fine=fine, blocks=blocks)
    alone = product(kernels, layout, weights, rows[:1], fine=fine, blocks=blocks)
    assert np.array_equal(alone, together[:1])


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("layout", PACKED)
@pytest.mark.parametrize("units", [1, 2, 3, 4, 7])
def test_one_gated_row_is_the_same_however_many_blocks_are_read_at_once(
    kernels: Kernels, layout: str, units: int, *, fine: bool
) -> None:
    raw, _ = random_weights(layout, 64 * units, 256, seed=20)
    weights, rows = packed(layout, raw, gated=True, parts=2), random_rows(3, 256, seed=21)
    together = gated_product(kernels, layout, weights, rows, fine=fine, units=units)
    alone = gated_product(kernels, layout, weights, rows[:1], fine=fine, units=units)
    assert np.array_equal(alone.floats(), together.floats()[:1])


def gated_product(
    kernels: Kernels, layout: str, weights: Array, rows: Array, *, fine: bool, units: int
) -> Activations:
    x = quantise(kernels, np.ascontiguousarray(rows), fine=fine)
    out = Activations(len(rows), 32 * units, fine=fine)
    kernels.run(
        GATED_LINEAR[layout],
        units,
        weights=weights,
        rows=count(len(rows)),
        groups=rows.shape[1] // 32,
        out_groups=units,
        **x.arguments(),
        **out.arguments("out_"),
    )
    return out


def product(
    kernels: Kernels,
    layout: str,
    weights: Array,
    rows: Array,
    *,
    fine: bool = False,
    blocks: int = 1,
) -> Array:
    x = quantise(kernels, np.ascontiguousarray(rows), fine=fine)
    out = np.zeros((len(rows), 16 * blocks), np.float32)
    kernels.run(
        LINEAR[layout],
        blocks,
        weights=weights,
        rows=count(len(rows)),
        out=out,
        groups=rows.shape[1] // 32,
        stride=16 * blocks,
        accumulate=0,
        **x.arguments(),
    )
    return out


@pytest.mark.parametrize("layout", PACKED)
@pytest.mark.parametrize("rows", [1, 4, 18])
def test_accumulating_adds_to_what_is_there(kernels: Kernels, layout: str, rows: int) -> None:
    raw, _ = random_weights(layout, 16, 256, seed=5)
    weights, x = packed(layout, raw), random_rows(rows, 256, seed=6)
    before = random_rows(rows, 16, seed=7)
    out = before.copy()
    activations = quantise(kernels, x)
    kernels.run(
        LINEAR[layout],
        1,
        weights=weights,
        rows=count(rows),
        out=out,
        groups=8,
        stride=16,
        accumulate=1,
        **activations.arguments(),
    )
    assert np.array_equal(out, before + product(kernels, layout, weights, x))


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("layout", PACKED)
@pytest.mark.parametrize("rows", [1, 3, 17])
def test_a_gated_product_is_the_gate_of_two_products(
    kernels: Kernels, layout: str, rows: int, *, fine: bool
) -> None:
    raw, floats = random_weights(layout, 128, 256, seed=8)
    x = quantise(kernels, random_rows(rows, 256, seed=9), fine=fine)
    out = Activations(rows, 64, fine=fine)
    kernels.run(
        GATED_LINEAR[layout],
        2,
        weights=packed(layout, raw, gated=True, parts=2),
        rows=count(rows),
        groups=8,
        out_groups=2,
        **x.arguments(),
        **out.arguments("out_"),
    )
    gate, up = (linear(x.floats(), half) for half in np.split(floats, 2))
    expected = silu_gate(gate, up)
    # One step of the result is a 254th of its group's span, or a 256th of that.
    step = np.abs(expected).reshape(rows, -1, 32).max(-1, keepdims=True) / 254
    error = np.abs(out.floats() - expected).reshape(rows, -1, 32)
    assert (error <= step * (0.02 if fine else 1.01) + 1e-6).all()


@pytest.mark.parametrize("layout", NUMBERS)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_products_with_numbers_are_exact(kernels: Kernels, layout: str, rows: int) -> None:
    raw, floats = random_weights(layout, 32, 64, seed=10)
    x = random_rows(rows, 64, seed=11)
    out = np.zeros((rows, 32), np.float32)
    kernels.run(
        NUMBER_LINEAR[layout],
        2,
        weights=packed(layout, raw),
        x=x,
        rows=count(rows),
        out=out,
        columns=64,
        x_stride=64,
        stride=32,
        accumulate=0,
    )
    assert TOLERANCE["numbers"].holds(out, linear(x, floats))


@pytest.mark.parametrize("rows", [1, 5, 70])
def test_the_gate_alone_is_its_meaning(kernels: Kernels, rows: int) -> None:
    x = random_rows(rows, 64, seed=12) * 4
    x[0, 0], x[0, 1] = -200.0, 200.0
    out = np.zeros((rows, 32), np.float32)
    kernels.run(
        SILU_GATE, SHARES, x=x, rows=count(rows), out=out, columns=32, stride=64, out_stride=32
    )
    assert TOLERANCE["gate"].holds(out, silu_gate(x[:, :32], x[:, 32:]))


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("columns", [64, 576])
def test_norms_are_their_meaning(kernels: Kernels, rows: int, columns: int) -> None:
    x, weight = random_rows(rows, columns, seed=13), random_rows(1, columns, seed=14)[0]
    out = np.zeros((rows, columns), np.float32)
    arguments = {
        "x": x,
        "picks": None,
        "rows": count(rows),
        "weight": weight,
        "columns": columns,
        "stride": columns,
        "epsilon": 1e-5,
    }
    kernels.run(NORM, SHARES, out=out, out_stride=columns, **arguments)
    expected = rms_norm(x, weight, epsilon=1e-5)
    assert NORM_TOLERANCE.holds(out, expected)
    kept = Activations(rows, columns)
    kernels.run(NORM_QUANTISE, SHARES, **arguments, **kept.arguments())
    assert np.array_equal(kept.floats(), quantised(out))


def test_a_norm_of_picked_rows_reads_only_them(kernels: Kernels) -> None:
    x, weight = random_rows(9, 64, seed=15), np.ones(64, np.float32)
    picks = np.array([7, 0, 3], np.uint32)
    out = np.zeros((3, 64), np.float32)
    kernels.run(
        NORM,
        SHARES,
        x=x,
        picks=picks,
        rows=count(3),
        weight=weight,
        out=out,
        columns=64,
        stride=64,
        out_stride=64,
        epsilon=1e-6,
    )
    assert NORM_TOLERANCE.holds(out, rms_norm(x[picks], weight, epsilon=1e-6))


@pytest.mark.parametrize("layout", [*PACKED, *NUMBERS])
def test_embedded_rows_are_the_stored_numbers(kernels: Kernels, layout: str) -> None:
    raw, floats = random_weights(layout, 40, 512, seed=16)
    tokens = np.array([0, 39, 17, 16, 15, 3], np.int32)
    out = np.zeros((6, 512), np.float32)
    kernels.run(
        EMBED[layout],
        SHARES,
        weights=packed(layout, raw),
        tokens=tokens,
        rows=count(6),
        out=out,
        columns=512,
        stride=512,
        block_nbytes=block_nbytes(layout, 512),
    )
    assert np.array_equal(out, embed(tokens, floats))
