"""What a submission leaves behind: slot states and the completion record."""

from __future__ import annotations

from typing import Final

from ignition.ops.kernel import Field, Kernel

COMMIT: Final = Kernel(
    "commit",
    {
        "live_rows": Field.WORDS,
        "slots": Field.WORDS,
        "query_lengths": Field.WORDS,  # null: every lane moves by `moves`
        "counts": Field.WORDS,
        "sample_lanes": Field.WORDS,
        "sampled": Field.INTS,  # null: nothing samples
        "states": Field.BYTES,
        "histograms": Field.HALVES,
        "sequence": Field.LONGS,
        "frame": Field.WORDS,
        "program": Field.WORDS,
        "record_sequence": Field.LONGS,
        "record_frame": Field.WORDS,
        "record_program": Field.WORDS,
        "record_status": Field.WORDS,
        "record_rows": Field.WORDS,
        "lane_slot": Field.WORDS,
        "lane_generation": Field.WORDS,
        "lane_consumed": Field.WORDS,
        "lane_emitted": Field.WORDS,
        "lane_tokens": Field.INTS,
        "lane_offered": Field.WORDS,
        "lane_accepted": Field.WORDS,
        "lane_cursor": Field.INTS,
        "lane_reserved": Field.INTS,
        "lane_finish": Field.WORDS,
        "slot_stride": Field.U32,
        "histogram_width": Field.U32,
        "moves": Field.U32,
    },
)
