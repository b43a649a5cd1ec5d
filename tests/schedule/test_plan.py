"""Plans: within a program's capacities and the free pages, oldest first, nobody forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from helios.cache.pages import pages_for
from helios.rounds import ProgramView
from helios.schedule.gates import CacheView
from helios.schedule.lanes import LaneView, Phase, Plan, Preempt, RosterView, Share
from helios.schedule.plan import plan_round
from helios.values import Slot
from prepared.contract import Operation
from tests.schedule.made import PROGRAMS, cache, lane, program, roster

CONSUMING = (Operation.PREFILL, Operation.DECODE)

# ------------------------------------------------------------- any world


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What planning looks at."""

    roster: RosterView
    cache: CacheView
    programs: tuple[ProgramView, ...]
    last: Operation | None

    def plan(self) -> Plan | Preempt | None:
        """What is done next."""
        return plan_round(self.roster, self.cache, self.programs, last=self.last)


PHASES = ((Phase.DECODE,), (Phase.PREFILL, Phase.DECODE), tuple(Phase)[:4])


@st.composite
def lanes(
    draw: st.DrawFn, slot: int, page_tokens: int, *, phases: tuple[Phase, ...], most_in_flight: int
) -> LaneView:
    """A lane as a roster could show it, with the pages of what was submitted."""
    phase = draw(st.sampled_from(phases))
    tokens = draw(st.integers(1, 20))
    submitted = {Phase.ADMITTED: 0, Phase.PREFILL: draw(st.integers(0, tokens))}.get(phase, tokens)
    in_flight = draw(st.integers(0, most_in_flight))
    return lane(
        slot,
        phase,
        arrival=draw(st.integers(0, 3)) * 8 + slot,
        tokens=tokens,
        submitted=submitted,
        pages=pages_for(submitted, page_tokens=page_tokens),
        in_flight=max(1, in_flight) if phase is Phase.DRAINING else in_flight,
        output_left=draw(st.sampled_from((3, 1, 0))),
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
    )


def lane_at(world: World, slot: Slot) -> LaneView:
    """The lane in a slot."""
    return next(view for view in world.roster.lanes if view.slot == slot)


def new_pages(view: LaneView, *, tokens: int, page_tokens: int) -> int:
    """Pages that a lane takes to go on by so many tokens."""
    return max(0, pages_for(view.submitted + tokens, page_tokens=page_tokens) - view.pages)


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


@given(world=worlds())
@settings(max_examples=60, deadline=None)
def test_a_plan_gives_each_lane_what_its_phase_may_have(world: World) -> None:
    plan = world.plan()
    if not isinstance(plan, Plan):
        return
    for share in plan.shares:
        view = lane_at(world, share.slot)
        match plan.program.operation:
            case Operation.INITIALIZE:
                assert view.phase is Phase.ADMITTED
                assert not view.in_flight
                assert (share.tokens, share.samples) == (0, False)
            case Operation.PREFILL:
                end = view.submitted + share.tokens
                assert view.phase is Phase.PREFILL
                assert view.submitted < end <= view.tokens
                assert share.samples == (end == view.tokens)
            case _:
                assert view.phase is Phase.DECODE
                assert (share.tokens, share.samples) == (1, True)
                assert view.output_left > 0
                assert view.in_flight < 2


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
                replace(view, in_flight=0, pages=view.submitted)
                for view in world.roster.lanes
                if view.phase is not Phase.DRAINING
            ),
        ),
    )


@given(world=worlds().map(starved))
@settings(max_examples=60, deadline=None)
def test_the_youngest_gives_way_when_everything_stands_still(world: World) -> None:
    held = [view for view in world.roster.lanes if view.phase in (Phase.PREFILL, Phase.DECODE)]
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
        assert not (view.phase is Phase.ADMITTED and not view.in_flight)
        assert not (view.phase is Phase.PREFILL and view.submitted < view.tokens and ready)
        assert not (
            view.phase is Phase.DECODE and view.output_left and view.in_flight < 2 and ready
        )


# --------------------------------------------------------- single worlds


def test_an_idle_roster_plans_nothing() -> None:
    assert plan_round(roster(), cache(), PROGRAMS, last=None) is None


