"""The roster: every lane, its slot, its pages and its endpoints; their only writer.

A lane is a request that holds a slot.  `commit` turns a plan into a submission and moves
submitted endpoints; `settle` judges a completion and moves settled ones.

Always: a slot is free or has one lane; a slot's generation grows with each lane; a lane keeps
its pages and its slot until its last fence (`audit`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from helios.cache.pages import PagePool, pages_for
from helios.rounds import (
    Admission,
    Completion,
    Finish,
    LaneRecord,
    LaneWork,
    NewPage,
    Submission,
)
from helios.schedule.gates import CacheView
from helios.schedule.lanes import (
    MOVES,
    LaneView,
    Phase,
    Plan,
    Result,
    RosterView,
    Share,
)
from helios.schedule.queue import Waiting
from helios.schedule.settle import Expected, lane_problem, record_problem
from helios.values import Generation, PageId, RequestId, Slot
from helios.values import Sequence as SubmissionNumber
from prepared.contract import Operation
from prepared.manifest import FinishBits


@dataclass(slots=True)
class Lane:
    """One request in its slot."""

    waiting: Waiting
    slot: Slot
    generation: Generation
    tokens: list[int]  # prompt, then output
    phase: Phase = Phase.ADMITTED
    submitted: int = 0
    settled: int = 0
    sampled: int = 0  # tokens whose sampling was submitted, in this slot
    emitted: int = 0  # tokens settled, in this slot
    over: bool = False  # the device has ended it
    in_flight: int = 0
    pages: list[PageId] = field(default_factory=list)

    def move(self, phase: Phase) -> None:
        """Enter a phase; only as `MOVES` allows."""
        assert phase in MOVES[self.phase], f"{self.phase} to {phase}"
        self.phase = phase

    @property
    def output_limit(self) -> int:
        """Tokens it may emit in this slot."""
        return self.waiting.request.output_limit - len(self.waiting.emitted)

    def view(self) -> LaneView:
        """The lane as planning sees it."""
        return LaneView(
            slot=self.slot,
            phase=self.phase,
            arrival=self.waiting.arrival,
            tokens=len(self.tokens),
            submitted=self.submitted,
            pages=len(self.pages),
            in_flight=self.in_flight,
            output_left=0 if self.over else self.output_limit - self.sampled,
        )


@dataclass(slots=True)
class Roster:
    """All lanes of a model."""

    slots: int
    vocabulary: int
    page_tokens: int
    pool: PagePool
    _lanes: dict[Slot, Lane] = field(default_factory=dict)
    _by_request: dict[RequestId, Lane] = field(default_factory=dict)
    _free: list[Slot] = field(init=False)
    _generations: list[int] = field(init=False)
    _outstanding: deque[tuple[Submission, Operation]] = field(default_factory=deque)
    _sequence: int = 0

    def __post_init__(self) -> None:
        """Every slot is free."""
        self._free = [Slot(slot) for slot in range(self.slots)]
        self._generations = [0] * self.slots

    # ------------------------------------------------------------ views

    def view(self) -> RosterView:
        """Every lane, and the count of free slots."""
        return RosterView(
            lanes=tuple(lane.view() for lane in self._lanes.values()),
            free_slots=len(self._free),
        )

    def cache_view(self) -> CacheView:
        """Pages as gates and plans see them."""
        return CacheView(
            page_tokens=self.page_tokens,
            total_pages=self.pool.total,
            free_pages=self.pool.free,
        )

    def request_in(self, slot: Slot) -> RequestId:
        """Whose a slot is; the slot has a lane."""
        return self._lanes[slot].waiting.request.id

    @property
    def outstanding(self) -> int:
        """Submissions whose completion has not been settled."""
        return len(self._outstanding)

    # ---------------------------------------------------- lanes come, go

    def admit(self, waiting: Waiting) -> None:
        """Give a request a slot; the caller has seen that one is free."""
        slot = self._free.pop(0)
        self._generations[slot] += 1
        lane = Lane(
            waiting=waiting,
            slot=slot,
            generation=Generation(self._generations[slot]),
            tokens=[*waiting.request.prompt, *waiting.emitted],
        )
        self._lanes[slot] = lane
        self._by_request[waiting.request.id] = lane

    def cancel(self, request: RequestId) -> Result | None:
        """End a request's lane; its slot and pages stay until its fences have passed (AH-17)."""
        lane = self._by_request.get(request)
        if lane is None or lane.phase is Phase.DRAINING:
            return None
        return self._end(lane, Finish.CANCELLED)

    def preempt(self, slot: Slot) -> Waiting:
        """Take a lane's slot and pages; the request waits again with what it has emitted."""
        lane = self._lanes[slot]
        assert not lane.in_flight, "a lane in flight keeps its pages"
        emitted = tuple(lane.tokens[len(lane.waiting.request.prompt) :])
        lane.move(Phase.DRAINING)
        self._release(lane)
        return Waiting(arrival=lane.waiting.arrival, request=lane.waiting.request, emitted=emitted)

    def _end(
        self, lane: Lane, finish: Finish, tokens: tuple[int, ...] = (), problem: str | None = None
    ) -> Result:
        """The request is over; the lane drains."""
        lane.move(Phase.DRAINING)
        if not lane.in_flight:
            self._release(lane)
        return Result(
            request=lane.waiting.request.id, tokens=tokens, finish=finish, problem=problem
        )

    def _release(self, lane: Lane) -> None:
        """Slot and pages go back."""
        lane.move(Phase.DONE)
        self.pool.give_back(lane.pages)
        lane.pages = []
        del self._lanes[lane.slot]
        del self._by_request[lane.waiting.request.id]
        self._free.append(lane.slot)

    # ------------------------------------------------------- submissions

    def commit(self, plan: Plan, frame: int) -> Submission:
        """Turn a plan into a submission: take pages, move submitted endpoints."""
        work = COMMIT[plan.program.operation]
        lanes = tuple(work(self, self._lanes[share.slot], share) for share in plan.shares)
        self._sequence += 1
        submission = Submission(
            sequence=SubmissionNumber(self._sequence),
            frame=frame,
            program=plan.program.id,
            lanes=lanes,
        )
        self._outstanding.append((submission, plan.program.operation))
        return submission

    def admit_work(self, lane: Lane, share: Share) -> LaneWork:
        """A slot changes hands."""
        request = lane.waiting.request
        admission = Admission(
            sampling=request.sampling,
            output_limit=lane.output_limit,
            minimum_output=max(0, request.minimum_output - len(lane.waiting.emitted)),
            eos_ids=request.eos_ids,
            seen=tuple(lane.tokens) if request.sampling.penalises else (),
        )
        return self._work(lane, share, tokens=(), admission=admission)

    def prefill_work(self, lane: Lane, share: Share) -> LaneWork:
        """A chunk of a prompt."""
        fed = tuple(lane.tokens[lane.submitted : lane.submitted + share.tokens])
        return self._work(lane, share, tokens=fed, admission=None)

    def decode_work(self, lane: Lane, share: Share) -> LaneWork:
        """A pending token that the device holds."""
        return self._work(lane, share, tokens=(), admission=None)

    def _work(
        self, lane: Lane, share: Share, *, tokens: tuple[int, ...], admission: Admission | None
    ) -> LaneWork:
        start, endpoint = lane.submitted, lane.submitted + share.tokens
        held = len(lane.pages)
        wanted = max(0, pages_for(endpoint, page_tokens=self.page_tokens) - held)
        fresh = self.pool.take(wanted)
        lane.pages.extend(fresh)
        lane.submitted = endpoint
        lane.sampled += share.samples
        lane.in_flight += 1
        return LaneWork(
            slot=lane.slot,
            generation=lane.generation,
            tokens=tokens,
            start=start,
            endpoint=endpoint,
            samples=share.samples,
            new_pages=tuple(
                NewPage(index=held + index, page=page) for index, page in enumerate(fresh)
            ),
            admission=admission,
        )

    # ------------------------------------------------------- completions

    def settle(self, completion: Completion) -> Sequence[Result]:
        """Judge a completion, move settled endpoints, say what is new for each request."""
        submission, operation = self._outstanding.popleft()
        problem = record_problem(submission, completion)
        records: Sequence[LaneRecord | None] = (
            completion.lanes if problem is None else [None] * len(submission.lanes)
        )
        results = []
        for work, record in zip(submission.lanes, records, strict=True):
            lane = self._lanes[work.slot]
            lane.in_flight -= 1
            result = self._settle_lane(lane, work, record, operation, problem=problem)
            if result is not None:
                results.append(result)
            if lane.phase is Phase.DRAINING and not lane.in_flight:
                self._release(lane)
        return results

    def _settle_lane(
        self,
        lane: Lane,
        work: LaneWork,
        record: LaneRecord | None,
        operation: Operation,
        *,
        problem: str | None,
    ) -> Result | None:
        """One lane's news; a lane that is over has none."""
        if lane.phase is Phase.DRAINING:
            return None
        if record is not None:
            problem = lane_problem(work, record, self._expected(lane))
        if problem is not None or record is None:
            return self._fail(lane, problem)
        lane.settled = work.endpoint
        lane.tokens.extend(record.tokens)
        lane.emitted += len(record.tokens)
        if operation is Operation.INITIALIZE:
            lane.move(Phase.PREFILL)
        elif lane.phase is Phase.PREFILL and work.samples:
            lane.move(Phase.DECODE)
        if record.finish:
            lane.over = True
            finish = (
                Finish.END_OF_SEQUENCE
                if record.finish & FinishBits.END_OF_SEQUENCE
                else Finish.OUTPUT_LIMIT
            )
            lane.move(Phase.DRAINING)
            return Result(request=lane.waiting.request.id, tokens=record.tokens, finish=finish)
        if not record.tokens:
            return None
        return Result(request=lane.waiting.request.id, tokens=record.tokens, finish=None)

    def _fail(self, lane: Lane, problem: str | None) -> Result:
        lane.move(Phase.DRAINING)
        return Result(
            request=lane.waiting.request.id, tokens=(), finish=Finish.FAILED, problem=problem
        )

    def _expected(self, lane: Lane) -> Expected:
        return Expected(
            over=lane.over,
            emitted=lane.emitted,
            output_limit=lane.output_limit,
            eos_ids=lane.waiting.request.eos_ids,
            vocabulary=self.vocabulary,
        )

    def audit(self) -> None:
        """Prove that slots and pages are accounted for."""
        self.pool.audit()
        assert len(self._free) + len(self._lanes) == self.slots, "a slot is lost"
        assert set(self._free).isdisjoint(self._lanes), "a slot is free and held"
        held = [page for lane in self._lanes.values() for page in lane.pages]
        assert len(held) == len(set(held)), "a writable page has two holders"


COMMIT: dict[Operation, Callable[[Roster, Lane, Share], LaneWork]] = {
    Operation.INITIALIZE: Roster.admit_work,
    Operation.PREFILL: Roster.prefill_work,
    Operation.DECODE: Roster.decode_work,
}
