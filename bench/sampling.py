#!/usr/bin/env python3
"""What sampling costs: one launch over 16 rows of a large vocabulary, on one thread.

    .venv/bin/python -m bench.sampling [--beside KERNELS.so] [--rounds 20] [--tokens 150000]

With another shared object (`ignition.build.cpu.compiled` of another state of the sources) both are
taken in turn.  Processor time of the thread: the least of all rounds and their median.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from helios.device.cpu import Library, processor_features
from ignition.build.cpu import LEVELS
from ignition.ops.sample import MOST_BIAS, SAMPLE
from ignition.ops.score import MOST_TOP
from ignition.preparation.storage import SLOT_NBYTES
from ignition.record.meaning import SLOT_DTYPE
from tests.ops.kernels import SHARES, Kernels, aligned

Array = npt.NDArray[Any]
PLAIN = {"temperature": 1.0, "top_p": 1.0, "repetition": 1.0, "logprobs": -1}
SETTINGS: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0.0},
    "temperature 1": {},
    "temperature 0.2": {"temperature": 0.2},
    "temperature 2": {"temperature": 2.0},
    "min-p 0.05": {"min_p": 0.05},
    "top-k 1": {"top_k": 1},
    "top-k 40": {"top_k": 40},
    "top-k 1,000": {"top_k": 1000},
    "top-k 20,000": {"top_k": 20000},
    "top-p 0.1": {"top_p": 0.1},
    "top-p 0.5": {"top_p": 0.5},
    "top-p 0.9": {"top_p": 0.9},
    "top-p 0.95": {"top_p": 0.95},
    "top-p 0.999": {"top_p": 0.999},
    "temperature 0.2, top-p 0.9": {"temperature": 0.2, "top_p": 0.9},
    "temperature 1.5, top-p 0.9": {"temperature": 1.5, "top_p": 0.9},
    "top-k 40, top-p 0.9": {"top_k": 40, "top_p": 0.9},
    "temperature 0.7, top-k 20, top-p 0.8": {"temperature": 0.7, "top_k": 20, "top_p": 0.8},
    "repetition 1.1": {"repetition": 1.1},
    "all of them": {
        "temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.05,
        "repetition": 1.1, "presence": 0.2, "frequency": 0.1,
    },
    "greedy, 20 log-probabilities": {"temperature": 0.0, "logprobs": 20},
    "top-p 0.9, 20 log-probabilities": {"top_p": 0.9, "logprobs": 20},
}  # fmt: skip


def flat(rng: np.random.Generator, tokens: int) -> Array:
    """Normal logits: no token stands out."""
    return rng.normal(0, 2, tokens)


def peaked(rng: np.random.Generator, tokens: int) -> Array:
    """A few hundred likely tokens, and a bulk 15 below."""
    out = rng.normal(-15, 2, tokens)
    out[rng.choice(tokens, 300, replace=False)] += 15
    return out


def frequent(rng: np.random.Generator, tokens: int) -> Array:
    """As vocabularies are ordered: low ids are likelier, whatever is said."""
    return np.asarray(rng.normal(0, 2.5, tokens) - np.log(np.arange(tokens) + 50.0))


SHAPES = {"flat": flat, "peaked": peaked, "frequent": frequent}


@dataclass
class Rows:
    """Sampled rows and everything a launch reads."""

    logits: Array
    kept: Array
    sampled: Array
    arguments: dict[str, Array | float]


def rows_of(
    shape: Callable[..., Array], setting: dict[str, float], *, rows: int, tokens: int
) -> Rows:
    """Rows of a shape under one setting, with 400 tokens seen."""
    rng = np.random.default_rng(5)
    width = -(-tokens // 32) * 32
    kept = aligned(rows * width * 4).view(np.float32).reshape(rows, width)
    for row in kept:
        row[:tokens] = shape(rng, tokens)
    slots = np.zeros((rows, SLOT_NBYTES), np.uint8)
    records = slots.view(SLOT_DTYPE).reshape(-1)
    records["eos"] = -1
    records["seed"] = rng.integers(0, 2**63, rows)
    for name, value in (PLAIN | setting).items():
        records[name] = value
    histograms = np.zeros((rows, width), np.uint16)
    for seen in histograms:
        seen[rng.choice(tokens, 400, replace=False)] = 1
    every = np.arange(rows, dtype=np.uint32)
    logits, sampled = np.array(kept), np.zeros(rows, np.int32)
    arguments: dict[str, Array | float] = {
        "logits": logits, "samples": np.array([rows], np.uint32), "sample_rows": every,
        "sample_lanes": every, "positions": every.astype(np.int32), "slots": every,
        "states": slots, "histograms": histograms,
        "bias_ids": np.full((rows, MOST_BIAS), -1, np.int32),
        "bias_values": np.zeros((rows, MOST_BIAS), np.float32),
        "masks": np.full((rows, width // 32), 0xFFFFFFFF, np.uint32), "sampled": sampled,
        "logprobs": np.zeros(rows, np.float32), "top_ids": np.zeros((rows, MOST_TOP), np.int32),
        "top_logprobs": np.zeros((rows, MOST_TOP), np.float32), "tokens": tokens,
        "stride": width, "slot_stride": SLOT_NBYTES, "histogram_width": width,
        "mask_words": width // 32, "by_row": 0,
    }  # fmt: skip
    return Rows(logits, kept, sampled, arguments)


def milliseconds(kernels: Kernels, rows: Rows) -> float:
    """Processor time of one launch."""
    call = kernels.bound(SAMPLE, SHARES, **rows.arguments)
    rows.logits[:] = rows.kept
    start = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - start) / 1e6


def measured_kernels(beside: Path | None) -> list[Kernels]:
    """Those of another library, if any, and ours at the best level that this machine has."""
    others = [Kernels(Library(beside.read_bytes(), "beside"))] if beside else []
    features = processor_features()
    best = next(level for level in LEVELS if features.issuperset(level.features))
    return [*others, Kernels.of(best)]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=150_000)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    kernels = measured_kernels(asked.beside)
    print("| |" + "".join(f" {shape} |" * len(kernels) for shape in SHAPES))
    print("|---|" + "---|" * len(kernels) * len(SHAPES))
    for name, setting in SETTINGS.items():
        if asked.only not in name:
            continue
        cells = []
        for shape in SHAPES.values():
            rows = rows_of(shape, setting, rows=16, tokens=asked.tokens)
            times = [[milliseconds(k, rows) for k in kernels] for _ in range(asked.rounds)]
            cells += [f"{min(t):.2f}, {median(t):.2f}" for t in zip(*times, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
