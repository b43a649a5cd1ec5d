"""The worker's loop: every request is answered once, and everything comes back."""

from __future__ import annotations

import pytest

from helios.device.scripted import Line
from helios.mailbox import MailboxClosed, Ready, Round, Shutdown, ToWorker
from helios.rounds import Finish
from prepared.agreement import check_agreement, check_manifest
from prepared.consistency import check_model
from prepared.contract import Operation
from tests.schedule.made import EOS, request
from tests.worker.world import (
    MemoryMailbox,
    World,
    played_line,
    scripted_model,
    text_extents,
)

HELLO = Line(tokens=(40, 41, 42))
READY = Ready(slots=4, pages=64, page_tokens=4, snapshots=0, memory={}, image="scripted", stages=())


def line(length: int, *, first: int = 40, end: str = "eos", delay_ns: int = 0) -> Line:
    """A line of tokens that differ from place to place."""
    tokens = tuple(first + place % 50 for place in range(length))
    return Line(tokens=tokens, end="length" if end == "length" else "eos", delay_ns=delay_ns)


def test_the_made_up_model_obeys_the_treaty() -> None:
    model, manifest = scripted_model(text_extents())
    check_model(model, at="model")
    check_manifest(manifest, at="manifest")
    check_agreement(model, manifest, at="model")


# --------------------------------------------------------------- one request


def test_a_request_is_told_its_line_and_an_end() -> None:
    world = World(HELLO)
    world.submit(request(1, output_limit=20))
    world.run()
    assert world.tokens(1) == (40, 41, 42, EOS)
    assert world.finish(1) is Finish.END_OF_SEQUENCE
    assert world.is_empty()


def test_a_request_is_told_no_more_than_its_limit() -> None:
    world = World(line(30))
    world.submit(request(1, output_limit=7))
    world.run()
    assert world.tokens(1) == line(30).tokens[:7]
    assert world.finish(1) is Finish.OUTPUT_LIMIT


def test_a_line_that_ends_by_length_does_so_before_the_limit() -> None:
    world = World(line(5, end="length"))
    world.submit(request(1, output_limit=20))
    world.run()
    assert world.tokens(1) == line(5).tokens
    assert world.finish(1) is Finish.OUTPUT_LIMIT


def test_requests_take_lines_in_the_order_in_which_they_came() -> None:
    world = World(line(3), line(4, first=60))
    world.submit(*(request(number, output_limit=20) for number in (1, 2, 3)))
    world.run()
    assert world.tokens(1) == world.tokens(3) == (*line(3).tokens, EOS)
    assert world.tokens(2) == (*line(4, first=60).tokens, EOS)


@pytest.mark.clause("TO-38", "TO-40")
def test_a_request_larger_than_the_cache_is_refused_alone() -> None:
    world = World(HELLO, pages=2)
    world.submit(request(1), request(2, prompt=range(8), output_limit=2), request(3))
    world.run()
    assert world.ending(2).finish is Finish.REJECTED
    assert world.ending(2).problem == "the request may need 3 pages of 4 tokens, the cache has 2"
    assert world.finish(1) is world.finish(3) is Finish.END_OF_SEQUENCE
    assert world.tokens(3) == (40, 41, 42, EOS)


# -------------------------------------------------------------------- leaving


@pytest.mark.parametrize("turn", range(12))
@pytest.mark.clause("TO-29", "SG-33")
def test_a_cancelled_request_ends_once_and_gives_everything_back(turn: int) -> None:
    world = World(line(8))
    world.submit(request(1, prompt=range(40), output_limit=20))
    world.run({turn + 1: lambda world: world.cancel(1)})
    whole, _ = played_line(line(8), world.asked[request(1).id])
    assert world.finish(1) in (Finish.CANCELLED, Finish.END_OF_SEQUENCE)
    assert world.tokens(1) == whole[: len(world.tokens(1))]
    assert world.is_empty()


def test_a_request_that_waits_can_leave() -> None:
    world = World(HELLO, extents=text_extents(lanes=1))
    world.submit(request(1), request(2), request(3))
    world.run({1: lambda world: world.cancel(2)})
    assert world.finish(2) is Finish.CANCELLED
    assert world.tokens(2) == ()
    assert world.order() == [1, 3]


def test_a_request_may_leave_in_the_message_after_the_one_that_brought_it() -> None:
    world = World(HELLO)
    world.submit(request(1))
    world.cancel(1)
    world.run()
    assert world.finish(1) is Finish.CANCELLED
    assert world.device.played == []


def test_who_has_ended_or_never_came_cannot_leave() -> None:
    world = World(HELLO)
    world.submit(request(1))
    world.run()
    world.cancel(1, 99)
    world.run()
    assert world.finish(1) is Finish.END_OF_SEQUENCE
    assert world.news(99) == []


# -------------------------------------------------------------------- failing


