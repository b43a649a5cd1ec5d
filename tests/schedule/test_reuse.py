"""What a request computed is found by the next: to the token, by those who may, by nobody else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from helios.cache.host import Direction
from helios.cache.matches import Stop
from helios.rounds import Finish, LaneWork, Span
from helios.schedule.gates import Admitted
from helios.schedule.lanes import Phase, Verdict
from helios.schedule.plan import by_operation
from helios.values import RequestId
from prepared.contract import Operation
from tests.schedule.made import (
    EOS,
    EVERY_PROGRAM,
    MIXED,
    PROGRAMS,
    SCORED,
    SLOT_PROGRAMS,
    entry,
    request,
    waiting,
)
from tests.schedule.world import World, failed, plain_token

RESTORE, RESUME, PUBLISH = SLOT_PROGRAMS


def without(*programs: object) -> World:
    """A world whose core lacks programs."""
    return World(programs=[view for view in EVERY_PROGRAM if view not in programs])


def submitted(world: World, number: int) -> LaneWork:
    """A request's part of the next submission."""
    submission = world.submit()
    assert submission is not None
    slot = world.lane(number).slot
    return next(work for work in submission.lanes if work.slot == slot)


# ----------------------------------------------------------- after an end


@pytest.mark.parametrize("shared", range(3, 21))
@pytest.mark.clause("AH-08", "AH-14", "AH-15", "AH-16")
def test_a_history_is_found_again_at_every_offset_of_a_page(shared: int) -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=20, output_limit=2))
    world.run()
    prompt = (*range(10, 10 + shared), 99, 98)
    world.start(entry(2, request(2, prompt=prompt)))
    world.roster.audit()
    assert world.reuse(2).tokens == shared
    assert world.reuse(2).stop is Stop.DIVERGED
    world.run()
    assert world.tokens(2) == tuple(plain_token(len(prompt) + place) for place in range(4))


@pytest.mark.clause("AH-05", "AH-14")
def test_a_conversation_goes_on_from_the_last_token_that_was_consumed() -> None:
    world = without()
    prompt, consumed = tuple(range(10, 20)), 0
    for number in range(1, 9):
        world.start(entry(number, request(number, prompt=prompt, output_limit=5)))
        assert world.reuse(number).tokens == consumed
        assert not world.reuse(number).again
        world.run()
        consumed = len(prompt) + 4  # the last token of a turn was sampled and never consumed
        prompt = (*prompt, *world.tokens(number), 95, 96)
    assert world.rows.idle == world.rows.total - world.rows.free > 0


def test_the_whole_of_a_prompt_is_never_reused_because_its_last_row_samples() -> None:
    world = without()
    for number in (1, 2, 3):
        world.start(waiting(number, prompt_tokens=9))
        world.run()
    assert world.reuse(3).tokens == 8
    assert world.reuse(3).stop is Stop.LIMIT


def test_a_prompt_that_is_fed_is_found_while_its_request_goes_on() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=9, output_limit=40))
    while world.lane(1).phase is not Phase.DECODE:
        world.round()
    world.start(waiting(2, prompt_tokens=9))
    assert world.reuse(2).tokens == 8


def test_requests_with_another_salt_find_nothing() -> None:
    world = without()
    for number, salt in enumerate(("", "mine", "mine", ""), start=1):
        world.start(waiting(number, prompt_tokens=9, salt=salt))
        world.run()
    assert [world.reuse(number).tokens for number in (1, 2, 3, 4)] == [0, 0, 8, 8]
    assert world.reuse(2).stop is Stop.UNKNOWN_KEY


def test_requests_with_another_image_find_nothing_of_it() -> None:
    world = without()
    for number, digest in enumerate((b"cat", b"dog", b"cat"), start=1):
        span = Span(start=2, length=6, digest=digest)
        asked = request(number, prompt=range(10, 22), spans=(span,))
        world.start(entry(number, asked))
        world.run()
    assert [world.reuse(number).tokens for number in (1, 2, 3)] == [0, 2, 11]


# ------------------------------------------------- operations that a core lacks


