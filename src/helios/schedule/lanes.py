"""What the scheduler decides and what others see of its lanes: frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

import msgspec

from helios.cache.host import Transfer
from helios.cache.matches import Stop
from helios.frontend.stops import StopCut
from helios.rounds import Finish, ProgramView, Score
from helios.values import RequestId, Slot


class Phase(Enum):
    """Where a lane is between its slot's assignment and its release."""

    ADMITTED = "admitted"  # its slot awaits initialization or restoration
    RESUMING = "resuming"  # its history is complete; its pending token comes from the host
    PREFILL = "prefill"
    DECODE = "decode"
    DRAINING = "draining"  # over for the request; its last fences have not passed
    PUBLISHING = "publishing"  # its partial page goes to continuation storage
    DONE = "done"


MOVES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.ADMITTED: frozenset({Phase.PREFILL, Phase.RESUMING, Phase.DRAINING}),
    Phase.RESUMING: frozenset({Phase.DECODE, Phase.DRAINING}),
    Phase.PREFILL: frozenset({Phase.DECODE, Phase.DRAINING}),
    Phase.DECODE: frozenset({Phase.DRAINING}),
    Phase.DRAINING: frozenset({Phase.PUBLISHING, Phase.DONE}),
    Phase.PUBLISHING: frozenset({Phase.DONE}),
    Phase.DONE: frozenset(),
}

LIVE: Final = frozenset({Phase.ADMITTED, Phase.RESUMING, Phase.PREFILL, Phase.DECODE})
"""Phases in which a request still waits for tokens."""


class LaneView(Protocol):
    """A lane as planning sees it: to be read, and not beyond the round that is planned."""

    @property
    def slot(self) -> Slot:
        """Where it is."""

    @property
    def phase(self) -> Phase:
        """How far it is."""

    @property
    def arrival(self) -> int:
        """Order of first admission."""

    @property
    def known(self) -> int:
        """Tokens of prompt and output that the host knows."""

    @property
    def submitted(self) -> int:
        """Endpoint after everything submitted."""

    @property
    def held_pages(self) -> int:
        """Pages that it has."""

    @property
    def in_flight(self) -> int:
        """Its submissions that have not finished."""

    @property
    def output_left(self) -> int:
        """Tokens that may still be sampled, submitted ones counted."""

    @property
    def restores(self) -> bool:
        """Whether a partial page is copied when its slot is taken."""

    @property
    def barrier(self) -> bool:
        """Whether the host must see each token before the next round (SG-32, SS-08)."""

    @property
    def scores(self) -> bool:
        """Whether prompt tokens get log-probabilities."""

    @property
    def masked(self) -> bool:
        """Whether each of its tokens needs a grammar's mask."""


class RosterView(msgspec.Struct, frozen=True, kw_only=True):
    """All lanes, and the slots that are free."""

    lanes: Sequence[LaneView]
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
    mixed_row: int | None = None  # the share that prefills while the others decode


class Preempt(msgspec.Struct, frozen=True, kw_only=True):
    """A lane must give its pages to an older one."""

    slot: Slot


class Reuse(msgspec.Struct, frozen=True, kw_only=True):
    """What a lane took from the prefix tree when it came."""

    tokens: int
    stop: Stop  # why no more
    again: bool  # it was preempted before: no hit of the cache's, only its own work found again
    loads: tuple[Transfer, ...]  # to be copied before its first submission


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the host makes of tokens that were settled for a request."""

    kept: int  # of them; the rest never happened
    finish: Finish | None = None
    problem: str | None = None
    cut: StopCut | None = None
    at_ns: int | None = None  # when they were settled, if the request observes it


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """News of one request after a round."""

    request: RequestId
    tokens: tuple[int, ...]
    finish: Finish | None
    problem: str | None = None
    cut: StopCut | None = None
    at_ns: int | None = None
    scores: tuple[Score, ...] = ()  # of the tokens, if the request asked
    prompt_scores: tuple[Score | None, ...] = ()  # of the rows just fed


class Settled(msgspec.Struct, frozen=True):
    """News of a round: who got a token and nothing else, and everybody else's."""

    requests: tuple[RequestId, ...]
    tokens: tuple[int, ...]  # one of each of those
    results: tuple[Result, ...]

    def __iter__(self) -> Iterator[Result]:
        """All of it, one by one."""
        for request, token in zip(self.requests, self.tokens, strict=True):
            yield Result(request=request, tokens=(token,), finish=None)
        yield from self.results
