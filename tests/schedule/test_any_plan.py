"""Any plan: within a program's capacities and the free pages, oldest first, nobody forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from helios.cache.pages import pages_for
from helios.rounds import ProgramView
from helios.schedule.gates import CacheView
from helios.schedule.lanes import LaneView, Phase, Plan, Preempt, RosterView, Share
from helios.schedule.plan import by_operation, plan_round
from helios.values import Slot
from prepared.contract import Operation
from tests.schedule.made import cache, lane, program, roster

CONSUMING = (Operation.PREFILL, Operation.SCORED_PREFILL, Operation.DECODE, Operation.MIXED)
SHORT = (Operation.INITIALIZE, Operation.RESTORE, Operation.RESUME, Operation.PUBLISH_SNAPSHOT)
AMPLE = 1000

# ------------------------------------------------------------- any world


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What planning looks at."""

    roster: RosterView
    cache: CacheView
    programs: tuple[ProgramView, ...]
    last: Operation | None
    gap_tokens: int

    def plan(self) -> Plan | Preempt | None:
        """What is done next."""
        return plan_round(
            self.roster,
            self.cache,
            by_operation(self.programs),
            last=self.last,
            gap_tokens=self.gap_tokens,
        )

    def has(self, operation: Operation) -> bool:
        """Whether there is a program for it."""
        return any(program.operation is operation for program in self.programs)


PHASES = ((Phase.DECODE,), (Phase.PREFILL, Phase.DECODE), tuple(Phase)[:6])


@st.composite
def lanes(
    draw: st.DrawFn, slot: int, page_tokens: int, *, phases: tuple[Phase, ...], most_in_flight: int
) -> LaneView:
    """A lane as a roster could show it, with the pages of what was submitted."""
    phase = draw(st.sampled_from(phases))
    tokens = draw(st.integers(1, 20))
    submitted = {Phase.ADMITTED: 0, Phase.PREFILL: draw(st.integers(0, tokens))}.get(phase, tokens)
    in_flight = draw(st.integers(0, most_in_flight))
    restores = phase is Phase.ADMITTED and draw(st.booleans())
    return lane(
        slot,
        phase,
        arrival=draw(st.integers(0, 3)) * 8 + slot,
        tokens=tokens,
        submitted=submitted,
        pages=pages_for(submitted, page_tokens=page_tokens),
        in_flight=max(1, in_flight) if phase is Phase.DRAINING else in_flight,
        output_left=draw(st.sampled_from((3, 1, 0))),
        restores=restores,
        scores=phase is Phase.PREFILL and draw(st.integers(0, 3)) == 0,
    )