def test_without_restoring_whole_pages_alone_are_reused() -> None:
    world = without(RESTORE, PUBLISH)
    for number in (1, 2):
        world.start(waiting(number, prompt_tokens=11))
        world.run()
    assert world.reuse(2).tokens == 8
    assert Operation.RESTORE not in world.operations
    assert world.rows.free == world.rows.total


def test_without_publishing_an_ended_lane_leaves_its_whole_pages() -> None:
    world = without(PUBLISH)
    for number in (1, 2):
        world.start(waiting(number, prompt_tokens=7, output_limit=6))
        world.run()
    assert world.reuse(2).tokens == 6
    assert Operation.PUBLISH_SNAPSHOT not in world.operations
    assert Operation.RESTORE in world.operations


def test_without_resuming_the_pending_token_is_fed_again() -> None:
    tokens = []
    for lacking in ((RESUME,), ()):
        world = without(*lacking)
        preempt_at_a_page(world)
        world.run()
        assert (Operation.RESUME in world.operations) == (not lacking)
        tokens.append(world.tokens(1))
    assert tokens[0] == tokens[1] == tuple(plain_token(6 + place) for place in range(9))


def preempt_at_a_page(world: World) -> None:
    """Request 1 gives way with its history at the end of a page, and comes back."""
    world.start(waiting(1, prompt_tokens=6, output_limit=9))
    while len(world.tokens(1)) < 3:
        world.round()
    world.preempt(world.lane(1).slot)
    world.admit()
    assert world.reuse(1).tokens == 8
    assert world.reuse(1).again


@pytest.mark.clause("HV-32")
@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside_a_prompt"])
def test_a_history_that_is_complete_resumes_with_the_token_that_was_pending(others: bool) -> None:
    world = without()
    preempt_at_a_page(world)
    assert submitted(world, 1).start == 8
    world.settle()
    assert world.lane(1).phase is Phase.RESUMING
    work = submitted(world, 1)
    assert (world.last, work.pending) == (Operation.RESUME, plain_token(8))
    world.settle()
    if others:
        world.start(waiting(2, prompt_tokens=20))
        world.round()
    work = submitted(world, 1)
    assert world.last is (Operation.MIXED if others else Operation.DECODE)
    assert work.tokens == ()
    world.settle()
    world.run()
    assert world.tokens(1) == tuple(plain_token(6 + place) for place in range(9))


@pytest.mark.parametrize("phase", [Phase.ADMITTED, Phase.RESUMING])
def test_a_lane_that_resumes_may_leave(phase: Phase) -> None:
    world = without()
    preempt_at_a_page(world)
    while world.lane(1).phase is not phase:
        world.round()
    world.submit()
    assert world.cancel(1) is not None
    world.settle()
    assert not world.roster.view().lanes
    world.roster.audit()


# ------------------------------------------------------------ publishing


def test_an_end_in_the_middle_of_a_page_is_published_before_the_slot_is_free() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=6, output_limit=2))
    while not world.endings(1):
        world.round()
    assert world.lane(1).phase is Phase.PUBLISHING
    assert world.cancel(1) is None
    work = submitted(world, 1)
    assert work.snapshot is not None
    assert work.snapshot.tokens == 7
    assert world.settle() == []
    assert not world.roster.view().lanes
    world.start(waiting(2, prompt_tokens=9))
    assert world.reuse(2).tokens == 6


@pytest.mark.clause("AH-18")
def test_a_snapshot_that_failed_is_found_by_nobody() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=3, output_limit=1))
    while not world.endings(1):
        world.round()
    world.submit()
    world.settle(failed)
    assert not world.roster.view().lanes
    world.start(waiting(2, prompt_tokens=4))
    assert (world.reuse(2).tokens, world.reuse(2).stop) == (0, Stop.EMPTY)
    assert world.rows.free == world.rows.total


@pytest.mark.clause("AH-18")
def test_a_request_that_failed_or_left_publishes_nothing_more() -> None:
    for leaves in (True, False):
        world = without()
        world.start(waiting(1, prompt_tokens=3, output_limit=9))
        for _ in range(6):
            world.round()
        world.submit()
        if leaves:
            world.cancel(1)
        world.settle(failed)
        assert not world.roster.view().lanes
        world.start(waiting(2, prompt_tokens=8))
        assert world.reuse(2).tokens == 0


