"""Rotary tables: cosine and sine of every position, with the scalings in use.

A table is made once, in double precision, and stored as float32; kernels only look it up.
Pairs are adjacent columns; a checkpoint whose pairs lie half a head apart has its query and
key rows reordered instead (`paired_rows`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscaled:
    """Positions as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Positions divided by a factor (Chen et al. 2023, arXiv 2306.15595)."""

    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Banded:
    """Llama 3's scaling: long waves divided by the factor, short ones kept, a ramp between."""

    factor: float
    low: float
    high: float
    original_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Yarn:
    """YaRN (Peng et al. 2023, arXiv 2309.00071): a ramp over dimensions, and a gain."""

    factor: float
    original_tokens: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None  # None: 0.1 ln(factor) + 1
    truncate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """Each frequency divided by a stored factor (the `rope_freqs` tensor of a GGUF)."""

    factors: tuple[float, ...]


Scaling = Unscaled | Linear | Banded | Yarn | Divided


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """How the columns of a head turn with position."""

    width: int  # columns of a head
    turned: int  # of which the first so many turn
    theta: float
    scaling: Scaling


def frequencies(rotary: Rotary) -> tuple[Doubles, float]:
    """Radians per position of each turning pair, and the gain of cosines and sines."""
    pairs = np.arange(rotary.turned // 2, dtype=np.float64)
    base = rotary.theta ** (-2.0 * pairs / rotary.turned)
    scaling = rotary.scaling
    match scaling:
        case Unscaled():
            return base, 1.0
        case Linear():
            return base / scaling.factor, 1.0
        case Divided():
            return base / np.asarray(scaling.factors, np.float64), 1.0
        case Banded():
            return banded(base, scaling), 1.0
        case Yarn():
            return yarn(base, scaling, rotary)


def banded(base: Doubles, scaling: Banded) -> Doubles:
    """Llama 3: keep waves shorter than original / high, divide those over original / low."""
    waves = 2.0 * math.pi / base
    ramp = (scaling.original_tokens / waves - scaling.low) / (scaling.high - scaling.low)
    keep = np.clip(ramp, 0.0, 1.0)
    return base * keep + base / scaling.factor * (1.0 - keep)


def yarn(base: Doubles, scaling: Yarn, rotary: Rotary) -> tuple[Doubles, float]:
    """YaRN: dimensions that turn often keep their frequency, those that turn rarely divide it."""

    def dimension(turns: float) -> float:
        return (
            rotary.turned
            * math.log(scaling.original_tokens / (turns * 2.0 * math.pi))
            / (2.0 * math.log(rotary.theta))
        )

    low, high = dimension(scaling.beta_fast), dimension(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary.turned - 1)
    pairs = np.arange(len(base), dtype=np.float64)
    divide = np.clip((pairs - low) / max(high - low, 0.001), 0.0, 1.0)
    gain = scaling.attention_factor
    if gain is None:
        gain = 0.1 * math.log(scaling.factor) + 1.0 if scaling.factor > 1.0 else 1.0
    return base / scaling.factor * divide + base * (1.0 - divide), gain


def turns_of(rotary: Rotary, *, positions: int) -> Floats:
    """[positions, width]: cosine and sine of each pair, adjacent; columns that rest get 1 and 0."""
    rate, gain = frequencies(rotary)
    angles = np.arange(positions, dtype=np.float64)[:, None] * rate[None, :]
    table = np.zeros((positions, rotary.width // 2, 2), np.float32)
    table[:, :, 0] = 1.0
    table[:, : rotary.turned // 2, 0] = np.cos(angles) * gain
    table[:, : rotary.turned // 2, 1] = np.sin(angles) * gain
    return table.reshape(positions, rotary.width)


def paired_rows(heads: int, rotary: Rotary) -> npt.NDArray[np.intp]:
    """Row order that makes neighbours of pairs half a turning width apart, a head at a time."""
    half = rotary.turned // 2
    order = np.arange(rotary.width)
    order[: rotary.turned] = np.arange(rotary.turned).reshape(2, half).T.reshape(-1)
    return (np.arange(heads)[:, None] * rotary.width + order[None, :]).reshape(-1)
