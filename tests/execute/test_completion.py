"""Completion records: what the device wrote, by the manifest's layout, believed in nothing."""

from __future__ import annotations

import struct
from typing import Final

import pytest
from msgspec.structs import replace

from helios.device.api import Geometry
from helios.device.scripted import ScriptedDevice
from helios.execute.completion import CompletionReader
from helios.rounds import Completion, LaneRecord
from helios.values import MonotonicClock
from prepared.contract import ElementType
from prepared.manifest import CompletionField, CompletionLayout, CompletionSlot
from tests.execute.binding import FORMATS
from tests.worker.world import scripted_model, text_extents

ROWS: Final = 3
WIDTH: Final = 2  # tokens a lane
STRIDE: Final = 24
NBYTES: Final = 2048

ELEMENTS: Final = {
    CompletionField.RECORD_SEQUENCE: ElementType.UINT64,
    CompletionField.LANE_TOKENS: ElementType.INT32,
    CompletionField.LANE_DRAFT_CURSOR: ElementType.INT32,
    CompletionField.LANE_RESERVED: ElementType.INT64,
    CompletionField.LANE_FINISH: ElementType.UINT8,
}
"""UINT32 where nothing is said."""


def layout() -> CompletionLayout:
    """Fields in the reverse of their order, with gaps between lanes."""
    slots, offset = [], 8
    for field in reversed(CompletionField):
        slots.append(
            CompletionSlot(
                field=field,
                offset=offset,
                element=ELEMENTS.get(field, ElementType.UINT32),
                row_elements=WIDTH if field is CompletionField.LANE_TOKENS else 1,
                row_stride=STRIDE if field.per_lane else 0,
            )
        )
        offset += STRIDE * (ROWS if field.per_lane else 1)
    return CompletionLayout(buffer="completion", rows=ROWS, slots=tuple(slots))


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
        clock=MonotonicClock(),
        sleep=lambda _seconds: None,
        request_in=lambda slot: slot,
    )
    for frame in (0, 1):
        made.completion(frame)[:] = b"\xff" * NBYTES
    return made


def write(
    made: ScriptedDevice, frame: int, field: CompletionField, *values: int, lane: int = 0
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
