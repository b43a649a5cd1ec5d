"""Requests, views and programs made up for the scheduler's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from helios.cache.content import Key
from helios.frontend.request import PreparedRequest
from helios.rounds import ProgramView, Sampling, Span
from helios.schedule.gates import CacheView
from helios.schedule.lanes import LaneView, Phase, RosterView
from helios.schedule.queue import Waiting
from helios.values import ProgramId, RequestId, Slot
from prepared.contract import Operation

EOS: Final = 2
VOCABULARY: Final = 100
IDENTITY: Final = b"made up"

PLAIN: Final = Sampling(
    seed=0,
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)


def request(
    number: int = 1,
    *,
    prompt: Sequence[int] = (10, 11, 12),
    output_limit: int = 4,
    minimum_output: int = 0,
    eos_ids: tuple[int, ...] = (EOS,),
    sampling: Sampling = PLAIN,
    salt: str = "",
    spans: tuple[Span, ...] = (),
    score_prompt: bool = False,
) -> PreparedRequest:
    """A request whose prompt nobody looks at."""
    return PreparedRequest(
        id=RequestId(number),
        prompt=tuple(prompt),
        sampling=sampling,
        output_limit=output_limit,
        minimum_output=minimum_output,
        eos_ids=eos_ids,
        salt=salt,
        spans=spans,
        score_prompt=score_prompt,
    )


def entry(number: int, asked: PreparedRequest, *, emitted: Sequence[int] = ()) -> Waiting:
    """A request that arrived as the `number`th; it was preempted if it has emitted something."""
    return Waiting(
        arrival=number,
        request=asked,
        key=Key(identity=IDENTITY, salt=asked.salt),
        emitted=tuple(emitted),
        preempted=bool(emitted),
    )


def waiting(
    number: int = 1,
    *,
    prompt_tokens: int = 3,
    output_limit: int = 4,
    emitted: Sequence[int] = (),
    salt: str = "",
) -> Waiting:
    """The request that arrived as the `number`th; all prompts begin alike."""
    prompt = range(10, 10 + prompt_tokens)
    asked = request(number, prompt=prompt, output_limit=output_limit, salt=salt)
    return entry(number, asked, emitted=emitted)


def program(
    number: int, operation: Operation, *, rows: int, row_tokens: int = 1, packed: int | None = None
) -> ProgramView:
    """A program; square unless its packed tokens are said."""
    return ProgramView(
        id=ProgramId(number),
        operation=operation,
        rows=rows,
        row_tokens=row_tokens,
        packed_tokens=rows * row_tokens if packed is None else packed,
    )


PROGRAMS: Final = (
    program(0, Operation.INITIALIZE, rows=4),
    program(1, Operation.PREFILL, rows=4, row_tokens=8, packed=8),
    program(2, Operation.PREFILL, rows=4, row_tokens=16, packed=16),
    program(3, Operation.DECODE, rows=1),
    program(4, Operation.DECODE, rows=2),
    program(5, Operation.DECODE, rows=4),
)
"""What a small model has at least."""

SLOT_PROGRAMS: Final = (
    program(6, Operation.RESTORE, rows=4),
    program(7, Operation.RESUME, rows=4),
    program(8, Operation.PUBLISH_SNAPSHOT, rows=4),
)
MIXED: Final = program(9, Operation.MIXED, rows=4, row_tokens=8, packed=11)
SCORED: Final = program(10, Operation.SCORED_PREFILL, rows=1, row_tokens=8)

PROPOSING: Final = program(11, Operation.SPECULATIVE, rows=4, row_tokens=4)
"""What decodes several tokens at once; a core that has it decodes with nothing else."""

EVERY_PROGRAM: Final = (*PROGRAMS, *SLOT_PROGRAMS, MIXED, SCORED)
"""What a model may have besides."""


class SeenLane(msgspec.Struct, frozen=True, kw_only=True):
    """A lane that only planning sees."""

    slot: Slot
    phase: Phase
    arrival: int
    known: int
    submitted: int
    held_pages: int
    in_flight: int
    output_left: int
    restores: bool
    barrier: bool
    scores: bool
    masked: bool = False


def lane(
    slot: int,
    phase: Phase,
    *,
    arrival: int | None = None,
    tokens: int = 4,
    submitted: int = 0,
    pages: int = 0,
    in_flight: int = 0,
    output_left: int = 8,
    restores: bool = False,
    barrier: bool = False,
    scores: bool = False,
) -> SeenLane:
    """A lane as planning sees it; it arrived in the order of its slot unless that is said."""
    return SeenLane(
        slot=Slot(slot),
        phase=phase,
        arrival=slot if arrival is None else arrival,
        known=tokens,
        submitted=submitted,
        held_pages=pages,
        in_flight=in_flight,
        output_left=output_left,
        restores=restores,
        barrier=barrier,
        scores=scores,
    )


def roster(*lanes: LaneView, free_slots: int = 0) -> RosterView:
    """These lanes and no others."""
    return RosterView(lanes=lanes, free_slots=free_slots)


def cache(*, free: int = 100, total: int = 100, page_tokens: int = 4) -> CacheView:
    """A cache with so many pages."""
    return CacheView(page_tokens=page_tokens, total_pages=total, free_pages=free)
