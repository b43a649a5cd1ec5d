"""Requests, views and programs made up for the scheduler's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from helios.frontend.request import PreparedRequest
from helios.rounds import ProgramView, Sampling
from helios.schedule.gates import CacheView
from helios.schedule.lanes import LaneView, Phase, RosterView
from helios.schedule.queue import Waiting
from helios.values import ProgramId, RequestId, Slot
from prepared.contract import Operation

EOS: Final = 2
VOCABULARY: Final = 100

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
) -> PreparedRequest:
    """A request whose prompt nobody looks at."""
    return PreparedRequest(
        id=RequestId(number),
        prompt=tuple(prompt),
        sampling=sampling,
        output_limit=output_limit,
        minimum_output=minimum_output,
        eos_ids=eos_ids,
    )


def waiting(
    number: int = 1,
    *,
    prompt_tokens: int = 3,
    output_limit: int = 4,
    emitted: Sequence[int] = (),
) -> Waiting:
    """The request that arrived as the `number`th."""
    prompt = range(10, 10 + prompt_tokens)
    return Waiting(
        arrival=number,
        request=request(number, prompt=prompt, output_limit=output_limit),
        emitted=tuple(emitted),
    )


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
"""What a small model has."""


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
) -> LaneView:
    """A lane as planning sees it; it arrived in the order of its slot unless that is said."""
    return LaneView(
        slot=Slot(slot),
        phase=phase,
        arrival=slot if arrival is None else arrival,
        tokens=tokens,
        submitted=submitted,
        pages=pages,
        in_flight=in_flight,
        output_left=output_left,
    )


def roster(*lanes: LaneView, free_slots: int = 0) -> RosterView:
    """These lanes and no others."""
    return RosterView(lanes=lanes, free_slots=free_slots)


def cache(*, free: int = 100, total: int = 100, page_tokens: int = 4) -> CacheView:
    """A cache with so many pages."""
    return CacheView(page_tokens=page_tokens, total_pages=total, free_pages=free)