@pytest.mark.clause("AH-18")
def test_a_round_that_failed_after_the_end_keeps_it_from_being_published() -> None:
    world = World(
        programs=EVERY_PROGRAM, token=lambda place: EOS if place == 4 else plain_token(place)
    )
    world.start(waiting(1, prompt_tokens=3, output_limit=9))
    world.round()
    world.round()
    world.submit()
    world.submit()
    assert [result.finish for result in world.settle()] == [Finish.END_OF_SEQUENCE]
    assert world.settle(failed) == []
    assert not world.roster.view().lanes
    assert Operation.PUBLISH_SNAPSHOT not in world.operations


def stop(_request: RequestId, tokens: tuple[int, ...]) -> Verdict:
    """A host that stops whatever it hears."""
    return Verdict(kept=len(tokens), finish=Finish.STOPPED)


@pytest.mark.clause("SS-12")
def test_what_the_host_ended_is_not_published() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=6, output_limit=9))
    while len(world.tokens(1)) < 4:
        world.round()
    world.submit()
    (stopped,) = world.settle(hear=stop)
    assert (stopped.finish, stopped.tokens) == (Finish.STOPPED, (plain_token(10),))
    assert not world.roster.view().lanes
    assert Operation.PUBLISH_SNAPSHOT not in world.operations
    world.start(waiting(2, prompt_tokens=7))
    assert world.reuse(2).tokens == 4


def test_a_history_that_is_known_already_is_not_published_again() -> None:
    world = without()
    for number in (1, 2):
        world.start(waiting(number, prompt_tokens=6, output_limit=2))
        world.run()
    assert world.operations.count(Operation.PUBLISH_SNAPSHOT) == 1


def test_a_history_that_ends_with_its_page_needs_no_row() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=8, output_limit=1))
    world.run()
    assert Operation.PUBLISH_SNAPSHOT not in world.operations
    world.start(waiting(2, prompt_tokens=9))
    assert world.reuse(2).tokens == 8


@pytest.mark.clause("AH-16", "AH-17")
def test_what_a_lane_restores_from_stays_until_its_fence() -> None:
    world = World(programs=EVERY_PROGRAM, rows=1)
    world.start(waiting(1, prompt_tokens=6, output_limit=2))
    world.run()
    world.start(waiting(2, prompt_tokens=9))
    work = submitted(world, 2)
    assert work.restore is not None
    assert (world.rows.free, world.rows.idle) == (0, 0)
    world.roster.audit()
    world.cancel(2)
    assert (world.rows.free, world.rows.idle) == (0, 0)
    world.settle()
    assert (world.rows.free, world.rows.idle) == (0, 1)


@pytest.mark.clause("AH-18")
def test_a_lane_whose_restoration_failed_fails_alone() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=6, output_limit=2))
    world.run()
    world.start(waiting(2, prompt_tokens=9))
    world.submit()
    (result,) = world.settle(failed)
    assert result.finish is Finish.FAILED
    world.roster.audit()
    world.start(waiting(3, prompt_tokens=9))
    world.run()
    assert world.tokens(3) == tuple(plain_token(9 + place) for place in range(4))


# ------------------------------------------------------------- host tier


def spilled() -> World:
    """Request 1 has ended; its pages are on the host, and a long request has come and gone."""
    world = World(programs=EVERY_PROGRAM, pages=6, rows=1, host_slots=8)
    world.start(waiting(1, prompt_tokens=16, output_limit=1))
    world.run()
    world.start(entry(2, request(2, prompt=range(60, 84), output_limit=1)))
    world.run()
    return world


def test_pages_that_give_way_go_to_the_host_and_come_back() -> None:
    world = spilled()
    world.start(waiting(3, prompt_tokens=17))
    assert [load.direction for load in world.reuse(3).loads] == [Direction.TO_DEVICE] * 4
    assert world.reuse(3).tokens == 16
    world.run()
    assert world.tokens(3) == tuple(plain_token(17 + place) for place in range(4))


