"""Frames and fences: what was submitted comes back once, in order, from its own frame."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from helios.device.api import Geometry
from helios.device.scripted import Line, ScriptedDevice
from helios.execute.executor import Executor
from helios.rounds import LaneWork, Submission
from helios.values import ProgramId, Sequence, StartRefused
from prepared.contract import ModelContract, Operation, ValueSource
from tests.execute.binding import LANES
from tests.worker.world import Clock, scripted_model, text_extents

DELAY_NS = 1000
MODEL, MANIFEST = scripted_model(text_extents(lanes=6))


def executor_of(model: ModelContract = MODEL) -> tuple[Executor, ScriptedDevice, Clock]:
    """An executor over a device whose tokens take a while."""
    clock = Clock()
    device = ScriptedDevice(
        execution=MANIFEST,
        model=MODEL,
        geometry=Geometry(slots=6, pages=8, snapshots=0),
        script=(Line(tokens=tuple(range(40, 60)), delay_ns=DELAY_NS),),
        clock=clock,
        sleep=clock.sleep,
        request_in=lambda slot: slot,
    )
    return Executor(model, device), device, clock


def number_of(executor: Executor, operation: Operation) -> ProgramId:
    """The largest program of an operation."""
    return max(
        (view for view in executor.programs if view.operation is operation),
        key=lambda view: view.packed_tokens,
    ).id


def round_of(executor: Executor, operation: Operation, sequence: int, frame: int) -> Submission:
    """A round of three lanes; a mask comes with their admission alone."""
    lanes: tuple[LaneWork, ...] = LANES
    if operation is not Operation.INITIALIZE:
        lanes = tuple(replace(lane, mask=None) for lane in LANES)
    return Submission(
        sequence=Sequence(sequence),
        frame=frame,
        program=number_of(executor, operation),
        lanes=lanes,
    )


def test_programs_are_shown_with_the_manifest_s_capacities() -> None:
    executor, device, _ = executor_of()
    assert [view.id for view in executor.programs] == list(range(len(device.manifest.programs)))
    for view, program in zip(executor.programs, device.manifest.programs, strict=True):
        assert (view.operation, view.rows, view.row_tokens, view.packed_tokens) == (
            program.operation,
            program.batch_capacity,
            program.token_capacity,
            program.packed_token_capacity,
        )


def test_a_frame_is_taken_until_its_record_was_read() -> None:
    executor, _, clock = executor_of()
    assert executor.free_frames() == [0, 1]
    executor.submit(round_of(executor, Operation.INITIALIZE, 1, 1))
    executor.submit(round_of(executor, Operation.PREFILL, 2, 0))
    assert (executor.free_frames(), executor.in_flight) == ([], 2)
    (first,) = executor.finished()
    assert (first.sequence, first.frame) == (1, 1)
    assert (executor.free_frames(), executor.in_flight) == ([1], 1)
    assert list(executor.finished()) == []
    clock.now += DELAY_NS
    (second,) = executor.finished()
    assert (second.sequence, second.frame) == (2, 0)
    assert (executor.free_frames(), executor.in_flight) == ([0, 1], 0)


def test_records_come_in_the_order_of_submission_when_both_are_done() -> None:
    executor, _, clock = executor_of()
    executor.submit(round_of(executor, Operation.INITIALIZE, 1, 0))
    executor.submit(round_of(executor, Operation.PREFILL, 2, 1))
    clock.now += DELAY_NS
    assert [completion.sequence for completion in executor.finished()] == [1, 2]
    executor.submit(round_of(executor, Operation.DECODE, 3, 1))
    executor.submit(round_of(executor, Operation.DECODE, 4, 0))
    clock.now += 3 * DELAY_NS
    done = list(executor.finished())
    assert [(completion.sequence, completion.frame) for completion in done] == [(3, 1), (4, 0)]
    assert [completion.lanes[0].tokens for completion in done] == [(41,), (42,)]


@pytest.mark.clause("HV-17")
def test_the_transport_says_which_submission_a_frame_holds() -> None:
    executor, device, _ = executor_of()
    submission = round_of(executor, Operation.INITIALIZE, (1 << 40) + 5, 1)
    executor.submit(submission)
    header = device.manifest.header
    staging = device.staging(header.buffer, 1)
    assert struct.unpack_from("<Q", staging, header.sequence_offset) == ((1 << 40) + 5,)
    assert struct.unpack_from("<I", staging, header.frame_offset) == (1,)
    assert struct.unpack_from("<I", staging, header.program_offset) == (submission.program,)


def test_waiting_ends_with_the_next_fence() -> None:
    executor, _, clock = executor_of()
    executor.submit(round_of(executor, Operation.INITIALIZE, 1, 0))
    list(executor.finished())
    executor.submit(round_of(executor, Operation.PREFILL, 2, 0))
    executor.wait(nanoseconds=1_000_000)
    assert clock.now == DELAY_NS
    assert [completion.sequence for completion in executor.finished()] == [2]


def test_waiting_ends_when_patience_does() -> None:
    executor, _, clock = executor_of()
    executor.submit(round_of(executor, Operation.INITIALIZE, 1, 0))
    executor.submit(round_of(executor, Operation.PREFILL, 2, 1))
    list(executor.finished())
    executor.wait(nanoseconds=DELAY_NS // 2)
    assert clock.now == DELAY_NS // 2
    assert list(executor.finished()) == []


@pytest.mark.clause("HV-24", "OB-12")
def test_a_value_that_cannot_be_supplied_fails_the_start_with_its_place_in_the_contract() -> None:
    graph = MODEL.graphs[1]
    unknown = replace(graph.values[0], source=ValueSource.IMAGE_FEATURE_SLOT)
    graphs = list(MODEL.graphs)
    graphs[1] = replace(graph, values=(*graph.values, unknown))
    with pytest.raises(StartRefused) as refusal:
        executor_of(replace(MODEL, graphs=tuple(graphs)))
    assert str(refusal.value) == (
        f"contract.model.graphs[1].values[{len(graph.values)}].source: "
        "IMAGE_FEATURE_SLOT cannot be supplied"
    )


def test_a_mask_is_never_written_while_another_frame_reads_it() -> None:
    executor, _, _ = executor_of()
    executor.submit(round_of(executor, Operation.INITIALIZE, 1, 0))
    second = round_of(executor, Operation.PREFILL, 2, 1)
    masked = replace(second, lanes=(replace(second.lanes[0], mask=bytes(16)), *second.lanes[1:]))
    with pytest.raises(AssertionError, match="a mask in use"):
        executor.submit(masked)
    executor.wait(nanoseconds=10 * DELAY_NS)
    assert len(list(executor.finished())) == 1
    executor.submit(masked)
