"""How much of a prompt one round takes: the smallest of the reasons, and never less than none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from helios.schedule.caps import PREFILL_CAPS, Budget, prefill_tokens
from helios.schedule.lanes import Phase
from tests.schedule.made import lane

AMPLE = Budget(
    round_tokens=1000, program_row_tokens=1000, page_tokens=4, free_pages=1000, held_pages=0
)


@pytest.mark.parametrize(
    ("budget", "tokens"),
    [
        pytest.param(AMPLE, 50, id="what_is_left_of_the_prompt"),
        pytest.param(replace(AMPLE, round_tokens=7), 7, id="what_the_round_has_left"),
        pytest.param(replace(AMPLE, program_row_tokens=9), 9, id="the_width_of_a_row"),
        pytest.param(replace(AMPLE, free_pages=3), 12, id="free_pages"),
        pytest.param(replace(AMPLE, free_pages=3, held_pages=2), 20, id="pages_it_holds_too"),
        pytest.param(replace(AMPLE, free_pages=0), 0, id="no_page"),
        pytest.param(replace(AMPLE, gap_tokens=6), 6, id="the_gap_of_those_who_wait"),
    ],
)
def test_each_reason_alone_limits_a_chunk(budget: Budget, tokens: int) -> None:
    assert prefill_tokens(lane(0, Phase.PREFILL, tokens=50), budget) == tokens


def test_a_page_that_is_partly_filled_takes_the_rest() -> None:
    half_full = lane(0, Phase.PREFILL, tokens=50, submitted=6, pages=2)
    assert prefill_tokens(half_full, replace(AMPLE, free_pages=0, held_pages=2)) == 2


def test_a_further_reason_is_one_more_function() -> None:
    caps = (*PREFILL_CAPS, lambda _lane, _budget: 5)
    assert prefill_tokens(lane(0, Phase.PREFILL, tokens=50), AMPLE, caps) == 5


@given(
    tokens=st.integers(0, 200),
    submitted=st.integers(0, 200),
    round_tokens=st.integers(0, 64),
    width=st.integers(1, 64),
    free=st.integers(0, 8),
    held=st.integers(0, 8),
)
def test_a_chunk_never_exceeds_prompt_round_row_or_pages(
    tokens: int, submitted: int, round_tokens: int, width: int, free: int, held: int
) -> None:
    budget = Budget(
        round_tokens=round_tokens,
        program_row_tokens=width,
        page_tokens=4,
        free_pages=free,
        held_pages=held,
    )
    chunk = prefill_tokens(lane(0, Phase.PREFILL, tokens=tokens, submitted=submitted), budget)
    assert 0 <= chunk <= min(round_tokens, width)
    assert chunk == 0 or submitted + chunk <= min(tokens, 4 * (free + held))
