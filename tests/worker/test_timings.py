"""How long rounds take, by a clock that is told what time it is."""

from __future__ import annotations

from helios.mailbox import Step
from helios.rounds import LaneWork, Submission
from helios.timings import Timings
from helios.values import Generation, ProgramId, Sequence, Slot
from prepared.contract import Operation
from tests.worker.world import Clock


def submission(*fed: tuple[int, int]) -> Submission:
    """Lanes that contribute so many rows, of which so many are of a prompt."""
    lanes = tuple(
        LaneWork(
            slot=Slot(slot),
            generation=Generation(1),
            tokens=tuple(range(prompt)),
            start=7,
            endpoint=7 + rows,
            samples=True,
            new_pages=(),
            admission=None,
        )
        for slot, (rows, prompt) in enumerate(fed)
    )
    return Submission(sequence=Sequence(1), frame=0, program=ProgramId(0), lanes=lanes)


def test_a_round_is_counted_with_its_rows_and_its_times() -> None:
    clock = Clock()
    timings = Timings(clock)
    clock.now = 100
    timings.submitted(submission((1, 0), (8, 8)), Operation.MIXED, planned_ns=60, constrained=1)
    clock.now = 1100
    assert timings.finished() == Step(
        operation="mixed",
        lanes=2,
        tokens=9,
        prompt_tokens=8,
        constrained=1,
        device_ns=1000,
        host_ns=40,
        gap_ns=0,
    )
    assert timings.pace.token_ns == 125


def test_a_round_behind_another_begins_when_that_one_ends() -> None:
    clock = Clock()
    timings = Timings(clock)
    for now in (100, 200):
        clock.now = now
        timings.submitted(submission((1, 0)), Operation.DECODE, planned_ns=now, constrained=0)
    clock.now = 1000
    assert timings.finished().device_ns == 900
    clock.now = 1500
    step = timings.finished()
    assert (step.device_ns, step.gap_ns) == (500, 0)


def test_the_time_in_which_the_device_waits_is_a_gap() -> None:
    clock = Clock()
    timings = Timings(clock)
    for begin, end in ((100, 200), (250, 300)):
        clock.now = begin
        timings.submitted(submission((1, 0)), Operation.DECODE, planned_ns=begin, constrained=0)
        clock.now = end
        step = timings.finished()
    assert step.gap_ns == 50


def test_only_rounds_with_a_prompt_say_how_fast_prompts_go() -> None:
    clock = Clock()
    timings = Timings(clock)
    for operation, fed in ((Operation.DECODE, (1, 0)), (Operation.MIXED, (1, 0))):
        timings.submitted(submission(fed), operation, planned_ns=0, constrained=0)
        clock.now += 500
        timings.finished()
    assert timings.pace.token_ns == 0


def test_the_oldest_round_has_run_since_the_device_turned_to_it() -> None:
    clock = Clock()
    timings = Timings(clock)
    assert timings.oldest_ns == 0
    for now in (100, 200):
        clock.now = now
        timings.submitted(submission((1, 0)), Operation.DECODE, planned_ns=now, constrained=0)
    clock.now = 700
    assert timings.oldest_ns == 600
    timings.finished()
    clock.now = 750
    assert timings.oldest_ns == 50
    timings.finished()
    assert timings.oldest_ns == 0
