"""A device that does exactly what it is told, and remembers in which page it wrote what.

It is a model of the treaty, not of any hardware: it refuses (AssertionError) what no device
could do.  Each token it consumes is written into its page together with everything before it, so
that a lane which reads a wrong page, a wrong continuation row, or another's history is found out.
Proposals that are not taken leave garbage behind the history, as a real device would.  Its
token is a function of the position alone: a request's tokens do not depend on its fate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from helios.cache.content import Key
from helios.cache.pages import pages_for
from helios.rounds import (
    NO_TARGET,
    Admission,
    Completion,
    FromPage,
    FromSnapshot,
    LaneRecord,
    LaneWork,
    Score,
    Submission,
    is_usual,
)
from helios.schedule.queue import Waiting
from helios.values import Generation, HostSlot, PageId, Slot, SnapshotRow
from prepared.contract import Operation
from prepared.manifest import FinishBits

PAGE_TOKENS: Final = 4

Trace = tuple[Key, int]
"""Whose a written token is: its key, and a hash of it and of all before it."""

Cells = dict[int, Trace | None]
"""What a page, a row or a host slot contains, by place; None: a proposal that was not taken."""

ENTERS: Final = frozenset({Operation.INITIALIZE, Operation.RESTORE})
STANDS: Final = frozenset({*ENTERS, Operation.RESUME, Operation.PUBLISH_SNAPSHOT})
DECODES: Final = frozenset({Operation.DECODE, Operation.SPECULATIVE})


def plain_token(position: int) -> int:
    """A token that ends nothing."""
    return 30 + position % 60


@dataclass(slots=True)
class Row:
    """What the device keeps of a slot."""

    admission: Admission
    generation: Generation
    whose: Waiting
    consumed: int
    pages: dict[int, PageId] = field(default_factory=dict)
    pending: int | None = None
    emitted: int = 0
    finish: int = 0


def head_of(record: LaneRecord) -> tuple[int, ...]:
    """The numbers that every lane's record has."""
    numbers = (record.slot, record.generation, record.consumed, record.emitted, record.offered)
    return (*numbers, record.accepted, record.cursor, record.reserved, record.finish)


