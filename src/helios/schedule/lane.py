"""A lane: one request in its slot, its endpoints, its pages, and its part of submissions.

Only the roster changes lanes.  Pages that came from the prefix tree are first and never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from helios.cache.content import Content, Key, content_of
from helios.cache.matches import FromRow, Match, Publication
from helios.frontend.request import PreparedRequest
from helios.rounds import (
    Admission,
    FromSnapshot,
    LaneRecord,
    LaneWork,
    NewPage,
    Restore,
)
from helios.rounds import FromPage as CopyPage
from helios.rounds import Publication as Snapshot
from helios.schedule.lanes import LIVE, MOVES, Phase
from helios.schedule.queue import Waiting
from helios.values import Generation, PageId, Slot

DECODE: Final = Phase.DECODE  # an attribute of an enumeration costs as much as a call


@dataclass(slots=True)
class Lane:
    """One request in its slot; planning sees it as a `LaneView`."""

    waiting: Waiting
    slot: Slot
    generation: Generation
    match: Match
    tokens: list[int]  # prompt, then output
    pages: list[PageId]
    phase: Phase = Phase.ADMITTED
    submitted: int = 0
    settled: int = 0
    sampled: int = 0  # tokens whose sampling was submitted, in this slot
    emitted: int = 0  # tokens settled, in this slot
    in_flight: int = 0
    uploaded: int = 0  # page-table entries that the device knows (HV-25)
    request: PreparedRequest = field(init=False)
    arrival: int = field(init=False)
    output_limit: int = field(init=False)  # tokens it may emit in this slot
    barrier: bool = field(init=False)
    judged: bool = field(init=False)  # the host looks at each of its tokens
    restores: bool = field(init=False)  # what it is copied from is held
    over: bool = False  # the device has ended it
    publishes: bool = False  # what it has computed may be found by others
    publication: Publication | None = None

    def __post_init__(self) -> None:
        """What is reused counts as done."""
        self.request, self.arrival = self.waiting.request, self.waiting.arrival
        self.output_limit = self.request.output_limit - len(self.waiting.emitted)
        self.barrier, self.judged = self.request.barrier, self.request.judged
        self.submitted = self.settled = self.match.tokens
        self.restores = self.match.source is not None

    def move(self, phase: Phase) -> None:
        """Enter a phase; only as `MOVES` allows."""
        assert phase in MOVES[self.phase], f"{self.phase} to {phase}"
        self.phase = phase
        self.barrier &= self.live

    @property
    def live(self) -> bool:
        """Whether its request still waits for tokens."""
        return self.phase in LIVE

    @property
    def resumes(self) -> bool:
        """Whether only its pending token is missing: it was preempted, and all was found again."""
        return bool(self.waiting.emitted) and self.submitted == len(self.tokens) - 1

    @property
    def key(self) -> Key:
        """Under which its history may be found."""
        return self.waiting.key

    def content(self, endpoint: int) -> Content:
        """What its history up to an endpoint was computed from."""
        return content_of(self.tokens[:endpoint], self.request.spans)

    @property
    def known(self) -> int:
        """See `LaneView`."""
        return len(self.tokens)

    @property
    def held_pages(self) -> int:
        """See `LaneView`."""
        return len(self.pages)

    @property
    def output_left(self) -> int:
        """See `LaneView`."""
        return 0 if self.over else self.output_limit - self.sampled

    @property
    def scores(self) -> bool:
        """See `LaneView`."""
        return self.request.score_prompt

    @property
    def masked(self) -> bool:
        """See `LaneView`."""
        return self.request.constraint is not None

    # -------------------------------------------------------- completions

    # hot
    def may_take(self, token: int, vocabulary: int) -> bool:
        """Whether a usual record's token is one of many: it ends nothing, and nobody judges it."""
        return (
            0 <= token < vocabulary
            and self.phase is DECODE
            and token not in self.request.eos_ids
            and self.emitted + 1 < self.output_limit
            and not self.over
            and not self.judged
        )

    # hot
    def take(self, token: int, endpoint: int) -> None:
        """Take a usual record, once the whole round was judged."""
        self.in_flight -= 1
        self.settled = endpoint
        self.tokens.append(token)
        self.emitted += 1

    def settle(self, record: LaneRecord) -> None:
        """Take a judged record: endpoints move to what was committed."""
        self.settled = record.consumed
        self.tokens.extend(record.tokens)
        self.emitted += len(record.tokens)
        if not self.in_flight:  # proposals that were not taken leave no trace
            self.submitted, self.sampled = self.settled, self.emitted

    # --------------------------------------------------------- submissions

    def admission(self) -> Admission:
        """What the slot takes over."""
        request = self.request
        return Admission(
            sampling=request.sampling,
            output_limit=self.output_limit,
            minimum_output=max(0, request.minimum_output - len(self.waiting.emitted)),
            eos_ids=request.eos_ids,
            seen=tuple(self.tokens) if request.sampling.penalises else (),
            logit_bias=request.logit_bias,
            logprobs=request.logprobs,
        )

    def restore(self) -> Restore:
        """Where its partial page is copied from."""
        source = self.match.source
        assert source is not None
        if isinstance(source, FromRow):
            return FromSnapshot(row=source.row)
        return CopyPage(page=source.page)

    def snapshot(self) -> Snapshot:
        """Where its partial page is copied to."""
        assert self.publication is not None
        assert self.publication.row is not None
        return Snapshot(row=self.publication.row, tokens=len(self.publication.content.symbols))

    def unknown_pages(self) -> tuple[NewPage, ...]:
        """Page-table entries that the device does not know; now it will."""
        first, self.uploaded = self.uploaded, len(self.pages)
        return tuple(
            NewPage(index=index, page=self.pages[index]) for index in range(first, self.uploaded)
        )

    def work(
        self,
        rows: int,
        fresh: Sequence[PageId],
        *,
        tokens: tuple[int, ...] = (),
        emits: int = 0,
        pages: bool = True,
    ) -> LaneWork:
        """Its part of a submission of so many rows, with pages for them; it may emit so many."""
        start = self.submitted
        if fresh:
            self.pages.extend(fresh)
        self.submitted += rows
        self.sampled += emits
        self.in_flight += 1
        news = pages and self.uploaded < len(self.pages)
        return LaneWork(
            slot=self.slot,
            generation=self.generation,
            tokens=tokens,
            start=start,
            endpoint=self.submitted,
            samples=emits > 0,
            new_pages=self.unknown_pages() if news else (),
            admission=None,
            logprobs=self.request.logprobs,
            ceiling=emits or 1,
            images=self.request.images,
        )
