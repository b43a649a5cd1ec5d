"""Limits on how much of a lane one round may take; each reason is one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from helios.schedule.lanes import LaneView


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a round has left to give."""

    round_tokens: int
    program_row_tokens: int
    page_tokens: int
    free_pages: int
    held_pages: int  # by the lane
    gap_tokens: int | None = None  # while others wait for their next token


Cap = Callable[[LaneView, Budget], int]


def prompt_left(lane: LaneView, _budget: Budget) -> int:
    """Tokens that were not fed yet."""
    return lane.known - lane.submitted


def round_left(_lane: LaneView, budget: Budget) -> int:
    """Rows that the round's program still has."""
    return budget.round_tokens


def program_width(_lane: LaneView, budget: Budget) -> int:
    """Rows that one lane may have in the program."""
    return budget.program_row_tokens


def pages_left(lane: LaneView, budget: Budget) -> int:
    """Tokens that fit the lane's pages and the free ones."""
    return (budget.held_pages + budget.free_pages) * budget.page_tokens - lane.submitted


def gap_left(lane: LaneView, budget: Budget) -> int:
    """Rows that keep the token gap of lanes that decode within its bound."""
    return lane.known if budget.gap_tokens is None else budget.gap_tokens


PREFILL_CAPS: Final[tuple[Cap, ...]] = (
    prompt_left,
    round_left,
    program_width,
    pages_left,
    gap_left,
)


def prefill_tokens(lane: LaneView, budget: Budget, caps: Sequence[Cap] = PREFILL_CAPS) -> int:
    """How many prompt tokens this lane may feed in this round."""
    return max(0, min(cap(lane, budget) for cap in caps))
