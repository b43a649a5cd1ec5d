"""A lane: one request in its slot, its endpoints, its pages, and its part of submissions.

Only the roster changes lanes.  Pages that came from the prefix tree are first and never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from helios.cache.content import Content, Key, content_of
from helios.cache.matches import FromRow, Match, Publication
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
from helios.schedule.lanes import LIVE, MOVES, LaneView, Phase
from helios.schedule.queue import Waiting
from helios.values import Generation, PageId, Slot


@dataclass(slots=True)
class Lane:
    """One request in its slot."""

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
    source_held: bool = field(init=False)
    over: bool = False  # the device has ended it
    publishes: bool = False  # what it has computed may be found by others
    publication: Publication | None = None

    def __post_init__(self) -> None:
        """What is reused counts as done."""
        self.submitted = self.settled = self.match.tokens
        self.source_held = self.match.source is not None

    def move(self, phase: Phase) -> None:
        """Enter a phase; only as `MOVES` allows."""
        assert phase in MOVES[self.phase], f"{self.phase} to {phase}"
        self.phase = phase

    @property
    def live(self) -> bool:
        """Whether its request still waits for tokens."""
        return self.phase in LIVE

    @property
    def output_limit(self) -> int:
        """Tokens it may emit in this slot."""
        return self.waiting.request.output_limit - len(self.waiting.emitted)

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
        return content_of(self.tokens[:endpoint], self.waiting.request.spans)

    def view(self) -> LaneView:
        """The lane as planning sees it."""
        request = self.waiting.request
        return LaneView(
            slot=self.slot,
            phase=self.phase,
            arrival=self.waiting.arrival,
            tokens=len(self.tokens),
            submitted=self.submitted,
            pages=len(self.pages),
            in_flight=self.in_flight,
            output_left=0 if self.over else self.output_limit - self.sampled,
            restores=self.source_held,
            barrier=request.barrier and self.live,
            scores=request.score_prompt,
            masked=request.constraint is not None,
        )

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
        request = self.waiting.request
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
        if first == self.uploaded:
            return ()
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
        self.pages.extend(fresh)
        self.submitted += rows
        self.sampled += emits
        self.in_flight += 1
        return LaneWork(
            slot=self.slot,
            generation=self.generation,
            tokens=tokens,
            start=start,
            endpoint=self.submitted,
            samples=emits > 0,
            new_pages=self.unknown_pages() if pages else (),
            admission=None,
            logprobs=self.waiting.request.logprobs,
            ceiling=max(1, emits),
            images=self.waiting.request.images,
        )
