"""Completion records: device bytes to frozen values, by the manifest's layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helios.device.api import Device
from helios.execute.destinations import cells_of
from helios.rounds import Completion, LaneRecord
from prepared.contract import ELEMENT_BYTES
from prepared.manifest import CompletionField


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a record: typed cells, the cells between lanes, and those of a lane."""

    cells: memoryview[Any]
    step: int
    width: int

    def at(self, lane: int) -> int:
        """The value of a lane; the record's own fields are lane 0."""
        return int(self.cells[lane * self.step])


class CompletionReader:
    """Reads one frame's record."""

    def __init__(self, device: Device, frame: int) -> None:
        memory, layout = device.completion(frame), device.manifest.completion
        self.columns: dict[CompletionField, Column] = {}
        self.most_rows = layout.rows
        for slot in layout.slots:
            size = ELEMENT_BYTES[slot.element]
            cells = memory[slot.offset : len(memory) - (len(memory) - slot.offset) % size]
            self.columns[slot.field] = Column(
                cells_of(cells, slot.element), slot.row_stride // size, slot.row_elements
            )

    def read(self) -> Completion:
        """The record as it is now."""
        columns = self.columns
        rows = columns[CompletionField.RECORD_ROWS].at(0)
        return Completion(
            sequence=columns[CompletionField.RECORD_SEQUENCE].at(0),
            frame=columns[CompletionField.RECORD_FRAME].at(0),
            program=columns[CompletionField.RECORD_PROGRAM].at(0),
            status=columns[CompletionField.RECORD_STATUS].at(0),
            rows=rows,
            lanes=tuple(self.lane(index) for index in range(min(rows, self.most_rows))),
        )

    def lane(self, index: int) -> LaneRecord:
        """One lane's part."""
        columns = self.columns
        tokens = columns[CompletionField.LANE_TOKENS]
        emitted = columns[CompletionField.LANE_EMITTED].at(index)
        start = index * tokens.step
        return LaneRecord(
            slot=columns[CompletionField.LANE_SLOT].at(index),
            generation=columns[CompletionField.LANE_GENERATION].at(index),
            consumed=columns[CompletionField.LANE_CONSUMED].at(index),
            emitted=emitted,
            tokens=tuple(tokens.cells[start : start + min(emitted, tokens.width)]),
            offered=columns[CompletionField.LANE_OFFERED].at(index),
            accepted=columns[CompletionField.LANE_ACCEPTED].at(index),
            cursor=columns[CompletionField.LANE_DRAFT_CURSOR].at(index),
            reserved=columns[CompletionField.LANE_RESERVED].at(index),
            finish=columns[CompletionField.LANE_FINISH].at(index),
        )
