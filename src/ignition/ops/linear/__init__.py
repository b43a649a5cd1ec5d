"""Matrix product with a weight matrix, and the gate that joins two of them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import ACTIVATION, Field, Kernel
from ignition.ops.tolerance import Within

Floats = npt.NDArray[np.float32]


def linear(x: Floats, weight: Floats) -> Floats:
    """`x` [rows, columns] times the transpose of `weight` [outputs, columns]."""
    return (x @ weight.T).astype(np.float32)


def silu_gate(gate: Floats, up: Floats) -> Floats:
    """SiLU of `gate`, times `up` (Shazeer 2020, arXiv 2002.05202)."""
    with np.errstate(over="ignore"):
        return (gate / (np.float32(1.0) + np.exp(-gate)) * up).astype(np.float32)


TOLERANCE: Final = {
    "quantised": Within(relative=3e-6),  # against `linear` of what the activations kept
    "numbers": Within(relative=3e-6),
    "gate": Within(relative=2e-6),
}

LINEAR_FIELDS: Final = {
    "weights": Field.BYTES,
    **ACTIVATION,
    "rows": Field.WORDS,
    "out": Field.FLOATS,
    "groups": Field.U32,
    "stride": Field.U32,
    "accumulate": Field.U32,
}
GATED_FIELDS: Final = {
    "weights": Field.BYTES,
    **ACTIVATION,
    "rows": Field.WORDS,
    **{f"out_{name}": field for name, field in ACTIVATION.items()},
    "groups": Field.U32,
    "out_groups": Field.U32,
}
NUMBER_FIELDS: Final = {
    "weights": Field.BYTES,
    "x": Field.FLOATS,
    "rows": Field.WORDS,
    "out": Field.FLOATS,
    "columns": Field.U32,
    "x_stride": Field.U32,
    "stride": Field.U32,
    "accumulate": Field.U32,
}

PACKED: Final = ("q4_0", "q4_1", "q8_0", "q4_k", "q6_k")
NUMBERS: Final = ("f16", "bf16", "f32")

LINEAR: Final = {name: Kernel(f"linear_{name}", LINEAR_FIELDS, "linear") for name in PACKED}
GATED_LINEAR: Final = {
    name: Kernel(f"gated_linear_{name}", GATED_FIELDS, "gated_linear") for name in PACKED
}
NUMBER_LINEAR: Final = {
    name: Kernel(f"linear_{name}", NUMBER_FIELDS, "number_linear") for name in NUMBERS
}

SILU_GATE: Final = Kernel(
    "silu_gate",
    {
        "x": Field.FLOATS,  # [rows, stride]: gate, then up
        "rows": Field.WORDS,
        "out": Field.FLOATS,
        "columns": Field.U32,
        "stride": Field.U32,
        "out_stride": Field.U32,
    },
)
