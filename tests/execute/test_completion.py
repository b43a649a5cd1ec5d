"""Completion records: what the device wrote, by the manifest's layout, believed in nothing."""

from __future__ import annotations

import struct
from typing import Final

import pytest
from msgspec.structs import replace

from helios.device.api import Geometry
from helios.device.scripted import ScriptedDevice
from helios.execute.completion import HEAD, CompletionReader
from helios.rounds import Completion, LaneRecord, LaneWork, Score, usual_record
from helios.values import MonotonicClock
from prepared.contract import ElementType
from prepared.manifest import CompletionField, CompletionLayout, CompletionSlot, FinishBits
from tests.execute.binding import FORMATS
from tests.execute.by_hand import work
from tests.worker.world import scripted_model, text_extents

ROWS: Final = 3
WIDTH: Final = 2  # tokens a lane
TOP: Final = 3  # alternatives of a token
TOKEN_ROWS: Final = 6
STRIDE: Final = 24
NBYTES: Final = 2048

ELEMENTS: Final = {
    CompletionField.RECORD_SEQUENCE: ElementType.UINT64,
    CompletionField.LANE_TOKENS: ElementType.INT32,
    CompletionField.LANE_DRAFT_CURSOR: ElementType.INT32,
    CompletionField.LANE_RESERVED: ElementType.INT64,
    CompletionField.LANE_FINISH: ElementType.UINT8,
    CompletionField.LANE_TOP_IDS: ElementType.INT32,
    CompletionField.LANE_TOP_LOGPROBS: ElementType.FLOAT32,
    CompletionField.LANE_LOGPROB: ElementType.FLOAT32,
    CompletionField.TOKEN_TOP_IDS: ElementType.INT32,
    CompletionField.TOKEN_TOP_LOGPROBS: ElementType.FLOAT32,
    CompletionField.TOKEN_LOGPROB: ElementType.FLOAT32,
}
"""UINT32 where nothing is said."""


WIDTHS: Final = {
    CompletionField.LANE_TOKENS: WIDTH,
    CompletionField.LANE_TOP_IDS: TOP,
    CompletionField.LANE_TOP_LOGPROBS: TOP,
    CompletionField.TOKEN_TOP_IDS: TOP,
    CompletionField.TOKEN_TOP_LOGPROBS: TOP,
}
"""One number where nothing is said."""


def layout() -> CompletionLayout:
    """Fields in the reverse of their order, with gaps between lanes."""
    slots, offset = [], 8
    for field in reversed(CompletionField):
        slots.append(
            CompletionSlot(
                field=field,
                offset=offset,
                element=ELEMENTS.get(field, ElementType.UINT32),
                row_elements=WIDTHS.get(field, 1),
                row_stride=STRIDE if field.per_lane or field.per_token else 0,
            )
        )
        rows = TOKEN_ROWS if field.per_token else ROWS if field.per_lane else 1
        offset += STRIDE * rows
    return CompletionLayout(
        buffer="completion", rows=ROWS, token_rows=TOKEN_ROWS, slots=tuple(slots)
    )


def device() -> ScriptedDevice:
    """A device with such a record, full of ones."""
    model, manifest = scripted_model(text_extents())
    buffers = tuple(
        replace(buffer, nbytes=NBYTES) if buffer.name == "completion" else buffer
        for buffer in manifest.buffers
    )
    made = ScriptedDevice(
        execution=replace(manifest, buffers=buffers, completion=layout()),
        model=model,
        geometry=Geometry(slots=ROWS, pages=1, snapshots=0),
        script=(),
        clock=MonotonicClock(0),
        sleep=lambda _seconds: None,
        request_in=lambda slot: slot,
    )
    for frame in (0, 1):
        made.completion(frame)[:] = b"\xff" * NBYTES
    return made


def write(
    made: ScriptedDevice, frame: int, field: CompletionField, *values: float, lane: int = 0
) -> None:
    """What a device writes."""
    slot = next(slot for slot in layout().slots if slot.field is field)
    start = slot.offset + lane * slot.row_stride
    code = f"<{len(values)}{FORMATS[slot.element]}"
    struct.pack_into(code, made.completion(frame), start, *values)


