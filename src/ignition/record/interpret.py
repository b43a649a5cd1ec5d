"""The interpreter: runs a recording step by step over numpy arrays, as its meaning says.

Slow and exact.  It proves that a recording is right before any kernel exists.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ignition.record.meaning import DTYPES, PERFORM, Array, Performance, Whole
from ignition.record.tape import Extent, Home, Operand, Recording


def interpret(
    recording: Recording, memory: Mapping[str, Array], *, lanes: int, rows: int
) -> dict[str, Array]:
    """Perform every step; returns scratch by name, cut to nothing.

    `memory` holds weights and persistent operands by name and is changed in place; `lanes` is
    the live count of requests, `rows` the most token rows that the submission can have.
    """
    scratch: dict[str, Array] = {}
    live = {Extent.LANES: lanes}
    capacity = {Extent.TOKENS: rows, Extent.LANES: lanes, Extent.SAMPLES: lanes}

    def whole(operand: Operand) -> Whole:
        leading = operand.shape[0] if operand.shape else None
        extent = leading if isinstance(leading, Extent) else None
        if operand.home is not Home.SCRATCH:
            return Whole(memory[operand.name], extent)
        if operand.name not in scratch:
            shape = tuple(
                capacity[size] if isinstance(size, Extent) else size for size in operand.shape
            )
            scratch[operand.name] = np.zeros(shape, DTYPES[operand.element])
        return Whole(scratch[operand.name], extent)

    for step in recording.steps:
        PERFORM[step.operation](
            Performance(
                reads={name: whole(operand) for name, operand in step.reads.items()},
                writes={name: whole(operand) for name, operand in step.writes.items()},
                attributes=step.attributes,
                live=live,
            )
        )
    return scratch
