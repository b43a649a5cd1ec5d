"""Which token rows a submission has: ids, positions, lanes, and which rows sample."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ignition.ops.kernel import Field, Kernel

Ints = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]


def lay_pending_rows(
    slots: Words, pending: Ints, consumed: Words
) -> dict[str, npt.NDArray[np.generic]]:
    """One row a lane: the slot's pending token at the endpoint it has consumed.

    `slots` [lanes]; `pending`, `consumed` [slots].
    """
    lanes = np.arange(len(slots), dtype=np.uint32)
    return {
        "tokens": pending[slots],
        "positions": consumed[slots].astype(np.int32),
        "lanes": lanes,
        "sample_rows": lanes,
        "sample_lanes": lanes,
    }


def lay_prompt_rows(
    query_lengths: Words, sampling: Words, prompt_tokens: Ints, prompt_positions: Ints
) -> dict[str, npt.NDArray[np.generic]]:
    """`query_lengths[lane]` packed prompt rows a lane; the last of a sampling lane samples.

    `query_lengths`, `sampling` [lanes]; `prompt_tokens`, `prompt_positions` [rows].
    """
    rows = int(query_lengths.sum())
    lanes = np.repeat(np.arange(len(query_lengths), dtype=np.uint32), query_lengths)
    sampled = np.flatnonzero((sampling != 0) & (query_lengths != 0)).astype(np.uint32)
    ends = np.cumsum(query_lengths).astype(np.uint32)
    return {
        "tokens": prompt_tokens[:rows],
        "positions": prompt_positions[:rows],
        "lanes": lanes,
        "sample_rows": (ends[sampled] - 1).astype(np.uint32),
        "sample_lanes": sampled,
    }


def lay_mixed_rows(
    prompt: dict[str, npt.NDArray[np.generic]],
    *,
    prefill_row: int,
    slots: Words,
    pending: Ints,
    consumed: Words,
) -> dict[str, npt.NDArray[np.generic]]:
    """Rows as `lay_prompt_rows` laid them, in which only lane `prefill_row` takes prompt tokens.

    Every other lane has one row: its slot's pending token at the endpoint it has consumed.
    """
    lanes = prompt["lanes"]
    decodes = lanes != prefill_row
    held = slots[lanes]
    return {
        **prompt,
        "tokens": np.where(decodes, pending[held], prompt["tokens"]),
        "positions": np.where(decodes, consumed[held].astype(np.int32), prompt["positions"]),
    }


LAY_ROWS: Final = Kernel(
    "lay_rows",
    {
        "live_rows": Field.WORDS,
        "slots": Field.WORDS,
        "query_lengths": Field.WORDS,  # null: one pending token a lane
        "sampling": Field.WORDS,  # null: every lane samples
        "prompt_tokens": Field.INTS,  # null: pending tokens
        "prompt_positions": Field.INTS,
        "prefill_row": Field.WORDS,  # null: every lane takes prompt tokens, where there are any
        "pending": Field.INTS,  # of slot 0
        "consumed": Field.WORDS,
        "counts": Field.WORDS,  # rows, lanes, samples
        "tokens": Field.INTS,
        "positions": Field.INTS,
        "lanes": Field.WORDS,
        "sample_rows": Field.WORDS,
        "sample_lanes": Field.WORDS,
        "every_row": Field.WORDS,  # null: nobody picks all rows
        "slot_stride": Field.U32,
    },
)
