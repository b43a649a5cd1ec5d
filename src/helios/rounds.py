"""What goes down to a device and what comes up: submissions and completions, frozen.

The scheduler makes submissions and judges completions; execution packs the one and reads the
other.  Neither room knows the other: they meet in these values.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from helios.values import Generation, PageId, ProgramId, Sequence, Slot
from prepared.contract import Operation


class Finish(Enum):
    """Why a request's output ended; each keeps its own meaning (FI-30)."""

    END_OF_SEQUENCE = "end_of_sequence"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    REJECTED = "rejected"  # never admitted
    FAILED = "failed"


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are drawn; complete, defaults filled in."""

    seed: int  # 64 bits
    temperature: float
    top_p: float
    top_k: int  # 0: off
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float

    @property
    def penalises(self) -> bool:
        """Whether the histogram of seen tokens matters."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)


class ProgramView(msgspec.Struct, frozen=True, kw_only=True):
    """A selected program as planning sees it."""

    id: ProgramId
    operation: Operation
    rows: int
    row_tokens: int
    packed_tokens: int


class NewPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page-table entry that the device does not know yet."""

    index: int
    page: PageId


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What a slot takes over when it changes hands."""

    sampling: Sampling
    output_limit: int  # tokens it may still emit
    minimum_output: int  # tokens before an end of sequence may come
    eos_ids: tuple[int, ...]
    seen: tuple[int, ...]  # prompt and output so far, for penalties


class LaneWork(msgspec.Struct, frozen=True, kw_only=True):
    """One lane's part of a submission."""

    slot: Slot
    generation: Generation
    tokens: tuple[int, ...]  # prompt tokens fed; none when a pending token is
    start: int  # position of its first row
    endpoint: int  # consumed tokens once this has run
    samples: bool
    new_pages: tuple[NewPage, ...]
    admission: Admission | None


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A round: a program over lanes."""

    sequence: Sequence
    frame: int
    program: ProgramId
    lanes: tuple[LaneWork, ...]


class LaneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the device says of one lane."""

    slot: int
    generation: int
    consumed: int
    emitted: int  # as the device counts; `tokens` holds no more than the record has room for
    tokens: tuple[int, ...]
    offered: int
    accepted: int
    cursor: int
    reserved: int
    finish: int


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What the device says of a submission."""

    sequence: int
    frame: int
    program: int
    status: int
    rows: int  # as the device counts; `lanes` holds no more than the record has room for
    lanes: tuple[LaneRecord, ...]
