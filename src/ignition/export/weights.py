"""The weight resource: matrices packed, vectors as they are, in the planned order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ignition.plan.launches import ALIGNMENT
from ignition.plan.matrices import Matrix, WeightPlan
from ignition.preparation.rotary import turns_of
from ignition.preparation.weights import ModelWeights, WeightSource
from ignition.weights.formats import Format, block_nbytes
from ignition.weights.pack import Bytes, pack_matrix
from prepared.body import WeightCatalog, WeightView

TURNS: Final = "turns"
"""The one vector that no checkpoint stores: the rotary table."""

CATALOG_VERSION: Final = 1


def weight_pieces(
    plan: WeightPlan, weights: ModelWeights, *, positions: int
) -> Iterator[memoryview]:
    """The resource's bytes, one matrix or vector at a time, each padded to its alignment."""
    for matrix in plan.matrices:
        yield from aligned(matrix_bytes(matrix, weights), matrix.nbytes)
    for name, nbytes in plan.vectors.items():
        if name == TURNS:
            values = turns_of(weights.rotary, positions=positions)
        else:
            values = source_of(weights, name).floats(weights.rotary)
        yield from aligned(np.ascontiguousarray(values).reshape(-1).view(np.uint8), nbytes)


def source_of(weights: ModelWeights, name: str) -> WeightSource:
    """A weight kept as floats, matrix or vector."""
    return weights.vectors.get(name) or weights.matrices[name]


def aligned(data: Bytes, nbytes: int) -> Iterator[memoryview]:
    """The bytes, then zeros up to the alignment."""
    assert data.nbytes == nbytes, f"{data.nbytes} bytes where {nbytes} were planned"
    yield np.ascontiguousarray(data).data.cast("B")
    yield memoryview(bytes(-nbytes % ALIGNMENT))


def matrix_bytes(matrix: Matrix, weights: ModelWeights) -> Bytes:
    """A packed matrix."""
    parts = []
    for name in matrix.parts:
        source = weights.matrices[name]
        stored = source.rows(weights.rotary)
        parts.append(stored.reshape(len(stored), -1, block_nbytes(source.tensor.format)))
    return pack_matrix(matrix.layout, parts, gated=matrix.gated)


def catalog_of(plan: WeightPlan, weights: ModelWeights) -> WeightCatalog:
    """What became of each tensor."""
    views = []
    for matrix in plan.matrices:
        for name in matrix.parts:
            source = weights.matrices[name].tensor
            views.append(
                WeightView(
                    tensor=source.name,
                    resource="weights",
                    offset=plan.offsets[matrix.name],
                    nbytes=matrix.nbytes,
                    source_format=source.format.name,
                    layout=described_layout(matrix, source.format),
                )
            )
    for name, nbytes in plan.vectors.items():
        if name == TURNS:
            continue
        tensor = source_of(weights, name).tensor
        views.append(
            WeightView(
                tensor=tensor.name,
                resource="weights",
                offset=plan.offsets[name],
                nbytes=nbytes,
                source_format=tensor.format.name,
                layout=described_vector(tensor.format),
            )
        )
    return WeightCatalog(catalog_version=CATALOG_VERSION, rank=0, views=tuple(views))


def described_vector(source: Format) -> str:
    """How a vector is kept: kernels read them as float32, whatever they were."""
    return "float32 as it is" if source is Format.F32 else f"float32, widened from {source.name}"


WIDENED: Final = {Format.Q6_K: "6-bit values kept in bytes", Format.Q4_K: "6-bit scales in bytes"}


def described_layout(matrix: Matrix, source: Format) -> str:
    """How a tensor is kept, and what grew."""
    shared = f", joined with {len(matrix.parts) - 1} more" if len(matrix.parts) > 1 else ""
    gated = ", gate and up interleaved" if matrix.gated else ""
    wider = f", {WIDENED[source]}" if source in WIDENED else ""
    return f"{matrix.layout} in blocks of 16 rows{shared}{gated}{wider}"
