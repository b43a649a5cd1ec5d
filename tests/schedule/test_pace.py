"""A prompt is cut so that others get their next token in time, from what rounds have shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from helios.schedule.pace import LEAST_TOKENS, Pace


def test_a_prompt_begins_with_the_least_while_nothing_is_known() -> None:
    assert Pace().tokens_within(10**9) == LEAST_TOKENS


def test_the_first_round_is_believed_and_each_later_one_a_little() -> None:
    pace = Pace()
    pace.learn(100, 100_000)
    assert pace.tokens_within(50_000) == 50
    pace.learn(100, 500_000)
    assert pace.token_ns == 2000
    assert pace.tokens_within(50_000) == 25


def test_a_prompt_goes_on_however_slow_it_is() -> None:
    pace = Pace()
    pace.learn(1, 10**12)
    assert pace.tokens_within(1) == LEAST_TOKENS


@given(
    rounds=st.lists(st.tuples(st.integers(1, 512), st.integers(0, 10**9)), min_size=1),
    gap=st.integers(1, 10**9),
)
def test_a_chunk_at_the_slowest_pace_that_was_seen_fits_the_gap(
    rounds: list[tuple[int, int]], gap: int
) -> None:
    pace = Pace()
    for tokens, nanoseconds in rounds:
        pace.learn(tokens, nanoseconds)
    slowest = max(nanoseconds / tokens for tokens, nanoseconds in rounds)
    fastest = min(nanoseconds / tokens for tokens, nanoseconds in rounds)
    chunk = pace.tokens_within(gap)
    assert chunk >= LEAST_TOKENS
    assert pace.token_ns <= slowest * (1 + 1e-9)
    assert chunk == LEAST_TOKENS or chunk * fastest <= gap * (1 + 1e-9)
