"""What is planned for given lanes: short work first, prompts beside decoding, who gives way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from helios.rounds import ProgramView
from helios.schedule.lanes import Phase, Plan, Preempt, RosterView, Share
from helios.schedule.plan import by_operation, plan_round
from helios.values import Slot
from prepared.contract import Operation
from tests.schedule.made import EVERY_PROGRAM, MIXED, PROGRAMS, cache, lane, program, roster

AMPLE = 1000
SHORT = (Operation.INITIALIZE, Operation.RESTORE, Operation.RESUME, Operation.PUBLISH_SNAPSHOT)


def next_round(
    view: RosterView,
    *,
    free: int = 100,
    programs: Sequence[ProgramView] = PROGRAMS,
    last: Operation | None = None,
    gap_tokens: int = AMPLE,
) -> Plan | Preempt | None:
    """What these lanes do next, in a cache with so many free pages."""
    return plan_round(
        view, cache(free=free), by_operation(programs), last=last, gap_tokens=gap_tokens
    )


def test_an_idle_roster_plans_nothing() -> None:
    assert next_round(roster()) is None


def test_slots_are_initialized_before_anything_else_and_together() -> None:
    plan = next_round(
        roster(
            lane(0, Phase.DECODE, tokens=4, submitted=4, pages=1),
            lane(1, Phase.ADMITTED, arrival=9),
            lane(2, Phase.ADMITTED, arrival=5),
            lane(3, Phase.ADMITTED, in_flight=1),
        ),
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
        plan = next_round(both, last=done[-1])
        assert isinstance(plan, Plan)
        done.append(plan.program.operation)
    assert done[1:] == [Operation.PREFILL, Operation.DECODE] * 2


def test_a_long_prompt_is_fed_in_chunks_of_the_largest_program() -> None:
    plan = next_round(roster(lane(0, Phase.PREFILL, tokens=64)))
    assert isinstance(plan, Plan)
    assert plan.program == PROGRAMS[2]
    assert plan.shares == (Share(slot=plan.shares[0].slot, tokens=16, samples=False),)


def test_the_last_chunk_samples() -> None:
    plan = next_round(
        roster(lane(0, Phase.PREFILL, tokens=64, submitted=60, pages=15)),
    )
    assert isinstance(plan, Plan)
    assert [(share.tokens, share.samples) for share in plan.shares] == [(4, True)]
    assert plan.program == PROGRAMS[1]


def test_short_prompts_share_a_round() -> None:
    plan = next_round(
        roster(*(lane(slot, Phase.PREFILL, tokens=6) for slot in range(4))),
    )
    assert isinstance(plan, Plan)
    assert [share.tokens for share in plan.shares] == [6, 6, 4]


def test_a_program_whose_rows_are_too_short_is_not_the_smallest() -> None:
    wide = program(0, Operation.PREFILL, rows=4, row_tokens=4, packed=16)
    long = program(1, Operation.PREFILL, rows=4, row_tokens=32, packed=32)
    decode = program(2, Operation.DECODE, rows=4)
    plan = next_round(roster(lane(0, Phase.PREFILL, tokens=12)), programs=(wide, long, decode))
    assert isinstance(plan, Plan)
    assert plan.program == long


def test_no_more_lanes_decode_than_the_largest_program_has_rows() -> None:
    decoding = (lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=2) for slot in range(6))
    plan = next_round(roster(*decoding))
    assert isinstance(plan, Plan)
    assert [share.slot for share in plan.shares] == [0, 1, 2, 3]


def test_a_lane_that_waits_for_two_rounds_leaves_its_row_to_others() -> None:
    decoding = [lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=2) for slot in range(1, 5)]
    busy = lane(0, Phase.DECODE, tokens=4, submitted=4, pages=2, in_flight=2)
    plan = next_round(roster(busy, *decoding))
    assert isinstance(plan, Plan)
    assert [share.slot for share in plan.shares] == [1, 2, 3, 4]


def test_the_youngest_gives_way_to_the_oldest() -> None:
    full = [lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=1) for slot in range(3)]
    assert next_round(roster(*full), free=0) == Preempt(slot=full[2].slot)


def test_nobody_gives_way_while_pages_may_still_come_back() -> None:
    full = [lane(slot, Phase.DECODE, tokens=4, submitted=4, pages=1) for slot in range(2)]
    ending = lane(2, Phase.DRAINING, pages=1, in_flight=1)
    assert next_round(roster(*full, ending), free=0) is None


def test_a_lane_alone_never_gives_way() -> None:
    alone = lane(0, Phase.DECODE, tokens=4, submitted=4, pages=1)
    assert next_round(roster(alone), free=0) is None


# --------------------------------------------------------------- short work


def test_a_slot_that_can_go_goes_first_and_one_that_begins_last() -> None:
    waiting = [
        lane(0, Phase.ADMITTED),
        lane(1, Phase.ADMITTED, submitted=3, restores=True),
        lane(2, Phase.RESUMING, submitted=3),
        lane(3, Phase.PUBLISHING, submitted=3),
        lane(4, Phase.DECODE, submitted=4, pages=1),
    ]
    order = []
    while len(waiting) > 1:
        plan = next_round(roster(*waiting), programs=EVERY_PROGRAM)
        assert isinstance(plan, Plan)
        order.append(plan.program.operation)
        (share,) = plan.shares
        waiting = [view for view in waiting if view.slot != share.slot]
    assert order == list(reversed(SHORT))


def test_no_more_slots_begin_than_one_program_holds() -> None:
    plan = next_round(roster(*(lane(slot, Phase.ADMITTED) for slot in range(6))))
    assert isinstance(plan, Plan)
    assert [share.slot for share in plan.shares] == [0, 1, 2, 3]


def test_lanes_that_restore_take_turns_for_a_free_page() -> None:
    both = [lane(slot, Phase.ADMITTED, submitted=3, restores=True) for slot in (0, 1)]
    plan = next_round(roster(*both), free=1, programs=EVERY_PROGRAM)
    assert isinstance(plan, Plan)
    assert [share.slot for share in plan.shares] == [0]


def test_a_lane_that_cannot_restore_makes_the_youngest_give_way() -> None:
    lanes = [
        lane(0, Phase.ADMITTED, submitted=3, restores=True),
        lane(1, Phase.DECODE, tokens=4, submitted=4, pages=1),
    ]
    assert next_round(roster(*lanes), free=0, programs=EVERY_PROGRAM) == Preempt(slot=Slot(1))


# --------------------------------------------------- prompts beside decoding

DECODING = lane(0, Phase.DECODE, tokens=4, submitted=4, pages=2)


@pytest.mark.clause("HV-06")
def test_one_program_serves_prompt_and_decoding_where_there_is_one() -> None:
    plan = next_round(
        roster(DECODING, lane(1, Phase.PREFILL, tokens=64), lane(2, Phase.PREFILL, tokens=64)),
        programs=EVERY_PROGRAM,
    )
    assert isinstance(plan, Plan)
    assert plan.program == MIXED
    assert [(share.slot, share.tokens, share.samples) for share in plan.shares] == [
        (0, 1, True),
        (1, 8, False),
    ]
    assert plan.mixed_row == 1


def test_a_prompt_without_a_page_is_passed_over_in_a_mixed_round() -> None:
    lanes = [
        DECODING,
        lane(1, Phase.PREFILL, tokens=64, submitted=4, pages=1),
        lane(2, Phase.PREFILL, tokens=64, submitted=2, pages=1),
    ]
    plan = next_round(roster(*lanes), free=0, programs=EVERY_PROGRAM)
    assert isinstance(plan, Plan)
    assert [(share.slot, share.tokens) for share in plan.shares] == [(0, 1), (2, 2)]
    plan = next_round(roster(*lanes[:2]), free=0, programs=EVERY_PROGRAM)
    assert isinstance(plan, Plan)
    assert plan.program.operation is Operation.DECODE


@pytest.mark.parametrize("programs", [PROGRAMS, EVERY_PROGRAM], ids=["in_turn", "mixed"])
def test_a_long_prompt_does_not_stretch_the_gap_of_those_who_decode(
    programs: Sequence[ProgramView],
) -> None:
    plan = next_round(
        roster(DECODING, *(lane(slot, Phase.PREFILL, tokens=64) for slot in (1, 2))),
        programs=programs,
        gap_tokens=5,
    )
    assert isinstance(plan, Plan)
    assert sum(share.tokens for share in plan.shares if share.slot != DECODING.slot) == 5


def test_a_long_prompt_is_not_held_back_when_nobody_waits() -> None:
    waits = replace(DECODING, in_flight=2)
    plan = next_round(roster(waits, lane(1, Phase.PREFILL, tokens=64)), gap_tokens=5)
    assert isinstance(plan, Plan)
    assert [share.tokens for share in plan.shares] == [16]


def test_a_prompt_that_is_scored_has_its_own_program_and_its_turn() -> None:
    view = roster(DECODING, lane(1, Phase.PREFILL, tokens=9, scores=True))
    done: list[Operation | None] = [None]
    for _ in range(4):
        plan = next_round(view, programs=EVERY_PROGRAM, last=done[-1])
        assert isinstance(plan, Plan)
        done.append(plan.program.operation)
    assert done[1:] == [Operation.SCORED_PREFILL, Operation.DECODE] * 2


def test_a_prompt_that_is_scored_waits_for_those_that_are_not() -> None:
    view = roster(lane(0, Phase.PREFILL, tokens=9, scores=True), lane(1, Phase.PREFILL, tokens=9))
    plan = next_round(view, programs=EVERY_PROGRAM)
    assert isinstance(plan, Plan)
    assert [share.slot for share in plan.shares] == [1]
