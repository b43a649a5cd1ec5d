"""Admission: a slot takes its generation, endpoint, limits and sampling parameters."""

from __future__ import annotations

from typing import Final

from ignition.ops.kernel import Field, Kernel

ADMITTED: Final = {
    "generations": Field.WORDS,
    "consumed": Field.WORDS,
    "output_limits": Field.WORDS,
    "minimum_outputs": Field.WORDS,
    "seeds": Field.LONGS,
    "temperatures": Field.FLOATS,
    "top_ps": Field.FLOATS,
    "min_ps": Field.FLOATS,
    "top_ks": Field.WORDS,
    "repetitions": Field.FLOATS,
    "presences": Field.FLOATS,
    "frequencies": Field.FLOATS,
    "eos_ids": Field.INTS,
    "logprob_counts": Field.INTS,
}
"""Staged values that a slot takes over, one row a lane."""

INITIALIZE: Final = Kernel(
    "initialize",
    {
        "live_rows": Field.WORDS,
        "slots": Field.WORDS,
        **ADMITTED,
        "states": Field.BYTES,
        "slot_stride": Field.U32,
    },
)
