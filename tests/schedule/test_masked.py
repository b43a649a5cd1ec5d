"""Lanes under a grammar decode where there are masks: a token a round, and never with drafts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from helios.schedule.lanes import Phase
from helios.schedule.plan import by_operation, decode_round
from prepared.contract import Operation
from tests.schedule.made import PROGRAMS, cache, lane, program

DRAFTING = (*PROGRAMS, program(11, Operation.SPECULATIVE, rows=4, row_tokens=8))


@pytest.mark.parametrize(
    ("masked", "operation"), [(True, Operation.DECODE), (False, Operation.SPECULATIVE)]
)
def test_no_mask_meets_a_draft(*, masked: bool, operation: Operation) -> None:
    lanes = [
        lane(slot, Phase.DECODE, arrival=slot, tokens=4, submitted=4, pages=1) for slot in range(2)
    ]
    lanes[1] = replace(lanes[1], masked=masked)
    plan = decode_round(lanes, cache(free=100), by_operation(DRAFTING))
    assert plan is not None
    assert plan.program.operation is operation
    assert all(share.tokens == 1 for share in plan.shares) == masked