@st.composite
def program_sets(draw: st.DrawFn, slots: int) -> tuple[ProgramView, ...]:
    """Programs of every operation, in any order; one of each serves all slots."""
    found = [(Operation.INITIALIZE, slots, 1, slots), (Operation.DECODE, slots, 1, slots)]
    for rows in draw(st.lists(st.integers(1, slots), max_size=3)):
        found.append((Operation.DECODE, rows, 1, rows))
    for _ in range(draw(st.integers(1, 3))):
        rows, width = draw(st.integers(1, slots)), draw(st.integers(1, 12))
        found.append((Operation.PREFILL, rows, width, draw(st.integers(width, rows * width))))
    found += [(operation, slots, 1, slots) for operation in SHORT[1:]]
    found.append((Operation.SCORED_PREFILL, 1, 4, 4))
    if slots > 1 and draw(st.booleans()):
        rows, width = draw(st.integers(2, slots)), draw(st.integers(1, 12))
        found.append((Operation.MIXED, rows, width, rows - 1 + width))
    order = draw(st.permutations(found))
    return tuple(
        program(number, operation, rows=rows, row_tokens=width, packed=packed)
        for number, (operation, rows, width, packed) in enumerate(order)
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any state that planning may meet."""
    slots, page_tokens = draw(st.integers(1, 5)), draw(st.sampled_from((1, 2, 4)))
    phases, most = draw(st.sampled_from(PHASES)), draw(st.sampled_from((0, 2)))
    held = [
        draw(lanes(slot, page_tokens, phases=phases, most_in_flight=most))
        for slot in range(draw(st.integers(1, slots)))
    ]
    return World(
        roster=roster(*held, free_slots=slots - len(held)),
        cache=cache(free=draw(st.sampled_from((0, 1, 2, 6))), page_tokens=page_tokens),
        programs=draw(program_sets(slots)),
        last=draw(st.sampled_from((None, *CONSUMING))),
        gap_tokens=draw(st.sampled_from((1, 3, AMPLE))),
    )


def lane_at(world: World, slot: Slot) -> LaneView:
    """The lane in a slot."""
    return next(view for view in world.roster.lanes if view.slot == slot)


def new_pages(view: LaneView, *, tokens: int, page_tokens: int) -> int:
    """Pages that a lane takes to go on by so many tokens."""
    return max(0, pages_for(view.submitted + tokens, page_tokens=page_tokens) - view.held_pages)


def holds(candidate: ProgramView, shares: Sequence[Share]) -> bool:
    """Whether a program has room for these."""
    return (
        candidate.rows >= len(shares)
        and candidate.row_tokens >= max(share.tokens for share in shares)
        and candidate.packed_tokens >= sum(share.tokens for share in shares)
    )


@given(world=worlds())
@settings(max_examples=60, deadline=None)
def test_a_plan_fits_its_program_and_no_smaller_one(world: World) -> None:
    plan = world.plan()
    if not isinstance(plan, Plan):
        return
    assert plan.shares
    assert len({share.slot for share in plan.shares}) == len(plan.shares)
    assert holds(plan.program, plan.shares)
    same = [view for view in world.programs if view.operation is plan.program.operation]
    fitting = [candidate for candidate in same if holds(candidate, plan.shares)]
    assert plan.program.packed_tokens == min(candidate.packed_tokens for candidate in fitting)


@given(world=worlds())
@settings(max_examples=60, deadline=None)
def test_a_plan_takes_no_more_pages_than_are_free(world: World) -> None:
    plan = world.plan()
    if isinstance(plan, Plan):
        taken = (
            new_pages(
                lane_at(world, share.slot), tokens=share.tokens, page_tokens=world.cache.page_tokens
            )
            for share in plan.shares
        )
        assert sum(taken) <= world.cache.free_pages


READY_FOR = {
    Operation.INITIALIZE: Phase.ADMITTED,
    Operation.RESTORE: Phase.ADMITTED,
    Operation.RESUME: Phase.RESUMING,
    Operation.PUBLISH_SNAPSHOT: Phase.PUBLISHING,
}


def check_share(view: LaneView, share: Share, operation: Operation) -> None:
    """A lane gets what its phase may have."""
    if operation in SHORT:
        assert view.phase is READY_FOR[operation]
        assert not view.in_flight
        assert view.restores == (operation is Operation.RESTORE)
        assert (share.tokens, share.samples) == (0, False)
    elif operation is Operation.DECODE:
        assert view.phase is Phase.DECODE
        assert (share.tokens, share.samples) == (1, True)
        assert view.output_left > 0
        assert view.in_flight < 2
    else:
        end = view.submitted + share.tokens
        assert view.phase is Phase.PREFILL
        assert view.scores == (operation is Operation.SCORED_PREFILL)
        assert view.submitted < end <= view.known
        assert share.samples == (end == view.known)


@given(world=worlds())
@settings(max_examples=100, deadline=None)
def test_a_plan_gives_each_lane_what_its_phase_may_have(world: World) -> None:
    plan = world.plan()
    if not isinstance(plan, Plan):
        return
    operation = plan.program.operation
    for index, share in enumerate(plan.shares):
        if operation is Operation.MIXED:
            part = Operation.PREFILL if index == plan.mixed_row else Operation.DECODE
        else:
            assert plan.mixed_row is None
            part = operation
        check_share(lane_at(world, share.slot), share, part)


@given(world=worlds())
@settings(max_examples=100, deadline=None)
def test_a_round_that_makes_others_wait_takes_no_more_of_a_prompt_than_the_gap_allows(
    world: World,
) -> None:
    plan = world.plan()
    if not isinstance(plan, Plan) or plan.program.operation in (*SHORT, Operation.DECODE):
        return
    chosen = {share.slot for share in plan.shares}
    free = world.cache.free_pages
    waits = any(
        view.phase is Phase.DECODE
        and view.output_left > 0
        and view.in_flight < 2
        and new_pages(view, tokens=1, page_tokens=world.cache.page_tokens) <= free
        for view in world.roster.lanes
    )
    fed = sum(
        share.tokens for share in plan.shares if lane_at(world, share.slot).phase is Phase.PREFILL
    )
    assert chosen
    if waits:
        assert fed <= world.gap_tokens


@given(world=worlds(), slot=st.integers(0, 4))
@settings(max_examples=100, deadline=None)
@pytest.mark.clause("SG-32", "SS-08")
def test_nothing_is_planned_behind_a_lane_whose_next_token_the_host_must_see(
    world: World, slot: int
) -> None:
    lanes = [
        replace(view, barrier=view.slot == slot and view.phase is not Phase.DRAINING)
        for view in world.roster.lanes
    ]
    plan = replace(world, roster=roster(*lanes)).plan()
    if any(view.barrier for view in lanes) and any(view.in_flight for view in lanes):
        assert plan is None
    else:
        assert plan == world.plan()


@given(world=worlds())
@settings(max_examples=60, deadline=None)
def test_a_plan_is_made_oldest_first(world: World) -> None:
    plan = world.plan()
    if not isinstance(plan, Plan) or plan.program.operation is not Operation.DECODE:
        return
    chosen = {share.slot for share in plan.shares}
    youngest = max(lane_at(world, share.slot).arrival for share in plan.shares)
    for view in world.roster.lanes:
        passed_over = view.arrival < youngest and view.slot not in chosen
        if passed_over and view.phase is Phase.DECODE and view.output_left and view.in_flight < 2:
            page_tokens = world.cache.page_tokens
            assert new_pages(view, tokens=1, page_tokens=page_tokens) > 0, "it could have gone on"
            assert not any(
                new_pages(lane_at(world, share.slot), tokens=1, page_tokens=page_tokens)
                for share in plan.shares
                if lane_at(world, share.slot).arrival > view.arrival
            ), "a younger lane took its page"


def starved(world: World) -> World:
    """The world with nothing in flight, no free page, and a page needed for each token."""
    return replace(
        world,
        cache=cache(free=0, page_tokens=1),
        roster=replace(
            world.roster,
            lanes=tuple(
                replace(view, in_flight=0, held_pages=view.submitted)
                for view in world.roster.lanes
                if view.phase is not Phase.DRAINING
            ),
        ),
    )


@given(world=worlds().map(starved))
@settings(max_examples=60, deadline=None)
def test_the_youngest_gives_way_when_everything_stands_still(world: World) -> None:
    held = [
        view
        for view in world.roster.lanes
        if view.phase in (Phase.PREFILL, Phase.DECODE) or view.restores
    ]
    if len(held) == len(world.roster.lanes) > 1:
        youngest = max(held, key=lambda view: view.arrival)
        assert world.plan() == Preempt(slot=youngest.slot)


@given(world=worlds())
@settings(max_examples=60, deadline=None)
def test_nobody_gives_way_while_something_moves_and_the_oldest_never_does(world: World) -> None:
    plan = world.plan()
    if isinstance(plan, Preempt):
        assert not any(view.in_flight for view in world.roster.lanes)
        assert lane_at(world, plan.slot).arrival > min(v.arrival for v in world.roster.lanes)


@given(world=worlds())
@settings(max_examples=60, deadline=None)
def test_nothing_is_planned_only_when_nobody_can_go_on(world: World) -> None:
    if world.plan() is not None:
        return
    for view in world.roster.lanes:
        page = new_pages(view, tokens=1, page_tokens=world.cache.page_tokens)
        ready = page <= world.cache.free_pages
        assert not (view.phase is Phase.ADMITTED and not view.in_flight and not view.restores)
        assert not (view.restores and not view.in_flight and world.cache.free_pages)
        assert not (view.phase in (Phase.RESUMING, Phase.PUBLISHING) and not view.in_flight)
        assert not (view.phase is Phase.PREFILL and view.submitted < view.known and ready)
        assert not (
            view.phase is Phase.DECODE and view.output_left and view.in_flight < 2 and ready
        )