def test_slots_are_initialized_before_anything_else_and_together() -> None:
    plan = plan_round(
        roster(
            lane(0, Phase.DECODE, tokens=4, submitted=4, pages=1),
            lane(1, Phase.ADMITTED, arrival=9),
            lane(2, Phase.ADMITTED, arrival=5),
            lane(3, Phase.ADMITTED, in_flight=1),
        ),
        cache(),
        PROGRAMS,
        last=None,
    )
    assert isinstance(plan, Plan)
    assert plan.program.operation is Operation.INITIALIZE
    assert [share.slot for share in plan.shares] == [2, 1]


def test_prompts_and_decoding_take_turns() -> None:
    both = roster(
        lane(0, Phase.DECODE, tokens=4, submitted=4, pages=1), lane(1, Phase.PREFILL, tokens=64)
    )
    done: list[Operation | None] = [None]
    for _ in range(4):
        plan = plan_round(both, cache(), PROGRAMS, last=done[-1])
        assert isinstance(plan, Plan)
        done.append(plan.program.operation)
    assert done[1:] == [Operation.PREFILL, Operation.DECODE] * 2


def test_a_long_prompt_is_fed_in_chunks_of_the_largest_program() -> None:
    plan = plan_round(roster(lane(0, Phase.PREFILL, tokens=64)), cache(), PROGRAMS, last=None)
    assert isinstance(plan, Plan)
    assert plan.program == PROGRAMS[2]
    assert plan.shares == (Share(slot=plan.shares[0].slot, tokens=16, samples=False),)


def test_the_last_chunk_samples() -> None:
    plan = plan_round(
        roster(lane(0, Phase.PREFILL, tokens=64, submitted=60, pages=15)),
        cache(),
        PROGRAMS,
        last=None,
    )
    assert isinstance(plan, Plan)
    assert [(share.tokens, share.samples) for share in plan.shares] == [(4, True)]
    assert plan.program == PROGRAMS[1]


def test_short_prompts_share_a_round() -> None:
    plan = plan_round(
        roster(*(lane(slot, Phase.PREFILL, tokens=6) for slot in range(4))),
        cache(),
        PROGRAMS,
        last=None,
    )
    assert isinstance(plan, Plan)
    assert [share.tokens for share in plan.shares] == [6, 6, 4]


def test_a_program_whose_rows_are_too_short_is_not_the_smallest() -> None:
    wide = program(0, Operation.PREFILL, rows=4, row_tokens=4, packed=16)
    long = program(1, Operation.PREFILL, rows=4, row_tokens=32, packed=32)
    decode = program(2, Operation.DECODE, rows=4)
    plan = plan_round(
        roster(lane(0, Phase.PREFILL, tokens=12)), cache(), (wide, long, decode), last=None
    )
    assert isinstance(plan, Plan)
    assert plan.program == long


def test_no_more_lanes_decode_than_the_largest_program_has_rows() -> None:
    decoding = (lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=2) for slot in range(6))
    plan = plan_round(roster(*decoding), cache(), PROGRAMS, last=None)
    assert isinstance(plan, Plan)
    assert [share.slot for share in plan.shares] == [0, 1, 2, 3]


def test_a_lane_that_waits_for_two_rounds_leaves_its_row_to_others() -> None:
    decoding = [lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=2) for slot in range(1, 5)]
    busy = lane(0, Phase.DECODE, tokens=4, submitted=4, pages=2, in_flight=2)
    plan = plan_round(roster(busy, *decoding), cache(), PROGRAMS, last=None)
    assert isinstance(plan, Plan)
    assert [share.slot for share in plan.shares] == [1, 2, 3, 4]


def test_the_youngest_gives_way_to_the_oldest() -> None:
    full = [lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=1) for slot in range(3)]
    assert plan_round(roster(*full), cache(free=0), PROGRAMS, last=None) == Preempt(
        slot=full[2].slot
    )


def test_nobody_gives_way_while_pages_may_still_come_back() -> None:
    full = [lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=1) for slot in range(2)]
    ending = lane(2, Phase.DRAINING, pages=1, in_flight=1)
    assert plan_round(roster(*full, ending), cache(free=0), PROGRAMS, last=None) is None


def test_a_lane_alone_never_gives_way() -> None:
    alone = lane(0, Phase.DECODE, tokens=4, submitted=4, pages=1)
    assert plan_round(roster(alone), cache(free=0), PROGRAMS, last=None) is None
