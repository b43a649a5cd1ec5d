"""Weight matrices as the target wants them: which tensors go into one, and in what layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ignition.plan.launches import ALIGNMENT

GROUP_NBYTES: Mapping[str, int] = {"q4_0": 288, "q4_1": 320, "q8_0": 544, "q4_k": 288, "q6_k": 544}
HEADER_NBYTES: Mapping[str, int] = {"q4_k": 64, "q6_k": 32}  # every 8 groups
NUMBER_NBYTES: Mapping[str, int] = {"f16": 2, "bf16": 2, "f32": 4}


def block_nbytes(layout: str, columns: int) -> int:
    """Bytes of one block of 16 rows (`build/cpu/packed.h`)."""
    if layout in NUMBER_NBYTES:
        return columns * 16 * NUMBER_NBYTES[layout]
    groups = columns // 32
    return groups * GROUP_NBYTES[layout] + groups // 8 * HEADER_NBYTES.get(layout, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows of one or more weights, packed as blocks of 16 rows.

    Gated matrices interleave blocks of two equal parts: gate, gate, up, up.
    """

    parts: tuple[str, ...]
    layout: str
    rows: int
    columns: int
    gated: bool

    @property
    def name(self) -> str:
        """What launches call it."""
        return "+".join(self.parts)

    @property
    def blocks(self) -> int:
        """Blocks of 16 rows."""
        return -(-self.rows // 16)

    @property
    def nbytes(self) -> int:
        """Stored size."""
        return self.blocks * block_nbytes(self.layout, self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlan:
    """Every matrix and vector of a core, and its offset in the one weight resource."""

    matrices: tuple[Matrix, ...]
    vectors: Mapping[str, int]  # name -> bytes
    offsets: Mapping[str, int]
    nbytes: int


def plan_weights(matrices: Mapping[str, Matrix], vectors: Mapping[str, int]) -> WeightPlan:
    """Lay matrices and vectors one after another, in order of first use."""
    offsets: dict[str, int] = {}
    end = 0
    for name, nbytes in (
        *((matrix.name, matrix.nbytes) for matrix in matrices.values()),
        *vectors.items(),
    ):
        offsets[name] = end
        end += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return WeightPlan(
        matrices=tuple(matrices.values()), vectors=dict(vectors), offsets=offsets, nbytes=end
    )
