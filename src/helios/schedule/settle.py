"""Checks of a completion against what was submitted, before any state moves (AH-13).

Every function returns what is wrong, as a sentence, or None.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from helios.rounds import Completion, LaneRecord, LaneWork, Submission
from prepared.manifest import FinishBits


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What the host knows of a lane, for judging its record."""

    over: bool  # the device has reported its end already, so it emits nothing more
    emitted: int  # tokens before this record
    output_limit: int
    eos_ids: Container[int]
    vocabulary: int


def record_problem(submission: Submission, completion: Completion) -> str | None:
    """What is wrong with a record as a whole."""
    for name in ("sequence", "frame", "program"):
        found, expected = getattr(completion, name), getattr(submission, name)
        if found != expected:
            return f"completion {name}: found {found}, expected {expected}"
    if completion.status:
        return f"completion status: found {completion.status}, expected 0"
    if completion.rows != len(submission.lanes):
        return f"completion rows: found {completion.rows}, expected {len(submission.lanes)}"
    return None


def lane_problem(work: LaneWork, record: LaneRecord, expected: Expected) -> str | None:
    """What is wrong with one lane's record."""
    pairs = (
        ("slot", record.slot, work.slot),
        ("generation", record.generation, work.generation),
        ("consumed", record.consumed, work.endpoint),
        ("offered", record.offered, 0),
        ("accepted", record.accepted, 0),
        ("draft cursor", record.cursor, -1),
        ("reserved field", record.reserved, -1),
        ("emitted", record.emitted, int(work.samples and not expected.over)),
    )
    for name, found, wanted in pairs:
        if found != wanted:
            return f"lane {name}: found {found}, expected {wanted}"
    for token in record.tokens:
        if not 0 <= token < expected.vocabulary:
            return f"lane token: found {token}, expected an id below {expected.vocabulary}"
    finish = finish_of(record.tokens, expected)
    # A device may stop a lane before its limit, never after.
    early = finish | FinishBits.OUTPUT_LIMIT if record.tokens else finish
    if not expected.over and record.finish not in (finish, early):
        return f"lane finish: found {record.finish}, expected {finish}"
    return None


def finish_of(tokens: tuple[int, ...], expected: Expected) -> int:
    """The finish bits that these tokens must have."""
    bits = FinishBits(0)
    if not tokens:
        return 0
    if tokens[-1] in expected.eos_ids:
        bits |= FinishBits.END_OF_SEQUENCE
    if expected.emitted + len(tokens) >= expected.output_limit:
        bits |= FinishBits.OUTPUT_LIMIT
    return int(bits)
