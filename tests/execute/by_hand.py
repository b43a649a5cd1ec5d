"""Submissions made by hand, for operations in any order, and their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from helios.execute.executor import Executor
from helios.rounds import (
    Admission,
    Completion,
    LaneRecord,
    LaneWork,
    NewPage,
    Sampling,
    Submission,
    usual_record,
)
from helios.values import Generation, PageId, Sequence, Slot
from prepared.contract import Operation

GREEDY = Sampling(
    seed=0,
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)
ADMITTED = Admission(sampling=GREEDY, output_limit=4096, minimum_output=0, eos_ids=(), seen=())


def work(
    slot: int,
    *,
    tokens: tuple[int, ...] = (),
    start: int = 0,
    rows: int = 0,
    samples: bool = True,
    pages: Mapping[int, int] | None = None,
    **more: Any,
) -> LaneWork:
    """One lane of a round; `pages` are new entries of its page table."""
    return LaneWork(
        slot=Slot(slot),
        generation=Generation(1),
        tokens=tokens,
        start=start,
        endpoint=start + max(rows, len(tokens)),
        samples=samples,
        new_pages=tuple(NewPage(index=i, page=PageId(p)) for i, p in (pages or {}).items()),
        admission=more.pop("admission", None),
        **more,
    )


class Told(Completion, frozen=True, kw_only=True):
    """What the device says of a submission, every lane's record whole."""

    lanes: tuple[LaneRecord, ...]


def told(lanes: Iterable[LaneWork], completion: Completion) -> Told:
    """A completion with the whole records of its usual lanes too."""
    records = tuple(
        usual_record(lane, said) if isinstance(said, int) else said
        for lane, said in zip(lanes, completion.lanes, strict=True)
    )
    return Told(**{**msgspec.structs.asdict(completion), "lanes": records})


@dataclass
class Hand:
    """An executor, a round at a time."""

    executor: Executor
    rounds: int = 0

    def round(self, operation: Operation, *lanes: LaneWork, mixed_row: int | None = None) -> Told:
        """A round by the smallest program that holds it; its record, judged to be good."""
        tokens = sum(lane.endpoint - lane.start for lane in lanes)
        program = min(
            (
                view
                for view in self.executor.programs
                if view.operation is operation
                and view.rows >= len(lanes)
                and view.packed_tokens >= tokens
            ),
            key=lambda view: view.packed_tokens,
        )
        self.rounds += 1
        self.executor.submit(
            Submission(
                sequence=Sequence(self.rounds),
                frame=self.rounds % 2,
                program=program.id,
                lanes=lanes,
                mixed_row=mixed_row,
            )
        )
        while not (finished := list(self.executor.finished())):
            self.executor.wait(nanoseconds=10**9)
        completion = told(lanes, *finished)
        assert (completion.status, completion.sequence) == (0, self.rounds)
        assert [(lane.slot, lane.generation) for lane in completion.lanes] == [
            (lane.slot, 1) for lane in lanes
        ]
        return completion

    def admit(self, *slots: int) -> None:
        """A greedy request in each of these."""
        self.round(Operation.INITIALIZE, *(work(slot, admission=ADMITTED) for slot in slots))
