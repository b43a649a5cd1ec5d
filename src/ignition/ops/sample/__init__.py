"""The next token of a row: a function of logits, parameters, seed and position alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import Field, Kernel

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]

UNDEFINED: Final = -1
"""A logit is not a number."""

NOTHING_ALLOWED: Final = -2
"""Every token is out."""

MOST_BIAS: Final = 512  # build/cpu/slot.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What a request asked for; `forbidden` ids are out (an end before the minimum output)."""

    seed: int
    temperature: float
    top_p: float
    min_p: float
    top_k: int  # 0: off
    repetition: float
    presence: float
    frequency: float
    forbidden: tuple[int, ...]
    bias: tuple[tuple[int, float], ...] = ()
    mask: Words | None = None  # bit `id % 32` of word `id // 32` is set: allowed


def philox(ids: Words, *, position: int, seed: int) -> Words:
    """First word of Philox 4x32-10 (Salmon et al. 2011) of the counters (id, position, 0, 0)."""
    wide = np.uint64
    a = ids.astype(wide)
    b = np.full_like(a, position)
    c, d = np.zeros_like(a), np.zeros_like(a)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    low = wide(0xFFFFFFFF)
    for _ in range(10):
        m0, m1 = a * wide(0xD2511F53), c * wide(0xCD9E8D57)
        a, b, c, d = (
            (m1 >> wide(32)) ^ b ^ wide(k0),
            m1 & low,
            (m0 >> wide(32)) ^ d ^ wide(k1),
            m0 & low,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return a.astype(np.uint32)


def exponentials(words: Words) -> npt.NDArray[np.float64]:
    """Exponential variates of uniform words."""
    return -np.log1p(-(words.astype(np.float64) + 0.5) / 2.0**32)


def penalised(logits: Floats, histogram: npt.NDArray[np.uint16], sampling: Sampling) -> Floats:
    """Repetition (Keskar et al. 2019), then presence and frequency, of tokens seen so far."""
    out = logits.astype(np.float32).copy()
    seen = histogram > 0
    scaled = np.where(
        out > 0, out / np.float32(sampling.repetition), out * np.float32(sampling.repetition)
    )
    cost = np.float32(sampling.presence) + np.float32(sampling.frequency) * histogram
    out[seen] = (scaled - cost)[seen]
    return out


def allowed_tokens(mask: Words, tokens: int) -> npt.NDArray[np.bool_]:
    """Which ids a mask allows."""
    return np.unpackbits(mask.view(np.uint8), bitorder="little")[:tokens].astype(np.bool_)


def adjusted(logits: Floats, histogram: npt.NDArray[np.uint16], sampling: Sampling) -> Floats:
    """What is sampled from, and what log-probabilities are of: penalties, bias, what is out."""
    out = penalised(logits, histogram, sampling)
    for token, value in sampling.bias:
        out[token] += np.float32(value)
    out[list(sampling.forbidden)] = -np.inf
    if sampling.mask is not None:
        out[~allowed_tokens(sampling.mask, len(out))] = -np.inf
    return out


def kept_tokens(logits: Floats, sampling: Sampling) -> tuple[Words, npt.NDArray[np.float64]]:
    """Ids that may be drawn, heaviest first (lower id among equals), and their weights."""
    weights = np.exp((logits.astype(np.float64) - logits.max()) / sampling.temperature)
    order = np.lexsort((np.arange(len(logits)), -weights))
    if sampling.top_k:
        order = order[: sampling.top_k]
    if sampling.top_p < 1.0:
        reached = np.cumsum(weights[order])
        order = order[: int(np.searchsorted(reached, sampling.top_p * reached[-1])) + 1]
    if sampling.min_p > 0.0:
        order = order[weights[order] >= sampling.min_p]
    return order.astype(np.uint32), weights[order]


def sample(
    logits: Floats, histogram: npt.NDArray[np.uint16], *, position: int, sampling: Sampling
) -> int:
    """The token after `position - 1`, or why there is none."""
    if np.isnan(logits).any():
        return UNDEFINED
    left = adjusted(logits, histogram, sampling)
    if left.max() == -np.inf:
        return NOTHING_ALLOWED
    if sampling.temperature == 0.0 or left.max() == np.inf:
        return int(np.argmax(left))
    ids, weights = kept_tokens(left, sampling)
    variates = exponentials(philox(ids, position=position, seed=sampling.seed))
    with np.errstate(divide="ignore"):
        race = variates / weights
    return int(ids[np.lexsort((ids, race))[0]])


SAMPLE: Final = Kernel(
    "sample",
    {
        "logits": Field.FLOATS,  # [samples, stride], or a row a token; overwritten
        "samples": Field.WORDS,
        "sample_rows": Field.WORDS,
        "sample_lanes": Field.WORDS,
        "positions": Field.INTS,
        "slots": Field.WORDS,
        "states": Field.BYTES,
        "histograms": Field.HALVES,
        "bias_ids": Field.INTS,  # [slots, MOST_BIAS]; the first negative id ends a row
        "bias_values": Field.FLOATS,
        "masks": Field.WORDS,  # [slots, mask_words]
        "sampled": Field.INTS,  # [lanes]; UNDEFINED or NOTHING_ALLOWED
        "logprobs": Field.FLOATS,  # [lanes], where asked for
        "top_ids": Field.INTS,  # [lanes, MOST_TOP]
        "top_logprobs": Field.FLOATS,  # [lanes, MOST_TOP]
        "tokens": Field.U32,
        "stride": Field.U32,
        "slot_stride": Field.U32,
        "histogram_width": Field.U32,
        "mask_words": Field.U32,
        "by_row": Field.U32,  # whether logits have a row for every token row
    },
)
