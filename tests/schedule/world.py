"""A roster with a queue above it and, below it, a device that does exactly what it is told.

The device is a model of the treaty, not of any hardware: it keeps what it was fed and which
pages it knows, and refuses (AssertionError) what no device could do.  Its token is a function
of the position alone, so that a request's tokens do not depend on its fate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from helios.cache.pages import PagePool, pages_for
from helios.rounds import Admission, Completion, LaneRecord, LaneWork, ProgramView, Submission
from helios.schedule.gates import Admitted, admit
from helios.schedule.lanes import LaneView, Plan, Preempt, Result
from helios.schedule.plan import plan_round
from helios.schedule.queue import Queue, Waiting
from helios.schedule.roster import Roster
from helios.values import Generation, PageId, RequestId, Slot
from prepared.contract import Operation
from prepared.manifest import FinishBits
from tests.schedule.made import PROGRAMS, VOCABULARY

PAGE_TOKENS: Final = 4
FRAMES: Final = 2

Change = Callable[[Completion], Completion]


def plain_token(position: int) -> int:
    """A token that ends nothing."""
    return 30 + position % 60


@dataclass(slots=True)
class Row:
    """What the device keeps of a slot."""

    admission: Admission
    generation: Generation
    history: list[int] = field(default_factory=list)
    pages: dict[int, PageId] = field(default_factory=dict)
    pending: int | None = None
    emitted: int = 0
    finish: int = 0


@dataclass(slots=True)
class HonestDevice:
    """Plays submissions in order."""

    token: Callable[[int], int] = plain_token
    rows: dict[Slot, Row] = field(default_factory=dict)

    def play(self, submission: Submission, operation: Operation) -> Completion:
        """What the device says of a submission."""
        records = tuple(self.lane(work, operation) for work in submission.lanes)
        return Completion(
            sequence=submission.sequence,
            frame=submission.frame,
            program=submission.program,
            status=0,
            rows=len(records),
            lanes=records,
        )

    def lane(self, work: LaneWork, operation: Operation) -> LaneRecord:
        """Feed a lane, and sample if it is told to."""
        if operation is Operation.INITIALIZE:
            assert work.admission is not None, "a slot that changes hands is told of it"
            self.rows[work.slot] = Row(work.admission, work.generation)
        row = self.rows[work.slot]
        self.feed(row, work, operation)
        tokens: tuple[int, ...] = ()
        if work.samples and not row.finish:
            tokens = (self.token(len(row.history)),)
            row.pending = tokens[0]
            row.emitted += 1
            row.finish = self.finish_of(row)
        return LaneRecord(
            slot=work.slot,
            generation=row.generation,
            consumed=len(row.history),
            emitted=len(tokens),
            tokens=tokens,
            offered=0,
            accepted=0,
            cursor=-1,
            reserved=-1,
            finish=row.finish,
        )

    def feed(self, row: Row, work: LaneWork, operation: Operation) -> None:
        """Consume prompt tokens, or the pending one."""
        assert row.generation == work.generation, "another request's slot"
        assert work.start == len(row.history), "positions follow one another"
        if operation is Operation.DECODE:
            assert row.pending is not None, "nothing to consume"
            row.history.append(row.pending)
        else:
            row.history.extend(work.tokens)
        assert work.endpoint == len(row.history)
        for entry in work.new_pages:
            assert entry.index not in row.pages, "an entry that the device knows"
            row.pages[entry.index] = entry.page
        pages = pages_for(work.endpoint, page_tokens=PAGE_TOKENS)
        assert set(range(pages)) <= set(row.pages), "a position without a page"

    def finish_of(self, row: Row) -> int:
        """Why the row ends with its pending token, if it does."""
        bits = FinishBits(0)
        if row.pending in row.admission.eos_ids:
            bits |= FinishBits.END_OF_SEQUENCE
        if row.emitted >= row.admission.output_limit:
            bits |= FinishBits.OUTPUT_LIMIT
        return int(bits)


def unchanged(completion: Completion) -> Completion:
    """An honest record."""
    return completion


class World:
    """Queue, roster and device, a step at a time."""

    def __init__(
        self,
        *,
        slots: int = 4,
        pages: int = 32,
        token: Callable[[int], int] = plain_token,
        programs: Sequence[ProgramView] = PROGRAMS,
    ) -> None:
        self.roster = Roster(
            slots=slots, vocabulary=VOCABULARY, page_tokens=PAGE_TOKENS, pool=PagePool(pages)
        )
        self.queue = Queue()
        self.device = HonestDevice(token)
        self.programs = programs
        self.in_flight: deque[tuple[Submission, Completion]] = deque()
        self.results: list[Result] = []
        self.preempted: list[Waiting] = []
        self.last: Operation | None = None

    def start(self, *entries: Waiting) -> None:
        """Requests arrive; those that can become lanes do."""
        for entry in entries:
            self.queue.add(entry)
        self.admit()

    def admit(self) -> None:
        """Give free slots to the oldest requests that the cache can hold."""
        while (entry := self.queue.first()) is not None and self.roster.view().free_slots:
            lanes = len(self.roster.view().lanes)
            if admit(entry, self.roster.cache_view(), reserved_pages=lanes) != Admitted():
                return
            self.roster.admit(self.queue.take_first())

    def submit(self) -> Submission | None:
        """Submit the next round, if there is one and a frame for it."""
        if len(self.in_flight) == FRAMES:
            return None
        plan = self.plan()
        if plan is None:
            return None
        busy = {submission.frame for submission, _ in self.in_flight}
        frame = min(set(range(FRAMES)) - busy)
        submission = self.roster.commit(plan, frame)
        self.last = plan.program.operation
        self.in_flight.append((submission, self.device.play(submission, self.last)))
        return submission

    def plan(self) -> Plan | None:
        """The next round; lanes give way until there is one."""
        while True:
            plan = plan_round(
                self.roster.view(), self.roster.cache_view(), self.programs, last=self.last
            )
            if not isinstance(plan, Preempt):
                return plan
            self.preempt(plan.slot)

    def preempt(self, slot: Slot) -> Waiting:
        """A lane gives way and waits again."""
        entry = self.roster.preempt(slot)
        self.preempted.append(entry)
        self.queue.add(entry)
        return entry

    def settle(self, change: Change = unchanged) -> list[Result]:
        """The oldest submission passes its fence; its record may be changed on the way."""
        _, completion = self.in_flight.popleft()
        news = list(self.roster.settle(change(completion)))
        self.results += news
        return news

    def round(self) -> list[Result]:
        """One submission, settled at once."""
        assert self.submit() is not None
        return self.settle()

    def cancel(self, number: int) -> Result | None:
        """A client leaves."""
        result = self.roster.cancel(RequestId(number))
        if result is not None:
            self.results.append(result)
        return result

    def run(self) -> None:
        """Go on until nothing is left to do."""
        while self.queue.first() is not None or self.roster.view().lanes:
            self.admit()
            while self.submit() is not None:
                pass
            assert self.in_flight, "everything stands still"
            self.settle()
            self.roster.audit()

    # ------------------------------------------------------------ looking

    def lane(self, number: int) -> LaneView:
        """The lane of a request."""
        return next(
            view for view in self.roster.view().lanes if self.roster.request_in(view.slot) == number
        )

    def tokens(self, number: int) -> tuple[int, ...]:
        """Everything that a request was told."""
        return tuple(
            token for result in self.results if result.request == number for token in result.tokens
        )

    def endings(self, number: int) -> list[Result]:
        """Every ending that a request was told."""
        return [
            result
            for result in self.results
            if result.request == number and result.finish is not None
        ]

    @property
    def free_pages(self) -> int:
        """Pages that no lane holds."""
        return self.roster.cache_view().free_pages