def test_a_page_that_cannot_come_back_fails_who_needs_it_and_nobody_else() -> None:
    world = spilled()
    world.copies = lambda _transfer: False
    world.start(waiting(3, prompt_tokens=17))
    assert [result.finish for result in world.endings(3)] == [Finish.FAILED]
    world.roster.audit()
    assert world.free_pages == 6
    world.copies = lambda _transfer: True
    world.start(waiting(4, prompt_tokens=17))
    assert world.reuse(4).tokens == 16
    world.run()
    assert world.tokens(4) == tuple(plain_token(17 + place) for place in range(4))


def test_a_request_that_must_wait_has_not_begun_to_bring_pages_back() -> None:
    world = spilled()
    world.start(entry(3, request(3, prompt=range(60, 76), output_limit=6)))
    world.queue.add(waiting(4, prompt_tokens=17))
    assert not isinstance(world.admit(), Admitted)
    world.roster.audit()
    assert world.roster.fail(RequestId(4), "it has no lane") is None


def test_a_page_that_cannot_go_to_the_host_is_lost_to_nobody_who_asks() -> None:
    world = World(programs=EVERY_PROGRAM, pages=6, rows=1, host_slots=8)
    world.copies = lambda _transfer: False
    world.start(waiting(1, prompt_tokens=16, output_limit=1))
    world.run()
    world.start(entry(2, request(2, prompt=range(60, 84), output_limit=1)))
    world.run()
    assert [result.finish for result in world.endings(2)] == [Finish.OUTPUT_LIMIT]
    world.start(waiting(3, prompt_tokens=17))
    assert world.reuse(3).stop in (Stop.EVICTED, Stop.DIVERGED)
    world.run()
    assert world.tokens(3) == tuple(plain_token(17 + place) for place in range(4))


# ------------------------------------------------------------ what a round says


@pytest.mark.clause("HV-06")
def test_a_mixed_round_says_which_lane_prefills() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=3, output_limit=20))
    while world.lane(1).phase is not Phase.DECODE:
        world.round()
    world.start(entry(2, request(2, prompt=range(50, 70))))
    world.round()
    submission = world.submit()
    assert submission is not None
    assert world.last is Operation.MIXED
    assert submission.program == MIXED.id
    assert submission.mixed_row == 1
    assert [len(work.tokens) for work in submission.lanes] == [0, 8]
    assert [work.samples for work in submission.lanes] == [True, False]


@pytest.mark.parametrize(
    ("prompt", "chunks"),
    [((10, 11, 12), [(11, 12, -1)]), (range(10, 20), [tuple(range(11, 19)), (19, -1)])],
    ids=["one", "two"],
)
def test_each_row_of_a_scored_prompt_scores_the_token_that_follows(
    prompt: tuple[int, ...], chunks: list[tuple[int, ...]]
) -> None:
    world = without()
    world.start(entry(1, request(1, prompt=prompt, score_prompt=True)))
    world.round()
    found = []
    while world.lane(1).phase is Phase.PREFILL:
        found.append(submitted(world, 1).targets)
        assert world.last is Operation.SCORED_PREFILL
        world.settle()
    assert found == chunks


def test_a_prompt_that_is_scored_is_computed_again() -> None:
    world = without()
    world.start(waiting(1, prompt_tokens=9))
    world.run()
    world.start(entry(2, replace(request(2, score_prompt=True), prompt=tuple(range(10, 19)))))
    assert world.reuse(2).tokens == 0
    assert SCORED.operation in by_operation(EVERY_PROGRAM)


def test_a_mask_goes_with_the_round_that_samples_its_token() -> None:
    world = World(programs=PROGRAMS)
    world.start(waiting(1, prompt_tokens=20), waiting(2))
    masks = {RequestId(1): b"\1"}
    found = []
    for _ in range(4):
        submission = world.submit(masks)
        assert submission is not None
        found.append([(work.mask, work.samples) for work in submission.lanes])
        world.settle()
    assert found[0] == [(None, False), (None, False)]
    assert found[1][0] == (None, False)
    masked = [pair for lanes in found for pair in lanes if pair[0] is not None]
    assert masked
    assert all(samples for _, samples in masked)
