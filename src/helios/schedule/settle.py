"""Checks of a completion against what was submitted, before any state moves (AH-13).

Every function returns what is wrong, as a sentence, or None.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import isfinite
from typing import Final

import msgspec

from helios.rounds import Completion, LaneRecord, LaneWork, Submission
from prepared.manifest import FinishBits

END: Final = int(FinishBits.END_OF_SEQUENCE)
LIMIT: Final = int(FinishBits.OUTPUT_LIMIT)
"""Plain numbers: a flag's own arithmetic costs as much as all other checks of a lane."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What the host knows of a lane, for judging its record."""

    over: bool  # the device has reported its end already, so it emits nothing more
    emitted: int  # tokens before this record
    output_limit: int
    eos_ids: Container[int]
    vocabulary: int


def record_problem(
    submission: Submission, completion: Completion, *, packed_tokens: int
) -> str | None:
    """What is wrong with a record as a whole."""
    for name in ("sequence", "frame", "program"):
        found, expected = getattr(completion, name), getattr(submission, name)
        if found != expected:
            return f"completion {name}: found {found}, expected {expected}"
    if completion.status:
        return f"completion status: found {completion.status}, expected 0"
    offers = len(completion.lanes)
    offers += sum(said.offered for said in completion.lanes if isinstance(said, LaneRecord))
    if completion.rows == len(submission.lanes) and offers > packed_tokens:
        return f"completion offers: found {offers} rows, expected at most {packed_tokens} (SG-30)"
    if completion.rows != len(submission.lanes):
        return f"completion rows: found {completion.rows}, expected {len(submission.lanes)}"
    return None


def lane_problem(work: LaneWork, record: LaneRecord, expected: Expected) -> str | None:
    """What is wrong with one lane's record."""
    failed = failure(record) if work.samples and not expected.over else None
    emits = work.samples and not expected.over and failed is None
    least, most = (1, work.ceiling) if emits else (0, 0)
    emitted = len(record.tokens)
    given_up = work.ceiling - max(1, emitted)  # rows of proposals that were not taken
    pairs = (
        ("slot", record.slot, work.slot, work.slot),
        ("generation", record.generation, work.generation, work.generation),
        ("emitted", record.emitted, least, most),
        ("tokens", emitted, record.emitted, record.emitted),
        ("consumed", record.consumed, work.endpoint - given_up, work.endpoint - given_up),
        ("accepted", record.accepted, max(0, emitted - 1), max(0, emitted - 1)),
        ("offered", record.offered, record.accepted, work.ceiling - 1),
        ("draft cursor", record.cursor, -1, -1),
        ("reserved field", record.reserved, -1, -1),
    )
    for name, found, low, high in pairs:
        if not low <= found <= high:
            wanted = low if low == high else f"{low} to {high}"
            return f"lane {name}: found {found}, expected {wanted}"
    if failed is not None:
        return failed
    for token in record.tokens:
        if not 0 <= token < expected.vocabulary:
            return f"lane token: found {token}, expected an id below {expected.vocabulary}"
    finish = finish_of(record.tokens, expected)
    # A device may stop a lane before its limit, never after.
    early = finish | LIMIT if record.tokens else finish
    if not expected.over and record.finish not in (finish, early):
        return f"lane finish: found {record.finish}, expected {finish}"
    return score_problem(work, record, expected)


def failure(record: LaneRecord) -> str | None:
    """Why the device could not sample this lane alone, by its finish bits."""
    if record.finish == FinishBits.NOTHING_ALLOWED:
        return "no token is allowed: grammar, bias and minimum output leave none to sample"
    if record.finish == FinishBits.FORBIDDEN_TOKEN:
        return f"token {record.forbidden} is forbidden by the grammar"
    if record.finish == FinishBits.EXECUTION_FAILED:
        return "the device reports that execution failed"
    return None


def score_problem(work: LaneWork, record: LaneRecord, expected: Expected) -> str | None:
    """What is wrong with a lane's log-probabilities; most lanes have none."""
    if work.logprobs is not None and record.tokens:
        if record.logprob is None or not isfinite(record.logprob):
            return f"lane log-probability: found {record.logprob}, expected a finite number"
        if problem := top_problem(record.top, expected):
            return problem
    if len(record.scores) != len(work.targets):
        return f"lane scores: found {len(record.scores)}, expected {len(work.targets)}"
    for score in record.scores:
        if score is None:
            continue
        if not isfinite(score.logprob):
            return f"lane score: found {score.logprob}, expected a finite number"
        if problem := top_problem(score.top, expected):
            return problem
    return None


def top_problem(top: Iterable[tuple[int, float]], expected: Expected) -> str | None:
    """What is wrong with alternatives."""
    for token, logprob in top:
        if not 0 <= token < expected.vocabulary:
            return f"lane alternative: found {token}, expected an id below {expected.vocabulary}"
        if not isfinite(logprob):
            return f"lane alternative: found {logprob}, expected a finite number"
    return None


def finish_of(tokens: tuple[int, ...], expected: Expected) -> int:
    """The finish bits that these tokens must have."""
    if not tokens:
        return 0
    ends = END if tokens[-1] in expected.eos_ids else 0
    limits = LIMIT if expected.emitted + len(tokens) >= expected.output_limit else 0
    return ends | limits