@pytest.mark.clause("TO-41")
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_request_whose_execution_fails_is_told_so(place: int) -> None:
    world = World(Line(tokens=(40, 41, 42, 43), fail_at=place))
    world.submit(request(1, output_limit=20))
    world.run()
    assert world.tokens(1) == (40, 41, 42, 43)[:place]
    assert world.ending(1).finish is Finish.FAILED
    assert world.ending(1).problem == "the device reports that execution failed"
    assert world.is_empty()


def test_a_failure_is_forgotten_by_those_who_come_after() -> None:
    world = World(Line(tokens=(40, 41), fail_at=1), HELLO)
    world.submit(request(1, output_limit=20))
    world.run()
    world.submit(request(2, output_limit=20))
    world.run()
    assert (world.finish(1), world.finish(2)) == (Finish.FAILED, Finish.END_OF_SEQUENCE)
    assert world.tokens(2) == (40, 41, 42, EOS)


# ------------------------------------------------------------------- pressure


@pytest.mark.clause("TO-39")
def test_the_oldest_is_never_put_back_and_everybody_finishes() -> None:
    lines = [line(24, first=40 + number) for number in range(4)]
    world = World(*lines, pages=8)
    world.submit(*(request(number, prompt=range(8), output_limit=24) for number in (1, 2, 3, 4)))
    world.run()
    admissions = world.admissions()
    assert admissions.count(request(1).id) == 1
    assert len(admissions) > 4, "the cache was large enough for all"
    assert world.rounds()[-1].totals.preempted == len(admissions) - 4
    for number in (1, 2, 3, 4):
        assert world.tokens(number) == lines[number - 1].tokens
        assert world.finish(number) is Finish.OUTPUT_LIMIT
    assert world.is_empty()


def test_more_requests_than_slots_are_served_in_order() -> None:
    world = World(line(6), extents=text_extents(lanes=2))
    world.submit(*(request(number, output_limit=20) for number in range(1, 8)))
    world.run()
    assert world.order() == list(range(1, 8))
    assert all(world.finish(number) is Finish.END_OF_SEQUENCE for number in range(1, 8))


def test_time_passes_as_the_line_says() -> None:
    world = World(line(4, delay_ns=1_000_000))
    world.submit(request(1, output_limit=4))
    world.run()
    assert world.clock.now >= 4_000_000
    assert world.tokens(1) == line(4).tokens


# ------------------------------------------------------------------ the loop


def test_a_round_is_told_in_one_message_and_counted() -> None:
    world = World(HELLO)
    world.submit(*(request(number, prompt=range(5), output_limit=3) for number in (1, 2)))
    world.run()
    told = world.rounds()
    steps = [step for message in told for step in message.steps]
    assert [step.lanes for step in steps] == [
        len(played.requests) for played in world.device.played
    ]
    assert [step.operation for step in steps] == [
        played.operation.name.lower() for played in world.device.played
    ]
    prompts = sum(step.tokens for step in steps if step.operation == "prefill")
    assert prompts == 10
    last = told[-1].gauges
    assert (last.waiting, last.lanes, last.free_pages + last.idle_pages) == (0, 0, world.pages)


def test_a_new_prompt_does_not_wait_for_the_answers_before_it() -> None:
    world = World(line(40))
    world.submit(request(1, output_limit=40))
    world.run({10: lambda world: world.submit(request(2, output_limit=40))})
    rounds = world.device.played
    begins = next(i for i, played in enumerate(rounds) if request(2).id in played.requests)
    ends = max(i for i, played in enumerate(rounds) if request(1).id in played.requests)
    assert begins < ends
    together = [p for p in rounds if p.operation is Operation.DECODE and len(p.requests) == 2]
    assert together


def test_the_first_message_says_that_the_worker_is_ready() -> None:
    world = World(HELLO)
    world.mailbox.inbox.append(Shutdown())
    world.worker.run(READY)
    assert world.mailbox.outbox == [READY]


def test_a_worker_that_is_told_to_end_drains_what_is_in_flight() -> None:
    world = World(line(20, delay_ns=50_000_000))
    world.submit(request(1, output_limit=20))
    for _ in range(4):
        world.turn()
    assert world.worker.executor.in_flight
    world.mailbox.inbox.append(Shutdown())
    world.worker.run(READY)
    assert world.worker.executor.in_flight == 0
    world.worker.roster.audit()


class ClosedMailbox(MemoryMailbox):
    """A mailbox whose other end goes away; a test machine."""

    def drain(self) -> list[ToWorker]:
        raise MailboxClosed("the front is gone")


def test_a_worker_whose_front_is_gone_drains_and_ends() -> None:
    world = World(line(20, delay_ns=50_000_000))
    world.submit(request(1, output_limit=20))
    for _ in range(4):
        world.turn()
    assert world.worker.executor.in_flight
    world.worker.mailbox = ClosedMailbox()
    world.worker.run(READY)
    assert world.worker.executor.in_flight == 0


def test_a_message_that_is_a_round_never_repeats_news() -> None:
    world = World(HELLO)
    world.submit(request(1, output_limit=20))
    world.run()
    told = [message for message in world.mailbox.outbox if isinstance(message, Round)]
    assert [news for message in told for news in message.by_request()] == world.news(1)
