"""Any order of arrivals, rounds, fences, departures and bad records keeps the roster's promises."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from helios.rounds import Completion, Finish, ProgramView, Submission
from helios.schedule.lanes import LIVE, MOVES, Phase, Result
from helios.values import PageId, Slot
from tests.schedule.made import EOS, EVERY_PROGRAM, MIXED, SLOT_PROGRAMS, VOCABULARY, waiting
from tests.schedule.world import FRAMES, PAGE_TOKENS, World, plain_token

PAGES, SLOTS = 6, 3
OPTIONAL = (*SLOT_PROGRAMS, MIXED)
MOST_TOKENS = PAGES * PAGE_TOKENS


def ending_token(position: int) -> int:
    """Ends a request now and then."""
    return EOS if position % 13 == 12 else plain_token(position)


def expected_tokens(prompt: int, limit: int) -> tuple[int, ...]:
    """What a request is told when nothing befalls it."""
    found: list[int] = []
    while len(found) < limit and EOS not in found:
        found.append(ending_token(prompt + len(found)))
    return tuple(found)


def reachable(start: Phase, goal: Phase) -> bool:
    """Whether the table leads from one phase to the other."""
    return start is goal or any(reachable(step, goal) for step in MOVES[start])


def faults(completion: Completion) -> Iterable[Completion]:
    """The record with one thing wrong."""
    yield replace(completion, status=1)
    yield replace(completion, sequence=completion.sequence + 1)
    yield replace(completion, rows=0, lanes=())
    for index, lane in enumerate(completion.lanes):
        usual = isinstance(lane, int)
        wrong = VOCABULARY if usual else replace(lane, generation=lane.generation + 1)
        lanes = (*completion.lanes[:index], wrong, *completion.lanes[index + 1 :])
        yield replace(completion, lanes=lanes)


class RosterUnderUse(RuleBasedStateMachine):
    """Requests come and go in any order; slots, pages, tokens and endings stay right."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World
        self.asked: dict[int, tuple[int, int]] = {}  # prompt and limit of each request
        self.harmed: set[int] = set()  # cancelled, or in a bad record
        self.phases: dict[tuple[Slot, int], Phase] = {}  # by slot and age
        self.generations: dict[int, int] = {}

    @initialize(
        missing=st.sets(st.sampled_from(sorted(OPTIONAL, key=lambda view: view.id))),
        rows=st.integers(0, 2),
        host_slots=st.sampled_from((0, 3)),
        terse=st.booleans(),
    )
    def begin(self, missing: set[ProgramView], rows: int, host_slots: int, *, terse: bool) -> None:
        """Programs that a core may lack, and what the cache is made of."""
        self.world = World(
            slots=SLOTS,
            pages=PAGES,
            rows=rows,
            host_slots=host_slots,
            token=ending_token,
            programs=tuple(view for view in EVERY_PROGRAM if view not in missing),
            terse=terse,
        )

    @rule(
        prompt=st.sampled_from((5, 5, MOST_TOKENS)),
        limit=st.sampled_from((24, 24, 9, 1)),
        salt=st.sampled_from(("", "", "mine")),
    )
    def arrive(self, prompt: int, limit: int, salt: str) -> None:
        limit = min(limit, MOST_TOKENS - prompt + 1)
        number = len(self.asked) + 1
        self.asked[number] = (prompt, limit)
        self.world.start(waiting(number, prompt_tokens=prompt, output_limit=limit, salt=salt))

    @rule(refused=st.integers(0, 3))
    def copies_fail(self, refused: int) -> None:
        """Every so-manieth copy to or from the host fails from now on; none at zero."""
        self.world.copies = lambda transfer: not refused or transfer.ticket % refused > 0

    @rule(rounds=st.integers(1, 12))
    def go_on(self, rounds: int) -> None:
        for _ in range(rounds):
            self.submit()
            self.follow_phases()
            if self.world.in_flight:
                self.pass_a_fence()
                self.follow_phases()

    @rule()
    def submit(self) -> None:
        before = len(self.world.preempted)
        submission = self.world.submit()
        if submission is not None:
            self.look_at(submission)
        for gone in self.world.preempted[before:]:
            assert gone.arrival > min(self.alive(), default=0), "the oldest gave way"

    @precondition(lambda self: self.world.in_flight)
    @rule()
    def pass_a_fence(self) -> None:
        self.world.settle()
        self.world.admit()

    @precondition(lambda self: self.world.in_flight)
    @rule(data=st.data())
    def pass_a_fence_with_a_bad_record(self, data: st.DataObject) -> None:
        submission, honest = self.world.in_flight[0]
        wrong = data.draw(st.sampled_from(list(faults(honest))))
        alive = self.alive()
        failed = self.world.settle(lambda _completion: wrong)
        self.harmed |= {result.request for result in failed if result.finish is Finish.FAILED}
        assert len(failed) <= len(submission.lanes)
        assert self.harmed.issuperset(alive - self.alive() - self.ended())
        self.world.admit()

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.asked)))
        over = number in self.ended()
        if self.world.queue.remove(waiting(number).request.id) is None:
            assert over == (self.world.cancel(number) is None)
        if not over:
            self.harmed.add(number)
        self.world.admit()

    # ------------------------------------------------------------ promises

    @invariant()
    def a_copy_that_fails_harms_who_needed_it(self) -> None:
        self.harmed |= {
            result.request
            for result in self.endings()
            if result.problem == "a page could not be brought back"
        }

    @invariant()
    def slots_and_pages_are_accounted_for(self) -> None:
        self.world.roster.audit()
        assert self.world.pages.free + self.held_pages() == PAGES
        assert len(self.world.roster.view().lanes) + self.world.roster.view().free_slots == SLOTS

    @invariant()
    def every_lane_moves_as_the_table_says(self) -> None:
        self.follow_phases()

    def follow_phases(self) -> None:
        """Each lane's phase leads to its next one; a lane that comes back begins anew."""
        now = {(view.slot, view.arrival): view.phase for view in self.world.roster.view().lanes}
        for lane, phase in now.items():
            assert reachable(self.phases.get(lane, Phase.ADMITTED), phase)
        self.phases = now

    @invariant()
    def a_slot_stays_while_a_round_of_it_is_in_flight(self) -> None:
        lanes = {view.slot: view for view in self.world.roster.view().lanes}
        for slot, view in lanes.items():
            rounds = sum(
                work.slot == slot
                for submission, _ in self.world.in_flight
                for work in submission.lanes
            )
            assert view.in_flight == rounds <= FRAMES
        busy = {work.slot for submission, _ in self.world.in_flight for work in submission.lanes}
        assert busy <= set(lanes)

    @invariant()
    def each_request_is_told_what_it_asked_for_and_one_ending(self) -> None:
        for number, (prompt, limit) in self.asked.items():
            whole, told = expected_tokens(prompt, limit), self.world.tokens(number)
            assert told == whole[: len(told)]
            endings = self.world.endings(number)
            assert len(endings) <= 1
            if endings and endings[0].problem is not None:
                continue
            if endings and number not in self.harmed:
                assert told == whole
                assert endings[0].finish is self.right_finish(whole)

    def teardown(self) -> None:
        self.world.run()
        assert self.world.free_pages == PAGES
        self.world.roster.cache.forget_all()
        assert (self.world.pages.free, self.world.rows.free) == (PAGES, self.world.rows.total)
        assert self.world.roster.view().free_slots == SLOTS
        for number in set(self.asked) - self.harmed:
            assert len(self.world.endings(number)) == 1, "a request without an answer"

    # ------------------------------------------------------------- looking

    def held_pages(self) -> int:
        """Pages that lanes or the prefix tree hold."""
        return sum(self.world.pages.holders(PageId(page)) > 0 for page in range(PAGES))

    def right_finish(self, tokens: tuple[int, ...]) -> Finish:
        """Why a request with these tokens ends."""
        return Finish.END_OF_SEQUENCE if tokens[-1] == EOS else Finish.OUTPUT_LIMIT

    def look_at(self, submission: Submission) -> None:
        """A slot that changes hands has a greater generation; others keep theirs."""
        for work in submission.lanes:
            known = self.generations.get(work.slot, 0)
            assert (work.generation > known) == (work.admission is not None)
            assert work.generation >= known
            self.generations[work.slot] = work.generation

    def ended(self) -> set[int]:
        """Requests that were told an ending."""
        ended = {result.request for result in self.endings()}
        return {number for number in self.asked if number in ended or number in self.harmed}

    def endings(self) -> list[Result]:
        """Every ending so far."""
        return [result for result in self.world.results if result.finish is not None]

    def alive(self) -> set[int]:
        """Requests whose lanes go on."""
        return {view.arrival for view in self.world.roster.view().lanes if view.phase in LIVE}


TestRosterUnderUse = RosterUnderUse.TestCase
TestRosterUnderUse.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
