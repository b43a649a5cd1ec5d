"""The roster: every lane, its slot, its pages and its endpoints; their only writer.

A lane is a request that holds a slot.  `admit` finds what is computed already, `commit` turns a
plan into a submission and moves submitted endpoints, `settle` judges a completion, moves settled
ones, and publishes what a request leaves behind.

Always: a slot is free or has one lane; a slot's generation grows with each lane; a lane keeps its
pages, its slot and what it restores from until its last fence (`audit`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from helios.cache.host import Direction, Transfer
from helios.cache.matches import FromPage, FromRow, Match
from helios.cache.pages import pages_for
from helios.cache.prefix import PrefixTree
from helios.rounds import (
    Completion,
    Finish,
    LaneRecord,
    LaneWork,
    ProgramView,
    Score,
    Submission,
    usual_record,
)
from helios.schedule.gates import Admitted, CacheView, Gate, MustWait, never, short_pages
from helios.schedule.lane import Lane
from helios.schedule.lanes import Phase, Plan, Result, Reuse, RosterView, Settled, Share, Verdict
from helios.schedule.queue import Waiting
from helios.schedule.settle import Expected, lane_problem, record_problem
from helios.schedule.work import WITHOUT_PAGES, WORK
from helios.values import Generation, RequestId, Slot, SnapshotRow
from helios.values import Sequence as SubmissionNumber
from prepared.contract import Operation
from prepared.manifest import FinishBits

Masks = Mapping[RequestId, bytes]
NO_MASKS: Final[Masks] = {}

Hear = Callable[[RequestId, tuple[int, ...]], Verdict]
NOTHING: Final = Verdict(kept=0)
ONE: Final = Verdict(kept=1)


def keep_all(_request: RequestId, tokens: tuple[int, ...]) -> Verdict:
    """A host that has nothing to say."""
    return ONE if len(tokens) == 1 else Verdict(kept=len(tokens))


def ending_of(record: LaneRecord) -> Finish:
    """Why the device ended a lane."""
    if record.finish & FinishBits.END_OF_SEQUENCE:
        return Finish.END_OF_SEQUENCE
    return Finish.OUTPUT_LIMIT


def scores_of(record: LaneRecord, *, kept: int) -> tuple[Score, ...]:
    """Log-probabilities of the tokens that count."""
    if record.logprob is None or not kept:
        return ()
    return (Score(logprob=record.logprob, top=record.top),)


@dataclass(slots=True)
class Roster:
    """All lanes of a model."""

    slots: int
    vocabulary: int
    cache: PrefixTree
    operations: frozenset[Operation]
    _lanes: dict[Slot, Lane] = field(default_factory=dict)
    _by_request: dict[RequestId, Lane] = field(default_factory=dict)
    _free: list[Slot] = field(init=False)
    _generations: list[int] = field(init=False)
    _outstanding: deque[tuple[Submission, ProgramView]] = field(default_factory=deque)
    _sequence: int = 0

    def __post_init__(self) -> None:
        """Every slot is free."""
        self._free = [Slot(slot) for slot in range(self.slots)]
        self._generations = [0] * self.slots

    @property
    def page_tokens(self) -> int:
        """Tokens of a page."""
        return self.cache.page_tokens

    # ------------------------------------------------------------ views

    def view(self) -> RosterView:
        """Every lane, and the count of free slots."""
        return RosterView(
            lanes=tuple(self._lanes.values()),
            free_slots=len(self._free),
        )

    def cache_view(self) -> CacheView:
        """Pages as gates and plans see them."""
        pages = self.cache.pages
        return CacheView(
            page_tokens=self.page_tokens,
            total_pages=pages.total,
            free_pages=pages.free + self.cache.reclaimable,
        )

    @property
    def free_slots(self) -> int:
        """Slots without a lane."""
        return len(self._free)

    def request_in(self, slot: Slot) -> RequestId:
        """Whose a slot is; the slot has a lane."""
        return self._lanes[slot].request.id

    @property
    def outstanding(self) -> int:
        """Submissions whose completion has not been settled."""
        return len(self._outstanding)

    # ---------------------------------------------------- lanes come, go

    def admit(self, waiting: Waiting) -> Gate:
        """Give a request a slot if it may have one now; the caller has seen that one is free."""
        refused = never(waiting, self.cache_view(), self.operations)
        if refused is not None:
            return refused
        # The last token is always fed: its row is what samples.  Scores need every row.
        most = 0 if waiting.request.score_prompt else waiting.tokens - 1
        gate, whole = self._attempt(waiting, most=most)
        if isinstance(gate, MustWait) and whole < most:
            # What it would copy from may be the very page that it lacks.
            gate, _ = self._attempt(waiting, most=whole)
        return gate

    def _attempt(self, waiting: Waiting, *, most: int) -> tuple[Gate, int]:
        """Give a request a slot with at most so much reuse; and how much needs no restoring."""
        with self.cache.hold_match(waiting.content, waiting.key, most=most) as hold:
            match = hold.match
            short = short_pages(
                waiting,
                self.cache_view(),
                shared_pages=len(match.pages),
                promised_pages=self._promised(),
            )
            restores = match.source is not None
            unusable = restores and Operation.RESTORE not in self.operations
            gate: Gate = MustWait(short)
            if short or unusable:
                for transfer in match.loads:
                    self.cache.host.failed(transfer.ticket)  # never begun
            else:
                gate = Admitted(self._enter(waiting, hold.keep()))
        return gate, len(match.pages) * self.page_tokens if restores else most

    def _promised(self) -> int:
        """Pages that lanes will take soon: for what they feed, and at least one each."""
        size = self.page_tokens
        return sum(
            max(1, pages_for(len(lane.tokens) + 1, page_tokens=size) - len(lane.pages))
            for lane in self._lanes.values()
            if lane.live
        )

    def _enter(self, waiting: Waiting, match: Match) -> Reuse:
        slot = self._free.pop(0)
        self._generations[slot] += 1
        lane = Lane(
            waiting=waiting,
            slot=slot,
            generation=Generation(self._generations[slot]),
            match=match,
            tokens=[*waiting.request.prompt, *waiting.emitted],
            pages=list(match.pages),
        )
        self._lanes[slot] = lane
        self._by_request[waiting.request.id] = lane
        return Reuse(
            tokens=match.tokens,
            stop=match.stop,
            again=waiting.preempted,
            loads=match.loads,
        )

    def cancel(self, request: RequestId) -> Result | None:
        """End a request's lane; its slot and pages stay until its fences have passed (AH-17)."""
        lane = self._by_request.get(request)
        if lane is None or not lane.live:
            return None
        return self._end(lane, Finish.CANCELLED)

    def fail(self, request: RequestId, problem: str) -> Result | None:
        """The host cannot go on with a request."""
        lane = self._by_request.get(request)
        if lane is None or not lane.live:
            return None
        return self._end(lane, Finish.FAILED, problem=problem)

    def preempt(self, slot: Slot) -> Waiting:
        """Take a lane's slot and pages; the request waits again with what it has emitted."""
        lane = self._lanes[slot]
        assert not lane.in_flight, "a lane in flight keeps its pages"
        self._publish_pages(lane)
        emitted = tuple(lane.tokens[len(lane.request.prompt) :])
        lane.move(Phase.DRAINING)
        self._release(lane)
        scored = max(lane.waiting.scored, lane.settled)
        return replace(lane.waiting, emitted=emitted, preempted=True, scored=scored)

    def _end(
        self, lane: Lane, finish: Finish, tokens: tuple[int, ...] = (), problem: str | None = None
    ) -> Result:
        """The request is over; the lane drains."""
        lane.move(Phase.DRAINING)
        self._let_go(lane)
        return Result(request=lane.request.id, tokens=tokens, finish=finish, problem=problem)

    def _let_go(self, lane: Lane) -> None:
        """Publish and release a lane whose last fence has passed."""
        if lane.in_flight:
            return
        if lane.phase is Phase.DRAINING and lane.publishes and self._prepare_snapshot(lane):
            lane.move(Phase.PUBLISHING)
        else:
            self._release(lane)

    def _release(self, lane: Lane) -> None:
        """Slot, pages and what it restored from go back."""
        lane.move(Phase.DONE)
        self._release_source(lane)
        self.cache.pages.give_back(lane.pages)
        lane.pages = []
        del self._lanes[lane.slot]
        del self._by_request[lane.request.id]
        self._free.append(lane.slot)

    def _release_source(self, lane: Lane) -> None:
        if lane.restores:
            lane.restores = False
            self.cache.release_source(lane.match)

    # --------------------------------------------------------- publishing

    def _publish_pages(self, lane: Lane) -> None:
        """Full pages of what is settled can be found from now on (AH-15)."""
        full = lane.settled - lane.settled % self.page_tokens
        if full > lane.match.tokens:
            found = self.cache.prepare(lane.content(full), lane.key, tuple(lane.pages))
            if found is not None:
                self.cache.complete(found)

    def _prepare_snapshot(self, lane: Lane) -> bool:
        """Publish an ended lane's history; whether its partial page must be copied first."""
        if Operation.PUBLISH_SNAPSHOT not in self.operations:
            self._publish_pages(lane)
            return False
        content = lane.content(lane.settled)
        found = self.cache.prepare(content, lane.key, tuple(lane.pages))
        if found is None:
            return False
        if found.row is None:
            self.cache.complete(found)
            return False
        lane.publication = found
        return True

    def copied(self, transfer: Transfer, *, well: bool) -> None:
        """A copy between device and host has ended."""
        host = self.cache.host
        if not well:
            host.failed(transfer.ticket)
        elif transfer.direction is Direction.TO_HOST:
            host.saved(transfer.ticket)
        else:
            host.loaded(transfer.ticket)

    def spill(self, pages: int) -> Sequence[Transfer]:
        """Copies to the host that let so many pages become free without losing them."""
        return self.cache.host.offload(pages - self.cache.pages.free)

    # ------------------------------------------------------- submissions

    def pages_wanted(self, plan: Plan) -> int:
        """Free pages that a plan needs."""
        return sum(self._wanted(self._lanes[share.slot], share) for share in plan.shares)

    def _wanted(self, lane: Lane, share: Share) -> int:
        room = len(lane.pages) * self.cache.page_tokens
        short = lane.submitted + share.tokens - room
        return pages_for(short, page_tokens=self.cache.page_tokens) if short > 0 else 0

    def commit(self, plan: Plan, frame: int, masks: Masks = NO_MASKS) -> Submission:
        """Turn a plan into a submission: take pages, move submitted endpoints."""
        operation = plan.program.operation
        wanted = [self._wanted(self._lanes[share.slot], share) for share in plan.shares]
        self.cache.reclaim(sum(wanted) - self.cache.pages.free)
        make, takes = WORK[operation], operation not in WITHOUT_PAGES
        lanes = []
        for share, count in zip(plan.shares, wanted, strict=True):
            lane = self._lanes[share.slot]
            fresh = self.cache.pages.take(count) if count and takes else ()
            work = make(lane, share, fresh)
            mask = masks.get(lane.request.id) if masks and share.samples else None
            lanes.append(work if mask is None else replace(work, mask=mask))
        self._sequence += 1
        submission = Submission(
            sequence=SubmissionNumber(self._sequence),
            frame=frame,
            program=plan.program.id,
            lanes=tuple(lanes),
            mixed_row=plan.mixed_row,
        )
        self._outstanding.append((submission, plan.program))
        return submission

    # ------------------------------------------------------- completions

    def settle(self, completion: Completion, hear: Hear = keep_all) -> Settled:
        """Judge a whole completion, then move settled endpoints and say what is new (AH-13).

        `hear` says what the host makes of a request's tokens: some may end it (SS-09).
        """
        submission, program = self._outstanding.popleft()
        problem = record_problem(submission, completion, packed_tokens=program.packed_tokens)
        lanes = [self._lanes[work.slot] for work in submission.lanes]
        judged: list[int | LaneRecord | str] = [problem or ""] * len(lanes)
        if problem is None:
            most = self.vocabulary
            judged = [
                said
                if isinstance(said, int) and lane.may_take(said, most)
                else self._judge(lane, work, said)
                for lane, work, said in zip(lanes, submission.lanes, completion.lanes, strict=True)
            ]
        requests, tokens, results = list[RequestId](), list[int](), list[Result]()
        for lane, work, found in zip(lanes, submission.lanes, judged, strict=True):
            if isinstance(found, int):
                lane.take(found, work.endpoint)
                requests.append(lane.request.id)
                tokens.append(found)
            else:
                results += self._settle_lane(lane, work, found, program.operation, hear)
        return Settled(tuple(requests), tuple(tokens), tuple(results))

    def _judge(self, lane: Lane, work: LaneWork, said: LaneRecord | int) -> LaneRecord | str:
        """A lane's record, or what is wrong with it."""
        record = usual_record(work, said) if isinstance(said, int) else said
        return lane_problem(work, record, self._expected(lane)) or record

    def _settle_lane(
        self,
        lane: Lane,
        work: LaneWork,
        found: LaneRecord | str,
        operation: Operation,
        hear: Hear,
    ) -> Sequence[Result]:
        """One lane's submission has passed its fence."""
        lane.in_flight -= 1
        well = isinstance(found, LaneRecord)
        lane.publishes &= well
        self._pass_fence(lane, operation, well=well)
        results = tuple(self._news(lane, work, found, hear))
        if lane.phase is Phase.DRAINING:
            self._let_go(lane)
        return results

    def _pass_fence(self, lane: Lane, operation: Operation, *, well: bool) -> None:
        """What was kept only for this submission goes."""
        if operation is Operation.RESTORE:
            self._release_source(lane)
        if operation is Operation.PUBLISH_SNAPSHOT:
            assert lane.publication is not None
            finish = self.cache.complete if well else self.cache.abandon  # (AH-18)
            finish(lane.publication)
            self._release(lane)

    def _news(
        self, lane: Lane, work: LaneWork, found: LaneRecord | str, hear: Hear
    ) -> Iterable[Result]:
        """One lane's news; a lane that is over has none."""
        if not lane.live:
            return
        request = lane.request.id
        if isinstance(found, str):
            lane.move(Phase.DRAINING)
            yield Result(request=request, tokens=(), finish=Finish.FAILED, problem=found)
            return
        record = found
        lane.settle(record)
        self._advance(lane, work)
        verdict = hear(request, record.tokens) if record.tokens else NOTHING
        finish = verdict.finish
        if finish is not None or record.finish:
            lane.over = bool(record.finish)
            # What a stop or a failure ends is published by nobody (SS-12, AH-18).
            lane.publishes = finish is None
            finish = finish or ending_of(record)
            lane.move(Phase.DRAINING)
        elif not record.tokens and not record.scores:
            return
        yield Result(
            request=request,
            tokens=record.tokens[: verdict.kept],
            finish=finish,
            problem=verdict.problem,
            cut=verdict.cut,
            at_ns=verdict.at_ns,
            scores=scores_of(record, kept=verdict.kept),
            prompt_scores=record.scores[max(0, lane.waiting.scored - work.start) :],
        )

    def _advance(self, lane: Lane, work: LaneWork) -> None:
        """The phase that follows."""
        if lane.phase is Phase.ADMITTED:
            resumes = lane.resumes and Operation.RESUME in self.operations
            lane.move(Phase.RESUMING if resumes else Phase.PREFILL)
        elif lane.phase is Phase.RESUMING:
            lane.move(Phase.DECODE)
        elif lane.phase is Phase.PREFILL and work.samples:
            self._publish_pages(lane)
            lane.move(Phase.DECODE)

    def _expected(self, lane: Lane) -> Expected:
        return Expected(
            over=lane.over,
            emitted=lane.emitted,
            output_limit=lane.output_limit,
            eos_ids=lane.request.eos_ids,
            vocabulary=self.vocabulary,
        )

    def audit(self) -> None:
        """Prove that slots, pages and rows are accounted for."""
        lanes = self._lanes.values()
        assert len(self._free) + len(self._lanes) == self.slots, "a slot is lost"
        assert set(self._free).isdisjoint(self._lanes), "a slot is free and held"
        private = [page for lane in lanes for page in lane.pages[len(lane.match.pages) :]]
        assert len(private) == len(set(private)), "a writable page has two holders"
        pages = [page for lane in lanes for page in lane.pages]
        rows: list[SnapshotRow] = []
        for lane in lanes:
            source = lane.match.source if lane.restores else None
            if isinstance(source, FromPage):
                pages.append(source.page)
            elif isinstance(source, FromRow):
                rows.append(source.row)
        self.cache.audit(pages, rows)
