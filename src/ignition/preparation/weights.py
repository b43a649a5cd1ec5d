"""What a recipe says of a model's sizes and weights: where bytes come from, not their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ignition.preparation.rotary import Rotary, paired_rows
from ignition.weights.tensors import TensorSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Extents of a decoder with grouped attention heads."""

    layers: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    width: int
    vocabulary: int
    context_tokens: int
    tied: bool  # the head is the embedding

    def with_context(self, tokens: int) -> ModelSizes:
        """The same model with another context."""
        return replace(self, context_tokens=tokens)


@dataclass(frozen=True, slots=True)
class WeightSource:
    """A checkpoint's tensor; `paired_heads` reorders its rows so that rotary pairs meet."""

    tensor: TensorSource
    paired_heads: int | None = None

    @property
    def is_matrix(self) -> bool:
        """Whether products read it."""
        return len(self.tensor.shape) > 1

    def rows(self, rotary: Rotary) -> npt.NDArray[np.uint8]:
        """Stored bytes by row, in our row order."""
        raw = self.tensor.raw()
        if self.paired_heads is None:
            return raw
        return raw[paired_rows(self.paired_heads, rotary)]

    def floats(self, rotary: Rotary) -> npt.NDArray[np.float32]:
        """Values as float32, in our row order."""
        values = self.tensor.floats()
        if self.paired_heads is None:
            return values
        return values[paired_rows(self.paired_heads, rotary)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeights:
    """All weights by our names, and the rotary form that the table of turns is made from."""

    matrices: Mapping[str, WeightSource]
    vectors: Mapping[str, WeightSource]
    rotary: Rotary
