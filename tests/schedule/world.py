"""A roster with a queue above it and, below it, a device that does exactly what it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from helios.cache.host import Direction, Transfer
from helios.cache.pages import PagePool
from helios.cache.prefix import PrefixTree
from helios.cache.rows import row_pool
from helios.rounds import Completion, ProgramView, Submission
from helios.schedule.gates import Admitted, Gate
from helios.schedule.lanes import LaneView, Plan, Preempt, Result, Reuse
from helios.schedule.plan import by_operation, plan_round
from helios.schedule.queue import Queue, Waiting
from helios.schedule.roster import Hear, Masks, Roster, keep_all
from helios.values import RequestId, Slot
from prepared.contract import Operation
from tests.schedule.device import (
    PAGE_TOKENS,
    Change,
    HonestDevice,
    failed,
    plain_token,
    unchanged,
)
from tests.schedule.made import PROGRAMS, VOCABULARY

__all__ = ["FRAMES", "PAGE_TOKENS", "Change", "World", "failed", "plain_token"]

FRAMES: Final = 2
GAP_TOKENS: Final = 64


class World:
    """Queue, roster and device, a step at a time."""

    def __init__(
        self,
        *,
        slots: int = 4,
        pages: int = 32,
        rows: int = 4,
        host_slots: int = 0,
        token: Callable[[int], int] = plain_token,
        programs: Sequence[ProgramView] = PROGRAMS,
        group: int = 1,
        terse: bool = False,
    ) -> None:
        self.pages, self.rows = PagePool(pages), row_pool(rows)
        cache = PrefixTree(self.pages, self.rows, page_tokens=PAGE_TOKENS, host_slots=host_slots)
        self.programs = by_operation(programs)
        self.roster = Roster(
            slots=slots,
            vocabulary=VOCABULARY,
            cache=cache,
            operations=frozenset(self.programs),
        )
        self.queue = Queue()
        self.device = HonestDevice(
            lambda slot: self.asked[self.roster.request_in(slot)],
            self.pages.holders,
            token,
            group,
            terse,
        )
        self.asked: dict[RequestId, Waiting] = {}
        self.in_flight: deque[tuple[Submission, Completion]] = deque()
        self.operations: list[Operation] = []
        self.results: list[Result] = []
        self.preempted: list[Waiting] = []
        self.reused: dict[int, list[Reuse]] = {}
        self.copies: Callable[[Transfer], bool] = lambda _transfer: True

    # ------------------------------------------------------------- coming

    def start(self, *entries: Waiting) -> None:
        """Requests arrive; those that can become lanes do."""
        for entry in entries:
            self.asked[entry.request.id] = entry
            self.queue.add(entry)
        self.admit()

    def admit(self) -> Gate | None:
        """Give free slots to the oldest requests that the cache can hold."""
        while (entry := self.queue.first()) is not None and self.roster.free_slots:
            gate = self.roster.admit(entry)
            if not isinstance(gate, Admitted):
                return gate
            self.queue.take_first()
            self.reused.setdefault(entry.request.id, []).append(gate.reuse)
            if not self.copy(gate.reuse.loads):
                result = self.roster.fail(entry.request.id, "a page could not be brought back")
                assert result is not None
                self.results.append(result)
        return None

    def copy(self, transfers: Iterable[Transfer]) -> bool:
        """Copy pages to the host and back; whether all went well."""
        every = True
        for transfer in transfers:
            well = self.copies(transfer)
            if well:
                out = transfer.direction is Direction.TO_HOST
                move = self.device.save if out else self.device.load
                move(transfer.page, transfer.slot)
            self.roster.copied(transfer, well=well)
            every &= well
        return every

    # ------------------------------------------------------------- rounds

    @property
    def last(self) -> Operation | None:
        """The latest operation."""
        return self.operations[-1] if self.operations else None

    def submit(self, masks: Masks | None = None) -> Submission | None:
        """Submit the next round, if there is one and a frame for it."""
        if len(self.in_flight) == FRAMES:
            return None
        plan = self.plan()
        if plan is None:
            return None
        busy = {submission.frame for submission, _ in self.in_flight}
        frame = min(set(range(FRAMES)) - busy)
        self.copy(self.roster.spill(self.roster.pages_wanted(plan)))
        submission = self.roster.commit(plan, frame, masks or {})
        self.operations.append(plan.program.operation)
        self.in_flight.append((submission, self.device.play(submission, self.operations[-1])))
        return submission

    def plan(self) -> Plan | None:
        """The next round; lanes give way until there is one."""
        while True:
            plan = plan_round(
                self.roster.view(),
                self.roster.cache_view(),
                self.programs,
                last=self.last,
                gap_tokens=GAP_TOKENS,
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

    def settle(self, change: Change = unchanged, hear: Hear = keep_all) -> list[Result]:
        """The oldest submission passes its fence; its record may be changed on the way."""
        _, completion = self.in_flight.popleft()
        news = list(self.roster.settle(change(completion), hear))
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
            if self.in_flight:
                self.settle()
            else:
                assert not len(self.queue), "everything stands still"
                assert not self.roster.view().lanes, "everything stands still"
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

    def reuse(self, number: int) -> Reuse:
        """What a request found when it came last."""
        return self.reused[number][-1]

    @property
    def free_pages(self) -> int:
        """Pages that no lane holds."""
        return self.roster.cache_view().free_pages
