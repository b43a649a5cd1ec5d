"""Completion records: device bytes to frozen values, by the manifest's layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from typing import Any, Final

from msgspec.structs import replace

from helios.device.api import Device
from helios.execute.destinations import cells_of
from helios.rounds import Completion, Head, LaneRecord, LaneWork, Score, is_usual
from prepared.contract import ELEMENT_BYTES
from prepared.manifest import CompletionField, FinishBits


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a record: typed cells, the cells between lanes, and those of a lane."""

    cells: memoryview[Any]
    step: int
    width: int

    def at(self, lane: int) -> int:
        """The value of a lane; the record's own fields are lane 0."""
        return int(self.cells[lane * self.step])

    def first(self, count: int) -> list[int]:
        """The first value of each of the first rows."""
        found: list[int] = self.cells[: count * self.step : self.step].tolist()
        return found

    def row(self, index: int, count: int) -> tuple[Any, ...]:
        """The first values of a row, no more than it has."""
        start = index * self.step
        return tuple(self.cells[start : start + min(count, self.width)])


FORBIDDEN: Final = int(FinishBits.FORBIDDEN_TOKEN)  # a flag's own arithmetic is slow

Places = tuple[CompletionField, CompletionField, CompletionField]
LANE_SCORE: Final[Places] = (
    CompletionField.LANE_LOGPROB,
    CompletionField.LANE_TOP_IDS,
    CompletionField.LANE_TOP_LOGPROBS,
)
TOKEN_SCORE: Final[Places] = (
    CompletionField.TOKEN_LOGPROB,
    CompletionField.TOKEN_TOP_IDS,
    CompletionField.TOKEN_TOP_LOGPROBS,
)


HEAD: Final = (
    CompletionField.LANE_SLOT,
    CompletionField.LANE_GENERATION,
    CompletionField.LANE_CONSUMED,
    CompletionField.LANE_EMITTED,
    CompletionField.LANE_OFFERED,
    CompletionField.LANE_ACCEPTED,
    CompletionField.LANE_DRAFT_CURSOR,
    CompletionField.LANE_RESERVED,
    CompletionField.LANE_FINISH,
)


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

    def read(self, asked: Sequence[LaneWork] = ()) -> Completion:
        """The record as it is now: of usual lanes the token, of others all that was asked for."""
        columns = self.columns
        rows = columns[CompletionField.RECORD_ROWS].at(0)
        return Completion(
            sequence=columns[CompletionField.RECORD_SEQUENCE].at(0),
            frame=columns[CompletionField.RECORD_FRAME].at(0),
            program=columns[CompletionField.RECORD_PROGRAM].at(0),
            status=columns[CompletionField.RECORD_STATUS].at(0),
            rows=rows,
            lanes=self.lanes(min(rows, self.most_rows), asked),
        )

    # hot
    def lanes(self, count: int, asked: Sequence[LaneWork]) -> tuple[LaneRecord | int, ...]:
        """Every lane's part, read a column at a time."""
        columns = self.columns
        heads = zip(*(columns[name].first(count) for name in HEAD), strict=True)
        tokens = columns[CompletionField.LANE_TOKENS].first(count)
        lanes: list[LaneRecord | int] = []
        for index, (head, token, work) in enumerate(zip_longest(heads, tokens, asked[:count])):
            if work is not None and is_usual(work, head):
                lanes.append(token)
            else:
                lanes.append(self.record(index, head, asked))
        return tuple(lanes)

    def record(self, index: int, head: Head, asked: Sequence[LaneWork]) -> LaneRecord:
        """A lane's part, with the log-probabilities that it asked for."""
        slot, generation, consumed, emitted, offered, accepted, cursor, reserved, finish = head
        tokens = self.columns[CompletionField.LANE_TOKENS]
        record = LaneRecord(
            slot=slot,
            generation=generation,
            consumed=consumed,
            emitted=emitted,
            tokens=tokens.row(index, emitted),
            offered=offered,
            accepted=accepted,
            cursor=cursor,
            reserved=reserved,
            finish=finish,
            forbidden=tokens.at(index) if finish & FORBIDDEN else None,
        )
        if index >= len(asked) or (asked[index].logprobs is None and not asked[index].targets):
            return record
        first = sum(work.rows for work in asked[:index])
        return self.scored(record, asked[index], index=index, first=first)

    def scored(self, record: LaneRecord, work: LaneWork, *, index: int, first: int) -> LaneRecord:
        """A lane's part with its log-probabilities; its rows begin with packed token `first`."""
        count = work.logprobs or 0
        logprob, top = None, record.top
        if work.logprobs is not None and record.tokens:
            score = self.score(LANE_SCORE, index, count)
            logprob, top = score.logprob, score.top
        scores = (
            None if target < 0 else self.score(TOKEN_SCORE, first + row, count)
            for row, target in enumerate(work.targets)
        )
        return replace(record, logprob=logprob, top=top, scores=tuple(scores))

    def score(self, places: Places, index: int, count: int) -> Score:
        """A log-probability and up to `count` alternatives; the first negative id ends them."""
        chosen, ids, values = (self.columns[place] for place in places)
        pairs = zip(ids.row(index, count), values.row(index, count), strict=True)
        top = tuple(takewhile(lambda pair: pair[0] >= 0, pairs))
        return Score(logprob=chosen.row(index, 1)[0], top=top)
