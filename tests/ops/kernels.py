"""Compiled kernels, called directly on numpy arrays."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from helios.device.cpu import Library
from ignition.build.cpu import Level, compiled
from ignition.build.kernels import CPU_KERNELS
from ignition.ops.kernel import Kernel
from ignition.weights.formats import Format
from ignition.weights.pack import pack_matrix

CACHE = Path(__file__).parents[2] / "build" / "kernels"
SHARES = 64
SCRATCH_NBYTES = 8 << 20
CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
"""A kernel: parameters, first unit, end of units, thread (`build/cpu/executor.h`)."""

Array = npt.NDArray[Any]


class Kernels:
    """A library's kernels, on one thread."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.scratch = np.zeros(SCRATCH_NBYTES, np.uint8)

    @classmethod
    def of(cls, level: Level) -> Kernels:
        """One level's."""
        return cls(Library(compiled(level, CPU_KERNELS, cache=CACHE), level.name))

    def run(self, kernel: Kernel, units: int, **arguments: Array | float | None) -> None:
        """Call a kernel over all its units."""
        self.bound(kernel, units, **arguments)()

    def bound(
        self, kernel: Kernel, units: int, **arguments: Array | float | None
    ) -> Callable[[], None]:
        """A call of a kernel over all its units; its arrays must outlive it."""
        assert set(arguments) == set(kernel.fields), set(arguments) ^ set(kernel.fields)
        numbers = {
            name: value
            for name, value in arguments.items()
            if value is not None and not isinstance(value, np.ndarray)
        }
        block = bytearray(kernel.pack(numbers))
        for parameter in kernel.parameters:
            value = arguments[parameter.name]
            if isinstance(value, np.ndarray):
                struct.pack_into("<Q", block, parameter.offset, value.ctypes.data)
        thread = ctypes.create_string_buffer(
            struct.pack("<IxxxxQ", 0, self.scratch.ctypes.data), 16
        )
        function = CALL(self.library.kernel(kernel.symbol))
        parameters = ctypes.create_string_buffer(bytes(block), len(block))
        return partial(function, parameters, 0, units, thread)


class Activations:
    """Quantised activations in memory."""

    def __init__(self, rows: int, columns: int, *, fine: bool = False) -> None:
        tiles, groups = -(-rows // 16), columns // 32
        self.rows, self.columns = rows, columns
        shape = (tiles, groups, 16, 32)
        self.q = None if fine else np.zeros(shape, np.int8)
        self.fine = np.zeros(shape, np.int16) if fine else None
        self.scale = np.zeros((tiles, groups, 16), np.float32)
        self.sum = np.zeros((tiles, groups, 16), np.float32)
        self.bias = np.zeros((tiles, groups, 16), np.int32)

    def arguments(self, prefix: str = "") -> dict[str, Array | None]:
        return {
            f"{prefix}q": self.q,
            f"{prefix}fine": self.fine,
            f"{prefix}scale": self.scale,
            f"{prefix}sum": self.sum,
            f"{prefix}bias": self.bias,
        }

    def coarse(self) -> dict[str, Array | None]:
        assert self.fine is None
        return {name: part for name, part in self.arguments().items() if name != "fine"}

    def floats(self) -> npt.NDArray[np.float32]:
        """What they stand for, [rows, columns]."""
        if self.q is not None:
            digits = self.q.astype(np.float32)
        else:  # of four neighbours, in the order 0, 2, 1, 3
            assert self.fine is not None
            digits = self.fine.reshape(-1, 4)[:, [0, 2, 1, 3]].astype(np.float32)
            digits = digits.reshape(self.fine.shape)
        values = digits * self.scale[..., None]
        rows = values.transpose(0, 2, 1, 3).reshape(-1, self.columns)
        return np.ascontiguousarray(rows[: self.rows])


def count(rows: int) -> Array:
    """A live count where kernels read it."""
    return np.array([rows], np.uint32)


STORED = {
    "q4_0": Format.Q4_0,
    "q4_1": Format.Q4_1,
    "q8_0": Format.Q8_0,
    "q4_k": Format.Q4_K,
    "q6_k": Format.Q6_K,
    "f16": Format.F16,
    "bf16": Format.BF16,
    "f32": Format.F32,
}


def aligned(nbytes: int) -> Array:
    """Memory as devices allocate it."""
    memory = np.zeros(nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + nbytes]


def packed(layout: str, raw: Array, *, gated: bool = False, parts: int = 1) -> Array:
    """A packed matrix of stored rows, aligned as weights are."""
    data = pack_matrix(layout, np.split(raw, parts), gated=gated)
    memory = aligned(len(data))
    memory[:] = data
    return memory
