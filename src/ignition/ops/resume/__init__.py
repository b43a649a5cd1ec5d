"""A lane whose history is complete takes its pending token from the host (HV-32)."""

from __future__ import annotations

from typing import Final

from ignition.ops.kernel import Field, Kernel

RESUME: Final = Kernel(
    "resume",
    {
        "live_rows": Field.WORDS,
        "slots": Field.WORDS,
        "pending_tokens": Field.INTS,
        "pending": Field.INTS,  # of slot 0
        "slot_stride": Field.U32,
    },
)
