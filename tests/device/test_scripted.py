"""The scripted device: it says what its lines say, in the records that any device writes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from helios.device.api import Geometry
from helios.device.scripted import Line, ScriptedDevice
from helios.execute.executor import Executor
from helios.rounds import (
    Admission,
    FromPage,
    LaneRecord,
    LaneWork,
    Publication,
    Submission,
)
from helios.values import Generation, PageId, ProgramId, Slot, SnapshotRow
from helios.values import Sequence as SubmissionNumber
from prepared.contract import Operation
from prepared.manifest import FinishBits
from tests.execute.by_hand import Told, told
from tests.schedule.made import EOS, PLAIN
from tests.worker.world import Clock, scripted_model, text_extents

TOKENS: Final = (40, 41, 42)


class Bench:
    """A device, and rounds by hand."""

    def __init__(self, *script: Line, lanes: int = 4) -> None:
        model, manifest = scripted_model(text_extents(lanes=lanes))
        self.clock = Clock()
        self.requests: dict[int, Hashable] = {}
        self.device = ScriptedDevice(
            execution=manifest,
            model=model,
            geometry=Geometry(slots=lanes, pages=8, snapshots=0),
            script=script,
            clock=self.clock,
            sleep=self.clock.sleep,
            request_in=lambda slot: self.requests[slot],
        )
        self.executor = Executor(model, self.device)
        self.sequence = 0

    def submit(
        self,
        operation: Operation,
        *lanes: LaneWork,
        frame: int = 0,
        mixed_row: int | None = None,
    ) -> None:
        """Start a round."""
        self.sequence += 1
        program = max(v.id for v in self.executor.programs if v.operation is operation)
        self.executor.submit(
            Submission(
                sequence=SubmissionNumber(self.sequence),
                frame=frame,
                program=ProgramId(program),
                lanes=lanes,
                mixed_row=mixed_row,
            )
        )

    def round(
        self,
        operation: Operation,
        *lanes: LaneWork,
        frame: int = 0,
        mixed_row: int | None = None,
    ) -> Told:
        """A round, and its record once it is done."""
        self.submit(operation, *lanes, frame=frame, mixed_row=mixed_row)
        self.executor.wait(nanoseconds=10**12)
        return told(lanes, *self.executor.finished())

    def admit(
        self,
        slot: int,
        request: Hashable,
        *,
        limit: int = 10,
        eos: Sequence[int] = (EOS,),
        frame: int = 0,
    ) -> LaneRecord:
        """Give a slot to a request."""
        self.requests[slot] = request
        admission = Admission(
            sampling=PLAIN, output_limit=limit, minimum_output=0, eos_ids=tuple(eos), seen=()
        )
        return self.round(Operation.INITIALIZE, work(slot, admission=admission), frame=frame).lanes[
            0
        ]

    def feed(
        self,
        slot: int,
        *tokens: int,
        start: int = 0,
        samples: bool = True,
        mask: bytes | None = None,
    ) -> LaneRecord:
        """Feed a prompt."""
        lane = replace(work(slot, tokens=tokens, start=start, samples=samples), mask=mask)
        return self.round(Operation.PREFILL, lane).lanes[0]

    def decode(self, *slots: int) -> Told:
        """One more token for each of these."""
        return self.round(Operation.DECODE, *(work(slot, rows=1) for slot in slots))


def work(
    slot: int,
    *,
    tokens: tuple[int, ...] = (),
    start: int = 0,
    samples: bool = True,
    rows: int = 0,
    admission: Admission | None = None,
) -> LaneWork:
    """One lane of a round."""
    return LaneWork(
        slot=Slot(slot),
        generation=Generation(1),
        tokens=tokens,
        start=start,
        endpoint=start + max(rows, len(tokens)),
        samples=samples,
        new_pages=(),
        admission=admission,
    )


def test_a_request_is_given_its_line_and_then_an_end() -> None:
    bench = Bench(Line(tokens=TOKENS))
    bench.admit(0, "a")
    told = [bench.feed(0, 10, 11)] + [bench.decode(0).lanes[0] for _ in range(3)]
    assert [lane.tokens for lane in told] == [(40,), (41,), (42,), (EOS,)]
    assert [lane.finish for lane in told] == [0, 0, 0, FinishBits.END_OF_SEQUENCE]
    assert [lane.consumed for lane in told] == [2, 3, 4, 5]


def test_a_lane_that_ended_emits_nothing_and_stays_ended() -> None:
    bench = Bench(Line(tokens=()))
    bench.admit(0, "a")
    bench.feed(0, 10)
    after = bench.decode(0).lanes[0]
    assert (after.emitted, after.tokens, after.finish) == (0, (), FinishBits.END_OF_SEQUENCE)


def test_the_limit_ends_a_line() -> None:
    bench = Bench(Line(tokens=TOKENS))
    bench.admit(0, "a", limit=2)
    assert bench.feed(0, 10).finish == 0
    assert bench.decode(0).lanes[0].finish == FinishBits.OUTPUT_LIMIT


def test_a_line_that_ends_by_length_stops_with_its_last_token() -> None:
    bench = Bench(Line(tokens=TOKENS[:2], end="length"))
    bench.admit(0, "a")
    assert bench.feed(0, 10).finish == 0
    last = bench.decode(0).lanes[0]
    assert (last.tokens, last.finish) == ((41,), FinishBits.OUTPUT_LIMIT)


def test_a_prompt_that_is_not_whole_yet_brings_no_token() -> None:
    bench = Bench(Line(tokens=TOKENS))
    bench.admit(0, "a")
    part = bench.feed(0, 10, 11, 12, samples=False)
    assert (part.emitted, part.consumed, part.finish) == (0, 3, 0)
    assert bench.feed(0, 13, start=3).tokens == (40,)


def test_an_execution_that_fails_says_so_and_goes_on_failing() -> None:
    bench = Bench(Line(tokens=TOKENS, fail_at=1), Line(tokens=(*TOKENS, 43, 44)))
    bench.admit(0, "a")
    bench.admit(1, "b")
    bench.feed(0, 10)
    bench.feed(1, 10)
    assert bench.decode(1).lanes[0].finish == 0
    for _ in range(2):
        failed, well = bench.decode(0, 1).lanes
        assert (failed.finish, failed.tokens) == (FinishBits.EXECUTION_FAILED, ())
        assert (well.finish, well.emitted) == (0, 1)


def test_lines_are_taken_in_turn_and_begin_again_after_the_last() -> None:
    bench = Bench(Line(tokens=(40,)), Line(tokens=(50,)))
    for slot, request in enumerate("abc"):
        bench.admit(slot, request)
    assert [bench.feed(slot, 10).tokens for slot in range(3)] == [(40,), (50,), (40,)]


def test_a_request_that_comes_back_goes_on_where_its_line_was() -> None:
    bench = Bench(Line(tokens=TOKENS), Line(tokens=(50, 51)))
    bench.admit(0, "a")
    assert bench.feed(0, 10).tokens == (40,)
    bench.admit(0, "b")
    assert bench.feed(0, 10).tokens == (50,)
    bench.admit(1, "a", limit=2)
    assert bench.feed(1, 10, 40).tokens == (41,)
    last = bench.decode(1).lanes[0]
    assert (last.tokens, last.finish) == ((42,), FinishBits.OUTPUT_LIMIT)


def test_a_name_that_comes_again_after_its_end_is_another_request() -> None:
    bench = Bench(Line(tokens=(40,)), Line(tokens=(50,)))
    bench.admit(0, "a", limit=1)
    assert bench.feed(0, 10).tokens == (40,)
    bench.admit(0, "a")
    assert bench.feed(0, 10).tokens == (50,)


def test_a_round_takes_as_long_as_its_slowest_lane() -> None:
    bench = Bench(Line(tokens=TOKENS, delay_ns=500), Line(tokens=TOKENS, delay_ns=2000))
    bench.admit(0, "a")
    bench.admit(1, "b")
    bench.feed(0, 10)
    bench.feed(1, 10)
    before = bench.clock.now
    bench.decode(0, 1)
    assert bench.clock.now - before == 2000


def test_the_second_round_begins_when_the_first_is_done() -> None:
    bench = Bench(Line(tokens=TOKENS, delay_ns=1000))
    bench.admit(0, "a")
    bench.feed(0, 10)
    before = bench.clock.now
    lane = work(0, rows=1)
    bench.submit(Operation.DECODE, lane, frame=0)
    bench.submit(Operation.DECODE, lane, frame=1)
    assert list(bench.executor.finished()) == []
    bench.executor.wait(nanoseconds=10**9)
    assert bench.clock.now - before == 1000
    assert told([lane], *bench.executor.finished()).lanes[0].tokens == (41,)
    bench.executor.wait(nanoseconds=10**9)
    assert bench.clock.now - before == 2000
    assert told([lane], *bench.executor.finished()).lanes[0].tokens == (42,)


@pytest.mark.clause("AH-14")
def test_a_restored_request_goes_on_from_its_endpoint() -> None:
    bench = Bench(Line(tokens=TOKENS))
    bench.requests[2] = "a"
    admission = Admission(sampling=PLAIN, output_limit=9, minimum_output=0, eos_ids=(), seen=())
    restored = replace(work(2, start=7), admission=admission, restore=FromPage(page=PageId(3)))
    first = bench.round(Operation.RESTORE, restored).lanes[0]
    assert (first.consumed, first.emitted, first.tokens) == (7, 0, ())
    told = bench.feed(2, 10, 11, start=7)
    assert (told.consumed, told.tokens) == (9, (40,))


def test_a_snapshot_and_a_token_from_the_host_leave_a_lane_where_it_is() -> None:
    bench = Bench(Line(tokens=TOKENS))
    bench.admit(0, "a")
    bench.feed(0, 10, 11, samples=False)
    kept = replace(work(0, start=2), snapshot=Publication(row=SnapshotRow(0), tokens=1))
    for operation, lane in (
        (Operation.PUBLISH_SNAPSHOT, kept),
        (Operation.RESUME, replace(work(0, start=2), pending=12)),
    ):
        record = bench.round(operation, lane).lanes[0]
        assert (record.consumed, record.emitted, record.finish) == (2, 0, 0)
    decoded = bench.decode(0).lanes[0]
    assert (decoded.consumed, decoded.tokens) == (3, (40,))


@pytest.mark.parametrize("samples", [False, True])
def test_a_mixed_round_feeds_one_lane_and_decodes_the_others(samples: bool) -> None:
    bench = Bench(Line(tokens=TOKENS), Line(tokens=(50, 51, 52)), Line(tokens=(60,)))
    for slot, request in enumerate("abc"):
        bench.admit(slot, request)
    bench.feed(0, 10)
    bench.feed(1, 10, 11)
    done = bench.round(
        Operation.MIXED,
        work(0, start=1, rows=1),
        work(2, tokens=(10, 11, 12), samples=samples),
        work(1, start=2, rows=1),
        mixed_row=1,
    )
    assert [(lane.consumed, lane.tokens) for lane in done.lanes] == [
        (2, (41,)),
        (3, (60,) if samples else ()),
        (3, (51,)),
    ]


@pytest.mark.parametrize("frame", [0, 1])
def test_end_tokens_are_read_from_the_frame_of_the_round(frame: int) -> None:
    bench = Bench(Line(tokens=(40, 41)), lanes=1)
    bench.admit(0, "a", eos=(), frame=1 - frame)
    bench.admit(0, "b", eos=(40,), frame=frame)
    assert bench.feed(0, 10).finish == FinishBits.END_OF_SEQUENCE


def test_it_says_what_it_is_and_how_large() -> None:
    bench = Bench(Line(tokens=TOKENS))
    assert bench.device.describe() == "scripted, 1 lines"
    assert bench.device.memory()["keys"] == 8 * 4 * 64
    bench.device.close()


def mask_without(*tokens: int) -> bytes:
    """A mask that forbids these."""
    bits = (1 << 128) - 1
    for token in tokens:
        bits &= ~(1 << token)
    return bits.to_bytes(16, "little")


def test_a_token_that_the_mask_forbids_fails_its_lane_and_is_named() -> None:
    bench = Bench(Line(tokens=TOKENS), Line(tokens=TOKENS))
    bench.admit(0, "a")
    bench.admit(1, "b")
    assert bench.feed(0, 10, mask=mask_without(41)).tokens == (40,)
    bench.feed(1, 10)
    completion = bench.decode(0, 1)
    failed, other = completion.lanes
    assert (completion.status, failed.emitted, failed.tokens) == (0, 0, ())
    assert (failed.finish, failed.forbidden) == (FinishBits.FORBIDDEN_TOKEN, 41)
    assert (other.tokens, other.finish) == ((41,), 0)
    assert bench.decode(0).lanes[0].emitted == 0


def test_a_slot_that_changes_hands_loses_its_mask() -> None:
    bench = Bench(Line(tokens=TOKENS))
    bench.admit(0, "a")
    assert bench.feed(0, 10, mask=mask_without(40)).forbidden == 40
    bench.admit(0, "b")
    assert bench.feed(0, 10).tokens == (40,)


def test_an_end_that_the_mask_forbids_is_named_too() -> None:
    bench = Bench(Line(tokens=()))
    bench.admit(0, "a")
    assert bench.feed(0, 10, mask=mask_without(EOS)).forbidden == EOS


def test_a_script_cannot_score_a_prompt() -> None:
    bench = Bench(Line(tokens=TOKENS))
    bench.admit(0, "a")
    assert bench.round(Operation.SCORED_PREFILL, work(0, tokens=(10, 11))).status == 1
