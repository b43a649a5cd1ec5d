"""What the scheduler decides and what others see of its lanes: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from helios.rounds import Finish, ProgramView
from helios.values import RequestId, Slot


class Phase(Enum):
    """Where a lane is between its slot's assignment and its release."""

    ADMITTED = "admitted"  # its slot awaits initialization
    PREFILL = "prefill"
    DECODE = "decode"
    DRAINING = "draining"  # over for the request; its last fences have not passed
    DONE = "done"


MOVES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.ADMITTED: frozenset({Phase.PREFILL, Phase.DRAINING}),
    Phase.PREFILL: frozenset({Phase.DECODE, Phase.DRAINING}),
    Phase.DECODE: frozenset({Phase.DRAINING}),
    Phase.DRAINING: frozenset({Phase.DONE}),
    Phase.DONE: frozenset(),
}


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    """A lane as planning sees it."""

    slot: Slot
    phase: Phase
    arrival: int  # order of first admission
    tokens: int  # prompt and output known to the host
    submitted: int  # endpoint after everything submitted
    pages: int  # held
    in_flight: int
    output_left: int  # tokens that may still be sampled, submitted ones counted


class RosterView(msgspec.Struct, frozen=True, kw_only=True):
    """All lanes, and the slots that are free."""

    lanes: tuple[LaneView, ...]
    free_slots: int


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One lane's part of a plan."""

    slot: Slot
    tokens: int  # rows it contributes; 0 when admitted
    samples: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the next submission does."""

    program: ProgramView
    shares: tuple[Share, ...]


class Preempt(msgspec.Struct, frozen=True, kw_only=True):
    """A lane must give its pages to an older one."""

    slot: Slot


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """News of one request after a round."""

    request: RequestId
    tokens: tuple[int, ...]
    finish: Finish | None
    problem: str | None = None