def write_record(made: ScriptedDevice, frame: int, *, rows: int = ROWS, emitted: int = 1) -> None:
    """A record in which every number says which it is."""
    write(made, frame, CompletionField.RECORD_SEQUENCE, (1 << 40) + frame)
    write(made, frame, CompletionField.RECORD_FRAME, frame)
    write(made, frame, CompletionField.RECORD_PROGRAM, 6)
    write(made, frame, CompletionField.RECORD_STATUS, 0)
    write(made, frame, CompletionField.RECORD_ROWS, rows)
    for lane in range(ROWS):
        for place, field in enumerate(LANE_FIELDS):
            write(made, frame, field, 10 * place + lane, lane=lane)
        write(made, frame, CompletionField.LANE_TOKENS, 90 + lane, 95 + lane, lane=lane)
        write(made, frame, CompletionField.LANE_EMITTED, emitted, lane=lane)
        write(made, frame, CompletionField.LANE_DRAFT_CURSOR, -1, lane=lane)
        write(made, frame, CompletionField.LANE_RESERVED, -1, lane=lane)


LANE_FIELDS: Final = (
    CompletionField.LANE_SLOT,
    CompletionField.LANE_GENERATION,
    CompletionField.LANE_CONSUMED,
    CompletionField.LANE_OFFERED,
    CompletionField.LANE_ACCEPTED,
    CompletionField.LANE_FINISH,
)


def record(lane: int, *tokens: int, emitted: int) -> LaneRecord:
    """What a lane's part says."""
    return LaneRecord(
        slot=lane,
        generation=10 + lane,
        consumed=20 + lane,
        emitted=emitted,
        tokens=tokens,
        offered=30 + lane,
        accepted=40 + lane,
        cursor=-1,
        reserved=-1,
        finish=50 + lane,
    )


@pytest.mark.clause("SG-27")
@pytest.mark.parametrize("frame", [0, 1])
def test_a_record_is_read_field_by_field_from_its_frame(frame: int) -> None:
    made = device()
    write_record(made, frame)
    assert CompletionReader(made, frame).read() == Completion(
        sequence=(1 << 40) + frame,
        frame=frame,
        program=6,
        status=0,
        rows=ROWS,
        lanes=tuple(record(lane, 90 + lane, emitted=1) for lane in range(ROWS)),
    )


@pytest.mark.parametrize(
    ("emitted", "tokens"), [(0, ()), (1, (91,)), (2, (91, 96))], ids=["none", "one", "two"]
)
def test_as_many_tokens_are_read_as_were_emitted(emitted: int, tokens: tuple[int, ...]) -> None:
    made = device()
    write_record(made, 0, emitted=emitted)
    assert CompletionReader(made, 0).read().lanes[1] == record(1, *tokens, emitted=emitted)


@pytest.mark.clause("AH-13")
def test_more_tokens_than_a_lane_has_room_for_are_counted_and_not_read() -> None:
    made = device()
    write_record(made, 0, emitted=9000)
    assert CompletionReader(made, 0).read().lanes[2] == record(2, 92, 97, emitted=9000)


@pytest.mark.clause("AH-13")
def test_more_rows_than_the_record_has_room_for_are_counted_and_not_read() -> None:
    made = device()
    write_record(made, 0, rows=(1 << 32) - 1)
    completion = CompletionReader(made, 0).read()
    assert completion.rows == (1 << 32) - 1
    assert len(completion.lanes) == ROWS


def test_a_reader_sees_each_record_as_it_is_now() -> None:
    made = device()
    reader = CompletionReader(made, 0)
    for rows in (3, 1, 2):
        write_record(made, 0, rows=rows)
        assert len(reader.read().lanes) == rows


# ------------------------------------------------------------ log-probabilities


def scored(logprobs: int | None, *, rows: int = 1, targets: tuple[int, ...] = ()) -> LaneWork:
    """A lane that asked for log-probabilities, or did not."""
    return work(0, start=4, rows=rows, logprobs=logprobs, targets=targets)


def write_scores(made: ScriptedDevice, kind: str, row: int, *, logprob: float, ids: int) -> None:
    """A log-probability, and so many alternatives that say where they are."""
    tops = [100 * row + place for place in range(ids)] + [-1] * (TOP - ids)
    values = [logprob - place for place in range(TOP)]
    write(made, 0, CompletionField[f"{kind}_LOGPROB"], logprob, lane=row)
    write(made, 0, CompletionField[f"{kind}_TOP_IDS"], *tops, lane=row)
    write(made, 0, CompletionField[f"{kind}_TOP_LOGPROBS"], *values, lane=row)


