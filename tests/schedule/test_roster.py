"""Lanes: their phases, slots, pages and endpoints, from admission to the last fence."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from helios.cache.matches import Match, Stop
from helios.rounds import Completion, Finish
from helios.schedule.lane import Lane
from helios.schedule.lanes import MOVES, Phase, Result
from helios.values import Generation, RequestId, Slot
from prepared.contract import Operation
from tests.schedule.made import (
    EOS,
    PLAIN,
    PROGRAMS,
    VOCABULARY,
    entry,
    program,
    request,
    waiting,
)
from tests.schedule.world import Change, World, plain_token

NO_MATCH = Match(tokens=0, pages=(), source=None, loads=(), stop=Stop.EMPTY)

# --------------------------------------------------------------- one life


def test_a_lane_lives_from_admission_through_prompt_and_decoding_to_its_end() -> None:
    world, phases = World(), list[Phase]()
    world.start(waiting(1, prompt_tokens=20, output_limit=3))
    while world.roster.view().lanes:
        phases.append(world.lane(1).phase)
        world.round()
    assert phases == [Phase.ADMITTED, Phase.PREFILL, Phase.PREFILL, Phase.DECODE, Phase.DECODE]
    assert world.tokens(1) == tuple(plain_token(position) for position in (20, 21, 22))
    assert [result.finish for result in world.endings(1)] == [Finish.OUTPUT_LIMIT]


@pytest.mark.clause("FI-23", "FI-30")
def test_an_end_token_ends_a_lane_and_is_its_last_token() -> None:
    world = World(token=lambda position: EOS if position == 5 else plain_token(position))
    world.start(waiting(1, prompt_tokens=3, output_limit=40))
    world.run()
    assert world.tokens(1) == (plain_token(3), plain_token(4), EOS)
    assert [result.finish for result in world.endings(1)] == [Finish.END_OF_SEQUENCE]


def test_an_end_token_at_the_limit_is_an_end_of_sequence() -> None:
    world = World(token=lambda _position: EOS)
    world.start(waiting(1, prompt_tokens=3, output_limit=1))
    world.run()
    assert [result.finish for result in world.endings(1)] == [Finish.END_OF_SEQUENCE]


def test_phases_are_moved_only_as_the_table_says() -> None:
    assert set(MOVES) == set(Phase)
    for start in Phase:
        for goal in Phase:
            lane = Lane(
                waiting(), Slot(0), Generation(1), NO_MATCH, tokens=[], pages=[], phase=start
            )
            if goal in MOVES[start]:
                lane.move(goal)
                assert lane.phase is goal
            else:
                with pytest.raises(AssertionError, match=f"{start} to {goal}"):
                    lane.move(goal)


def test_decoding_goes_on_before_the_last_token_is_known() -> None:
    world = World()
    world.start(waiting(1, prompt_tokens=3, output_limit=9))
    world.round()
    world.round()
    first, second = world.submit(), world.submit()
    assert first is not None
    assert second is not None
    assert first.frame != second.frame
    assert (first.lanes[0].endpoint, second.lanes[0].start) == (4, 4)
    assert world.submit() is None


@pytest.mark.clause("HV-25")
def test_a_submission_names_only_pages_that_are_new() -> None:
    world = World()
    world.start(waiting(1, prompt_tokens=20, output_limit=9))
    world.round()
    indices = []
    for _ in range(4):
        submission = world.submit()
        assert submission is not None
        indices.append([entry.index for entry in submission.lanes[0].new_pages])
        world.settle()
    assert indices == [[0, 1, 2, 3], [4], [5], []]


# ------------------------------------------------------- slots and fences


def to_phase(world: World, phase: Phase) -> None:
    """Take request 1 to a phase, with its next round submitted and not settled."""
    world.start(waiting(1, prompt_tokens=20, output_limit=9))
    while world.lane(1).phase is not phase:
        world.round()
    assert world.submit() is not None


ALIVE = pytest.mark.parametrize("phase", [Phase.ADMITTED, Phase.PREFILL, Phase.DECODE])


@ALIVE
@pytest.mark.clause("AH-17", "SG-33")
def test_a_cancelled_lane_keeps_its_pages_and_slot_until_its_fence(phase: Phase) -> None:
    world = World(slots=1)
    to_phase(world, phase)
    pages, free = world.lane(1).held_pages, world.free_pages
    result = world.cancel(1)
    assert result is not None
    assert (result.finish, result.tokens) == (Finish.CANCELLED, ())
    assert world.lane(1).phase is Phase.DRAINING
    assert (world.lane(1).held_pages, world.free_pages) == (pages, free)
    assert world.roster.view().free_slots == 0
    assert world.settle() == []
    assert world.roster.view().free_slots == 1
    assert world.free_pages == 32
    assert [result.finish for result in world.endings(1)] == [Finish.CANCELLED]


@pytest.mark.clause("AH-17")
def test_a_cancelled_lane_stays_until_the_last_of_its_fences() -> None:
    world = World(slots=1)
    to_phase(world, Phase.DECODE)
    world.submit()
    world.cancel(1)
    world.settle()
    assert world.lane(1).phase is Phase.DRAINING
    world.settle()
    assert world.roster.view().free_slots == 1


@ALIVE
def test_a_lane_without_a_round_in_flight_goes_at_once(phase: Phase) -> None:
    world = World(slots=1)
    world.start(waiting(1, prompt_tokens=20, output_limit=9))
    while world.lane(1).phase is not phase:
        world.round()
    assert world.cancel(1) is not None
    assert world.roster.view().free_slots == 1
    assert world.free_pages == 32


def test_a_request_ends_once_however_often_it_is_cancelled() -> None:
    world = World()
    to_phase(world, Phase.DECODE)
    assert world.cancel(1) is not None
    assert world.cancel(1) is None
    world.settle()
    assert world.cancel(1) is None
    assert world.cancel(99) is None


@pytest.mark.clause("HV-26")
def test_a_slot_that_changes_hands_has_a_new_generation() -> None:
    world, seen = World(slots=1), []
    for number in (1, 2, 3):
        world.start(waiting(number))
        submission = world.submit()
        assert submission is not None
        seen.append((submission.lanes[0].slot, submission.lanes[0].generation))
        world.cancel(number)
        world.settle()
    assert [slot for slot, _ in seen] == [0, 0, 0]
    assert [generation for _, generation in seen] == sorted({g for _, g in seen})


def test_a_lane_that_ended_with_a_round_in_flight_drains_and_says_nothing_more() -> None:
    world = World(slots=1, token=lambda position: EOS if position == 4 else plain_token(position))
    world.start(waiting(1, prompt_tokens=3, output_limit=9))
    world.round()
    world.round()
    world.submit()
    world.submit()
    assert [result.finish for result in world.settle()] == [Finish.END_OF_SEQUENCE]
    assert world.roster.view().free_slots == 0
    assert world.settle() == []
    assert world.roster.view().free_slots == 1


def test_no_token_is_sampled_past_the_limit() -> None:
    world = World()
    world.start(waiting(1, prompt_tokens=3, output_limit=2))
    world.round()
    world.round()
    assert world.submit() is not None
    assert world.submit() is None


# -------------------------------------------------------------- preemption


@pytest.mark.clause("AH-08")
def test_a_preempted_request_waits_with_what_it_emitted_and_goes_on_with_the_same_tokens() -> None:
    calm, rough = World(slots=1), World(slots=1)
    for world in (calm, rough):
        world.start(waiting(1, prompt_tokens=6, output_limit=8))
    calm.run()
    for _ in range(5):
        rough.round()
    back = rough.preempt(rough.lane(1).slot)
    assert back.emitted == rough.tokens(1)
    assert len(back.emitted) == 4
    assert (rough.roster.view().free_slots, rough.free_pages) == (1, 32)
    rough.run()
    assert rough.tokens(1) == calm.tokens(1)
    assert [result.finish for result in rough.endings(1)] == [Finish.OUTPUT_LIMIT]


def test_a_preempted_request_keeps_its_age() -> None:
    world = World(slots=2)
    world.start(waiting(1), waiting(2), waiting(3))
    world.preempt(world.lane(2).slot)
    assert [waits.arrival for waits in world.queue] == [2, 3]


def test_a_readmitted_request_has_left_what_it_has_not_emitted() -> None:
    world = World()
    whole = request(1, output_limit=8, minimum_output=6)
    world.start(entry(1, whole, emitted=(40, 41, 42, 43)))
    submission = world.submit()
    assert submission is not None
    admission = submission.lanes[0].admission
    assert admission is not None
    assert (admission.output_limit, admission.minimum_output) == (4, 2)


def test_a_minimum_that_was_reached_stays_reached() -> None:
    world = World()
    whole = request(1, output_limit=8, minimum_output=2)
    world.start(entry(1, whole, emitted=(40, 41, 42, 43)))
    submission = world.submit()
    assert submission is not None
    admission = submission.lanes[0].admission
    assert admission is not None
    assert admission.minimum_output == 0


def test_a_lane_in_flight_is_not_preempted() -> None:
    world = World()
    to_phase(world, Phase.DECODE)
    with pytest.raises(AssertionError, match="a lane in flight keeps its pages"):
        world.preempt(world.lane(1).slot)


@pytest.mark.parametrize(
    ("penalty", "seen"),
    [(1.0, ()), (1.5, (10, 11, 12, 40))],
    ids=["without_penalties", "with_a_penalty"],
)
def test_what_was_seen_is_told_only_to_who_penalises_it(
    penalty: float, seen: tuple[int, ...]
) -> None:
    world = World()
    sampling = msgspec.structs.replace(PLAIN, repetition_penalty=penalty)
    world.start(entry(1, request(1, sampling=sampling), emitted=(40,)))
    submission = world.submit()
    assert submission is not None
    admission = submission.lanes[0].admission
    assert admission is not None
    assert admission.seen == seen


# ------------------------------------------------------------ bad records


def lane_change(index: int, **wrong: object) -> Change:
    """Change one lane of a record."""

    def change(completion: Completion) -> Completion:
        lanes = list(completion.lanes)
        lanes[index] = replace(lanes[index], **wrong)  # type: ignore[arg-type]
        return replace(completion, lanes=tuple(lanes))

    return change


def record_change(**wrong: object) -> Change:
    """Change a number of the whole record."""
    return lambda completion: replace(completion, **wrong)  # type: ignore[arg-type]


WRONG_LANES = [
    ({"slot": 3}, "lane slot: found 3, expected 0"),
    ({"generation": 2}, "lane generation: found 2, expected 1"),
    ({"consumed": 5}, "lane consumed: found 5, expected 4"),
    ({"emitted": 0, "tokens": ()}, "lane emitted: found 0, expected 1"),
    ({"tokens": (100,)}, "lane token: found 100, expected an id below 100"),
    ({"accepted": 3}, "lane accepted: found 3, expected 0"),
    ({"cursor": 0}, "lane draft cursor: found 0, expected -1"),
    ({"reserved": 0}, "lane reserved field: found 0, expected -1"),
    ({"finish": 1}, "lane finish: found 1, expected 0"),
]
WRONG_RECORDS = [
    ({"sequence": 9}, "completion sequence: found 9, expected 3"),
    ({"frame": 1}, "completion frame: found 1, expected 0"),
    ({"program": 1}, "completion program: found 1, expected 4"),
    ({"status": 1}, "completion status: found 1, expected 0"),
    ({"rows": 1, "lanes": ()}, "completion rows: found 1, expected 2"),
]


def two_decoding() -> World:
    """Requests 1 and 2, in one round that is not settled."""
    world = World()
    world.start(waiting(1, output_limit=9), waiting(2, output_limit=9))
    world.round()
    world.round()
    submission = world.submit()
    assert submission is not None
    assert len(submission.lanes) == 2
    return world


@pytest.mark.parametrize(("wrong", "sentence"), WRONG_LANES)
@pytest.mark.clause("AH-13")
def test_a_wrong_lane_fails_with_its_sentence_and_moves_nothing(
    wrong: dict[str, object], sentence: str
) -> None:
    world = two_decoding()
    told = world.tokens(1)
    results = {result.request: result for result in world.settle(lane_change(0, **wrong))}
    failed = results[RequestId(1)]
    assert (failed.finish, failed.problem, failed.tokens) == (Finish.FAILED, sentence, ())
    assert world.tokens(1) == told
    assert world.cancel(1) is None
    world.run()
    assert len(world.endings(1)) == 1


@pytest.mark.parametrize(("wrong", "sentence"), WRONG_RECORDS)
@pytest.mark.clause("AH-13")
def test_a_wrong_record_fails_all_its_lanes_and_moves_nothing(
    wrong: dict[str, object], sentence: str
) -> None:
    world = two_decoding()
    told = world.tokens(1), world.tokens(2)
    results = world.settle(record_change(**wrong))
    assert [(result.request, result.finish, result.problem) for result in results] == [
        (number, Finish.FAILED, sentence) for number in (1, 2)
    ]
    assert (world.tokens(1), world.tokens(2)) == told
    world.roster.audit()
    assert world.free_pages == 32


@pytest.mark.clause("AH-13")
def test_records_are_judged_in_the_order_of_submission() -> None:
    world = World()
    to_phase(world, Phase.DECODE)
    world.submit()
    world.in_flight.reverse()
    (failed,) = world.settle()
    assert failed.problem == "completion sequence: found 5, expected 4"


def test_a_failed_lane_drains_until_its_last_fence() -> None:
    world = World(slots=1)
    to_phase(world, Phase.DECODE)
    world.submit()
    (failed,) = world.settle(record_change(status=1))
    assert failed.finish is Finish.FAILED
    assert world.roster.view().free_slots == 0
    assert world.settle() == []
    assert world.roster.view().free_slots == 1
    assert world.free_pages == 32


def test_a_lane_beside_one_that_failed_alone_goes_on() -> None:
    world = two_decoding()
    world.settle(lane_change(0, cursor=0))
    world.run()
    assert world.tokens(2) == tuple(plain_token(3 + place) for place in range(9))
    assert [result.finish for result in world.endings(2)] == [Finish.OUTPUT_LIMIT]


# ---------------------------------------------------------------- capacity


def test_the_oldest_finishes_when_all_need_every_page() -> None:
    world = World(slots=3, pages=6)
    world.start(*(waiting(number, prompt_tokens=8, output_limit=16) for number in (1, 2, 3)))
    world.run()
    assert world.preempted
    assert all(gone.arrival > 1 for gone in world.preempted)
    for number in (1, 2, 3):
        assert world.tokens(number) == tuple(plain_token(8 + place) for place in range(16))
        assert len(world.endings(number)) == 1
    assert world.free_pages == 6


def test_a_request_as_large_as_the_cache_is_served() -> None:
    world = World(slots=2, pages=4)
    world.start(waiting(1, prompt_tokens=16, output_limit=1), waiting(2, prompt_tokens=1))
    world.run()
    assert len(world.tokens(1)) == 1
    assert len(world.tokens(2)) == 4


def test_rounds_are_counted_from_one_without_gaps() -> None:
    world = World()
    world.start(waiting(1))
    sequences = []
    while (submission := world.submit()) is not None:
        sequences.append(submission.sequence)
        assert world.roster.outstanding == 1
        world.settle()
    assert sequences == list(range(1, len(sequences) + 1))
    assert world.roster.outstanding == 0


def test_prompts_of_several_lanes_are_fed_by_one_submission() -> None:
    wide = (*PROGRAMS[:1], program(1, Operation.PREFILL, rows=4, row_tokens=32), *PROGRAMS[3:])
    world = World(programs=wide)
    world.start(waiting(1, prompt_tokens=5), waiting(2, prompt_tokens=7))
    world.round()
    submission = world.submit()
    assert submission is not None
    assert [lane.tokens for lane in submission.lanes] == [
        tuple(range(10, 15)),
        tuple(range(10, 17)),
    ]


# ---------------------------------------------------------- usual records


def told(*, terse: bool) -> list[Result]:
    """What becomes of some requests, in order; every usual record may be told as its token."""
    world = World(slots=3, terse=terse, token=lambda position: EOS if position == 7 else position)
    world.start(waiting(1, prompt_tokens=5, output_limit=4))
    world.start(waiting(2, prompt_tokens=3, output_limit=3))
    world.start(waiting(3, prompt_tokens=2, output_limit=9))
    world.run()
    return sorted(world.results, key=lambda result: result.request)


@pytest.mark.clause("AH-13", "FI-23")
def test_usual_records_and_their_tokens_mean_the_same() -> None:
    assert told(terse=True) == told(terse=False)


@pytest.mark.clause("AH-12", "AH-13")
@pytest.mark.parametrize("token", [-1, VOCABULARY])
def test_a_usual_record_with_an_impossible_token_moves_nothing(token: int) -> None:
    world = World(terse=True)
    world.start(waiting(1, prompt_tokens=3, output_limit=6))
    while world.submit() and not isinstance(world.in_flight[-1][1].lanes[0], int):
        world.settle()
    settled = world.tokens(1)
    (result,) = world.settle(lambda completion: replace(completion, lanes=(token,)))
    assert (result.finish, result.tokens) == (Finish.FAILED, ())
    assert result.problem == f"lane token: found {token}, expected an id below {VOCABULARY}"
    assert world.tokens(1) == settled
