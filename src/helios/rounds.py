"""What goes down to a device and what comes up: submissions and completions, frozen.

The scheduler makes submissions and judges completions; execution packs the one and reads the
other.  Neither room knows the other: they meet in these values.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from helios.values import Generation, PageId, ProgramId, Sequence, Slot, SnapshotRow
from prepared.contract import ElementType, Operation

MOST_LOGIT_BIAS: Final = 300
"""Tokens that a request may bias; every core that takes biases has room for them."""

MOST_LOGPROBS: Final = 20
"""Alternatives that a request may ask for beside each token."""

NO_TARGET: Final = -1
"""The target of a row that is not to be scored."""


class Finish(Enum):
    """Why a request's output ended; each keeps its own meaning (FI-30)."""

    END_OF_SEQUENCE = "end_of_sequence"
    OUTPUT_LIMIT = "output_limit"
    STOPPED = "stopped"  # a stop that the client declared
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


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Placeholder tokens of one image: all of them or none."""

    start: int
    length: int
    digest: bytes


class ImageTensor(msgspec.Struct, frozen=True, kw_only=True):
    """A named tensor of one picture: rows of numbers, one after another (HV-11)."""

    name: str
    element: ElementType
    rows: int
    row_elements: int
    data: bytes


class ImagePrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What programs must know of the images in a prompt (FI-13); numbers are 32-bit integers."""

    features: bytes  # for each prompt token the request's feature that it stands for, or -1
    positions: bytes  # for each prompt token one on every axis; none where they only count up
    delta: int  # what the position of a token behind the prompt is beyond its place
    pictures: tuple[tuple[ImageTensor, ...], ...]  # in the prompt's order


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
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int | None = None  # as `LaneWork.logprobs`


class FromSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A partial page comes back from continuation storage (AH-16)."""

    row: SnapshotRow


class FromPage(msgspec.Struct, frozen=True, kw_only=True):
    """The leading records of a page that others hold are copied (AH-16)."""

    page: PageId


Restore = FromSnapshot | FromPage


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """A partial page goes to continuation storage (AH-15)."""

    row: SnapshotRow
    tokens: int  # the exact endpoint that is kept; the lane may have consumed more (AH-14)


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
    restore: Restore | None = None  # where the partial page at `start` comes from
    snapshot: Publication | None = None
    pending: int | None = None  # the token that becomes pending (HV-32)
    mask: bytes | None = None  # allowed tokens, a bit each; None: those of the last mask
    logprobs: int | None = None  # of each token: its own and so many alternatives; None: nothing
    targets: tuple[int, ...] = ()  # of a scored prefill, one a row; `NO_TARGET`: no score
    ceiling: int = 1  # tokens that it may commit when it samples (SG-12)
    images: ImagePrompt | None = None  # of its prompt
    picture: int | None = None  # which of them a program looks at

    @property
    def rows(self) -> int:
        """Token rows that it contributes."""
        return self.endpoint - self.start


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A round: a program over lanes."""

    sequence: Sequence
    frame: int
    program: ProgramId
    lanes: tuple[LaneWork, ...]
    mixed_row: int | None = None  # the lane that prefills while the others decode


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How likely the model held a token, and what it held likeliest."""

    logprob: float
    top: tuple[tuple[int, float], ...]  # ids and log-probabilities, likeliest first


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
    logprob: float | None = None  # of the emitted token, when asked for
    top: tuple[tuple[int, float], ...] = ()
    scores: tuple[Score | None, ...] = ()  # of a scored prefill, one a row
    forbidden: int | None = None  # the token that made the lane fail (FORBIDDEN_TOKEN)


Head = tuple[int, ...]
"""The numbers that every lane's record has: slot, generation, consumed, emitted, offered, accepted,
draft cursor, reserved, finish."""


def is_usual(work: LaneWork, head: Head) -> bool:
    """Whether a record says what most do: the one token that was asked for, and nothing else."""
    return (
        work.samples
        and head == (work.slot, work.generation, work.endpoint, 1, 0, 0, -1, -1, 0)
        and work.ceiling == 1
        and work.logprobs is None
        and not work.targets
    )


def usual_record(work: LaneWork, token: int) -> LaneRecord:
    """The whole record of which only the token was kept."""
    return LaneRecord(
        slot=work.slot,
        generation=work.generation,
        consumed=work.endpoint,
        emitted=1,
        tokens=(token,),
        offered=0,
        accepted=0,
        cursor=-1,
        reserved=-1,
        finish=0,
    )


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What the device says of a submission; of a usual lane (`is_usual`) its token alone."""

    sequence: int
    frame: int
    program: int
    status: int
    rows: int  # as the device counts; `lanes` holds no more than the record has room for
    lanes: tuple[LaneRecord | int, ...]