def test_log_probabilities_are_read_of_the_lanes_that_asked_and_no_more_of_them() -> None:
    made = device()
    write_record(made, 0)
    for lane in range(ROWS):
        write_scores(made, "LANE", lane, logprob=-0.5 - lane, ids=TOP)
    lanes = CompletionReader(made, 0).read((scored(2), scored(None), scored(0))).lanes
    assert [lane.logprob for lane in lanes] == [-0.5, None, -2.5]
    assert [lane.top for lane in lanes] == [((0, -0.5), (1, -1.5)), (), ()]


def test_alternatives_end_where_no_other_token_could_be_drawn() -> None:
    made = device()
    write_record(made, 0)
    write_scores(made, "LANE", 0, logprob=-0.5, ids=1)
    assert CompletionReader(made, 0).read((scored(3),)).lanes[0].top == ((0, -0.5),)


def test_a_lane_that_emits_nothing_has_no_log_probability() -> None:
    made = device()
    write_record(made, 0, emitted=0)
    lane = CompletionReader(made, 0).read((scored(2),)).lanes[0]
    assert (lane.logprob, lane.top) == (None, ())


def test_prompt_scores_are_read_by_packed_token_of_the_rows_that_have_a_target() -> None:
    made = device()
    write_record(made, 0, emitted=0)
    for row in range(TOKEN_ROWS):
        write_scores(made, "TOKEN", row, logprob=-1.0 - row, ids=1)
    asked = (
        scored(1, rows=3, targets=(7, -1, 8)),
        scored(None, rows=1),
        scored(None, rows=2, targets=(9, -1)),
    )
    lanes = CompletionReader(made, 0).read(asked).lanes
    assert [lane.scores for lane in lanes] == [
        (Score(logprob=-1.0, top=((0, -1.0),)), None, Score(logprob=-3.0, top=((200, -3.0),))),
        (),
        (Score(logprob=-5.0, top=()), None),
    ]


@pytest.mark.clause("AH-13")
def test_a_forbidden_token_is_named_and_not_emitted() -> None:
    made = device()
    write_record(made, 0, emitted=0)
    write(made, 0, CompletionField.LANE_FINISH, FinishBits.FORBIDDEN_TOKEN, lane=1)
    lanes = CompletionReader(made, 0).read().lanes
    assert [lane.tokens for lane in lanes] == [(), (), ()]
    assert lanes[1].forbidden == 91
    assert lanes[2].forbidden is None


# ------------------------------------------------------------ usual lanes

USUAL: Final = work(3, start=8, rows=1)
USUAL_HEAD: Final = (3, 1, 9, 1, 0, 0, -1, -1, 0)


def usual_device(**changed: int) -> ScriptedDevice:
    """A record of one lane that emitted its token 42 and nothing else; numbers may be changed."""
    made = device()
    write_record(made, 0, rows=1)
    fields = dict(zip(HEAD, USUAL_HEAD, strict=True))
    fields |= {CompletionField[name]: value for name, value in changed.items()}
    for field, value in fields.items():
        write(made, 0, field, value)
    write(made, 0, CompletionField.LANE_TOKENS, 42)
    return made


@pytest.mark.clause("AH-13")
@pytest.mark.parametrize("name", [field.name for field in HEAD])
def test_only_a_record_without_any_other_number_is_told_as_its_token(name: str) -> None:
    assert CompletionReader(usual_device(), 0).read([USUAL]).lanes == (42,)
    (lane,) = CompletionReader(usual_device(**{name: 7}), 0).read([USUAL]).lanes
    assert isinstance(lane, LaneRecord)


@pytest.mark.parametrize(
    "more", [{"samples": False}, {"ceiling": 2}, {"logprobs": 0}, {"targets": (1,)}], ids=str
)
def test_a_lane_that_asked_for_more_gets_its_whole_record(more: dict[str, object]) -> None:
    (lane,) = CompletionReader(usual_device(), 0).read([replace(USUAL, **more)]).lanes
    assert isinstance(lane, LaneRecord)


def test_a_usual_record_can_be_told_in_full_again() -> None:
    (lane,) = CompletionReader(usual_device(), 0).read().lanes
    assert lane == usual_record(USUAL, 42)