@dataclass(slots=True)
class HonestDevice:
    """Plays submissions in order."""

    whose: Callable[[Slot], Waiting]  # whose a slot is
    holders: Callable[[PageId], int]
    token: Callable[[int], int] = plain_token
    group: int = 1  # tokens that it emits at once where the program has rows for proposals
    terse: bool = False  # whether usual records are told as their tokens
    rows: dict[Slot, Row] = field(default_factory=dict)
    pages: dict[PageId, Cells] = field(default_factory=dict)
    snapshots: dict[SnapshotRow, Cells] = field(default_factory=dict)
    host: dict[HostSlot, Cells] = field(default_factory=dict)

    def play(self, submission: Submission, operation: Operation) -> Completion:
        """What the device says of a submission."""
        records = tuple(
            self.lane(work, self.lane_operation(submission, operation, index))
            for index, work in enumerate(submission.lanes)
        )
        return Completion(
            sequence=submission.sequence,
            frame=submission.frame,
            program=submission.program,
            status=0,
            rows=len(records),
            lanes=tuple(
                record.tokens[0] if self.terse and is_usual(work, head_of(record)) else record
                for work, record in zip(submission.lanes, records, strict=True)
            ),
        )

    def lane_operation(self, submission: Submission, operation: Operation, index: int) -> Operation:
        """In a mixed round one lane prefills and the others decode (HV-06)."""
        if operation is not Operation.MIXED:
            assert submission.mixed_row is None
            return operation
        return Operation.PREFILL if index == submission.mixed_row else Operation.DECODE

    def lane(self, work: LaneWork, operation: Operation) -> LaneRecord:
        """Feed a lane, and sample if it is told to."""
        assert (work.admission is not None) == (operation in ENTERS), "told of a new owner"
        if work.admission is not None:
            whose = self.whose(work.slot)
            self.rows[work.slot] = Row(work.admission, work.generation, whose, work.start)
        row = self.rows[work.slot]
        assert row.generation == work.generation, "another request's slot"
        assert work.start == row.consumed, "positions follow one another"
        self.learn_pages(row, work)
        match operation:
            case Operation.INITIALIZE:
                assert work.start % PAGE_TOKENS == 0, "a partial page needs restoring"
            case Operation.RESTORE:
                self.restore(row, work)
            case Operation.RESUME:
                assert row.pending is None
                assert work.pending == self.truth(row, work.start + 1)[-1]
                row.pending = work.pending
            case Operation.PUBLISH_SNAPSHOT:
                self.publish(row, work)
            case _:
                self.feed(row, work, decodes=operation in DECODES)
        if operation not in STANDS:
            self.check_history(row)
        assert bool(work.targets) == (operation is Operation.SCORED_PREFILL), "what is scored"
        tokens = self.sample(row, work) if work.samples else ()
        if operation not in STANDS:
            self.check_history(row)
        return self.record(row, work, tokens)

    def learn_pages(self, row: Row, work: LaneWork) -> None:
        """Page-table entries arrive once (HV-25)."""
        for entry in work.new_pages:
            assert entry.index not in row.pages, "an entry that the device knows"
            row.pages[entry.index] = entry.page

    def restore(self, row: Row, work: LaneWork) -> None:
        """The leading records of a partial page are copied to a private one (AH-16)."""
        page = row.pages[work.start // PAGE_TOKENS]
        match work.restore:
            case FromPage(page=source):
                cells = self.pages[source]
            case FromSnapshot(row=source):
                cells = self.snapshots[source]
            case None:
                raise AssertionError("nowhere to restore from")
        self.pages[page] = {place: cells[place] for place in range(work.start % PAGE_TOKENS)}
        self.check_history(row)

    def publish(self, row: Row, work: LaneWork) -> None:
        """A partial page is copied to continuation storage, up to an exact endpoint (AH-14)."""
        assert work.snapshot is not None
        tokens = work.snapshot.tokens
        assert tokens <= row.consumed, "nothing was computed there"
        cells = self.pages[row.pages[tokens // PAGE_TOKENS]]
        kept = {place: cells[place] for place in range(tokens % PAGE_TOKENS)}
        self.snapshots[work.snapshot.row] = kept

    def feed(self, row: Row, work: LaneWork, *, decodes: bool) -> None:
        """Consume prompt tokens, or the pending one, and write each into its page."""
        assert bool(work.tokens) != decodes, "prompt tokens come from the host, pending ones not"
        if decodes:
            assert row.pending is not None, "nothing to consume"
        fed = work.tokens or (row.pending,)
        end = work.start + len(fed)
        assert work.endpoint == (work.start + work.ceiling if decodes else end)
        assert fed == self.truth(row, end)[work.start :], "a token of another history"
        for position in range(work.start, work.endpoint):
            page = row.pages[position // PAGE_TOKENS]
            assert self.holders(page) == 1, "a page with two holders is written"
            known = self.trace(row, position) if position < end else None
            self.pages.setdefault(page, {})[position % PAGE_TOKENS] = known
        row.consumed = end

    def truth(self, row: Row, tokens: int) -> tuple[int, ...]:
        """The leading tokens that the row's request must have: its prompt, then what follows."""
        prompt = row.whose.request.prompt
        after = range(len(prompt), max(len(prompt), tokens))
        return (*prompt, *(self.token(position) for position in after))[:tokens]

    def trace(self, row: Row, position: int) -> Trace:
        """What is written for a position."""
        return row.whose.key, hash(self.truth(row, position + 1))

    def check_history(self, row: Row) -> None:
        """What a lane reads was computed from its own tokens, under its own key."""
        pages = pages_for(row.consumed, page_tokens=PAGE_TOKENS)
        assert set(range(pages)) <= set(row.pages), "a position without a page"
        for position in range(row.consumed):
            cells = self.pages[row.pages[position // PAGE_TOKENS]]
            found = cells.get(position % PAGE_TOKENS)
            assert found == self.trace(row, position), f"position {position} holds another history"

    def sample(self, row: Row, work: LaneWork) -> tuple[int, ...]:
        """The next token, if there is one, and those proposals that were right."""
        tokens: list[int] = []
        while not row.finish and len(tokens) < min(work.ceiling, self.group):
            if tokens:  # the one before was proposed, computed and right
                page = row.pages[row.consumed // PAGE_TOKENS]
                trace = self.trace(row, row.consumed)
                self.pages[page][row.consumed % PAGE_TOKENS] = trace
                row.consumed += 1
            tokens.append(self.next_token(row))
        return tuple(tokens)

    def next_token(self, row: Row) -> int:
        """The token after what was consumed; it may end the request."""
        row.pending = self.token(row.consumed)
        row.emitted += 1
        bits = FinishBits(0)
        if row.pending in row.admission.eos_ids:
            bits |= FinishBits.END_OF_SEQUENCE
        if row.emitted >= row.admission.output_limit:
            bits |= FinishBits.OUTPUT_LIMIT
        row.finish = int(bits)
        return row.pending

    def record(self, row: Row, work: LaneWork, tokens: tuple[int, ...]) -> LaneRecord:
        """What is said of a lane."""
        return LaneRecord(
            slot=work.slot,
            generation=row.generation,
            consumed=row.consumed,
            emitted=len(tokens),
            tokens=tokens,
            offered=work.ceiling - 1 if tokens else 0,
            accepted=max(0, len(tokens) - 1),
            cursor=-1,
            reserved=-1,
            finish=row.finish,
            scores=tuple(score_of(target) for target in work.targets),
        )

    # ----------------------------------------------------------- host tier

    def save(self, page: PageId, slot: HostSlot) -> None:
        """Copy a page to the host."""
        self.host[slot] = dict(self.pages[page])

    def load(self, page: PageId, slot: HostSlot) -> None:
        """Copy a page back."""
        self.pages[page] = dict(self.host[slot])


def score_of(target: int) -> Score | None:
    """What this device thinks of a token; rows without a target have no score."""
    return None if target == NO_TARGET else Score(logprob=-float(target), top=((target, -1.0),))


Change = Callable[[Completion], Completion]


def unchanged(completion: Completion) -> Completion:
    """An honest record."""
    return completion


def failed(completion: Completion) -> Completion:
    """The device says that it failed."""
    return replace(completion, status=1)
