"""A checkpoint's tensors: where each one's bytes lie, and which ones a recipe has taken.

Bytes are mapped from the file when asked for and never copied as a whole.  What a tensor
is for is the recipe's business; a tensor that nobody took is how a recipe notices a model
that it does not understand.

Always: a name is either taken or untaken, and taking it never changes what is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ignition.weights.errors import CheckpointError
from ignition.weights.formats import Bytes, Floats, Format, dequantise, row_nbytes

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSource:
    """One stored tensor; `shape` is (rows, columns...) in row-major order."""

    name: str
    shape: Shape
    format: Format
    path: Path
    offset: int  # of its first byte in the file

    def raw_shape(self) -> Shape:
        """The stored bytes' shape: the last axis counts bytes instead of columns."""
        columns = self.shape[-1] if self.shape else 1
        return (*self.shape[:-1], row_nbytes(self.format, columns=columns))

    def raw(self) -> Bytes:
        """The stored bytes, mapped from the file: rows of bytes, shaped `raw_shape()`."""
        shape = self.raw_shape()
        if math.prod(shape) == 0:
            return np.empty(shape, np.uint8)
        try:
            mapped = np.memmap(self.path, np.uint8, mode="r", offset=self.offset, shape=shape)
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.path.name}: {self.name}",
                f"a file whose bytes cannot be mapped ({error})",
                expected=f"{math.prod(shape)} bytes at offset {self.offset}",
                remedy="the file changed since it was opened: fetch it again",
            ) from None
        return mapped.view(np.ndarray)

    def floats(self) -> Floats:
        """The values as float32, shaped `shape`."""
        return dequantise(self.raw(), self.format).reshape(self.shape)


class Tensors:
    """The tensors of a checkpoint by name; remembers which were taken."""

    def __init__(self, sources: Iterable[TensorSource], *, origin: str) -> None:
        self._sources = {source.name: source for source in sources}
        self._origin = origin
        self._taken: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, name: str) -> TensorSource:
        """Look at a tensor without taking it."""
        try:
            return self._sources[name]
        except KeyError:
            raise CheckpointError(
                f"{self._origin}: {name}",
                "no such tensor",
                expected="a tensor of this name",
                remedy="the checkpoint is incomplete or of another architecture",
            ) from None

    def take(self, name: str, *, shape: Shape) -> TensorSource:
        """The tensor of this name and shape, from now on accounted for."""
        source = self[name]
        if source.shape != shape:
            raise CheckpointError(
                f"{self._origin}: {name}",
                f"shape {source.shape}",
                expected=f"shape {shape}",
                remedy="the checkpoint's settings and tensors disagree: use another checkpoint",
            )
        self._taken.add(name)
        return source

    def untaken(self) -> tuple[str, ...]:
        """The names that nobody took, sorted."""
        return tuple(sorted(self._sources.keys() - self._taken))
