"""The reference target: every recorded step is a launch whose kernel is its meaning in numpy.

A launch's block describes each operand: where it lies, its element type, its extents and the
bytes between its rows.  Packing and performing are both here, so they cannot disagree.  The
server's reference device hands blocks back through the entry point `helios.meanings`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from ignition.record.meaning import DTYPES, PERFORM, Array, Performance, Whole
from ignition.record.tape import Extent, Operand, Step
from prepared.contract import ELEMENT_BYTES, ElementType
from prepared.manifest import Kernel, Parameter

MOST_EXTENTS: Final = 6
OPERAND: Final = struct.Struct(
    f"<QQII{MOST_EXTENTS}I"
)  # address, row stride, element, extents, their sizes
NUMBER: Final = struct.Struct("<d")
COUNTED: Final = 0x8000_0000
"""Marks an extent that is counted at run time; the low bits say by what."""

COUNTS: Final = "counts"
LIVE_ROWS: Final = "live_rows"

Addressed = Mapping[int, tuple[memoryview, int]]
"""Memory and offset of each address, by its place in the block."""


def kernel_of(step: Step) -> Kernel:
    """The step's kernel: its operation, and the names of what it takes."""
    names = [
        LIVE_ROWS,
        COUNTS,
        *(f"read.{name}" for name in step.reads),
        *(f"write.{name}" for name in step.writes),
    ]
    parameters = [
        Parameter(name=name, offset=index * OPERAND.size, nbytes=OPERAND.size)
        for index, name in enumerate(names)
    ]
    end = len(names) * OPERAND.size
    for index, name in enumerate(step.attributes):
        parameters.append(
            Parameter(
                name=f"attribute.{name}", offset=end + index * NUMBER.size, nbytes=NUMBER.size
            )
        )
    return Kernel(
        symbol=f"{step.operation}({', '.join(p.name for p in parameters[2:])})",
        parameters=tuple(parameters),
        parameter_bytes=end + len(step.attributes) * NUMBER.size,
    )


def pack_step(
    operands: Sequence[Operand], strides: Sequence[int], attributes: Mapping[str, float]
) -> bytes:
    """A launch's block; addresses are zero, and a stride of zero means packed rows."""
    block = bytearray()
    for operand, stride in zip(operands, strides, strict=True):
        sizes = [
            COUNTED | int(size) if isinstance(size, Extent) else size for size in operand.shape
        ]
        row = ELEMENT_BYTES[operand.element] * prod(sizes[1:])
        padding = [0] * (MOST_EXTENTS - len(sizes))
        block += OPERAND.pack(0, stride or row, int(operand.element), len(sizes), *sizes, *padding)
    for value in attributes.values():
        block += NUMBER.pack(value)
    return bytes(block)


def perform_launch(kernel: Kernel, block: bytes, addressed: Addressed) -> None:
    """Perform one launch."""
    operands = {
        parameter.name: operand_of(block, parameter.offset, addressed)
        for parameter in kernel.parameters
        if not parameter.name.startswith("attribute.")
    }
    attributes = {
        parameter.name.removeprefix("attribute."): NUMBER.unpack_from(block, parameter.offset)[0]
        for parameter in kernel.parameters
        if parameter.name.startswith("attribute.")
    }
    counts = operands[COUNTS].array
    live = {
        Extent.LANES: int(operands[LIVE_ROWS].array[0]),
        Extent.TOKENS: int(counts[0]),
        Extent.SAMPLES: int(counts[1]),
    }
    performance = Performance(
        reads=named(operands, "read."),
        writes=named(operands, "write."),
        attributes=attributes,
        live=live,
    )
    PERFORM[kernel.symbol.partition("(")[0]](performance)
    counts[0], counts[1] = live[Extent.TOKENS], live[Extent.SAMPLES]


def named(operands: Mapping[str, Whole], prefix: str) -> dict[str, Whole]:
    """Operands under a prefix, without it."""
    return {
        name.removeprefix(prefix): operand
        for name, operand in operands.items()
        if name.startswith(prefix)
    }


def operand_of(block: bytes, offset: int, addressed: Addressed) -> Whole:
    """The array that an operand describes, at its full capacity."""
    _, row_stride, element, dimensions, *sizes = OPERAND.unpack_from(block, offset)
    memory, start = addressed[offset]
    dtype = np.dtype(DTYPES[ElementType(element)])
    inner = tuple(sizes[1:dimensions])
    leading = sizes[0]
    extent = Extent(leading & ~COUNTED) if leading & COUNTED else None
    # What is counted may fill the rest of its memory, whose last row may be without its stride's
    # rest; what is live is cut out later.
    row_nbytes = dtype.itemsize * prod(inner)
    rows = leading if extent is None else (len(memory) - start - row_nbytes) // row_stride + 1
    array: Array = np.ndarray(
        (rows, *inner),
        dtype,
        buffer=memory,
        offset=start,
        strides=(row_stride, *inner_strides(inner, dtype.itemsize)),
    )
    return Whole(array, extent)


def inner_strides(sizes: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides of packed inner extents."""
    strides, step = [], itemsize
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
