"""Spoilt markup: never an exception, never a closed call whose arguments are no JSON object."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helios.frontend.syntax.pieces import Piece
from tests.frontend.syntax.answers import ANSWERS
from tests.frontend.syntax.bench import TEXT, Bench, check_calls, grouped

JUNK = ['"', "}", "{", "\n", "<", "</", "\\", "é", ",", "'", ":", "=", ">", "  ", "]", "null", "0"]


@cache
def stage(at: int) -> tuple[Bench, list[Piece]]:
    answer = ANSWERS[at]
    bench = Bench(
        answer.tools,
        answer.reasoning,
        added=answer.added,
        special=answer.special,
        ends=answer.ends,
    )
    return bench, bench.characters(answer.text)


@pytest.mark.parametrize("at", range(len(ANSWERS)))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_spoilt_markup_is_read_the_same_in_every_cut(at: int, data: st.DataObject) -> None:
    bench, pieces = stage(at)
    spoilt = list(pieces)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, max(len(spoilt) - 1, 0)))
        end = min(len(spoilt), start + data.draw(st.integers(0, 30)))
        filling = data.draw(st.sampled_from(["cut", "twice", "junk"]))
        junk = [Piece(TEXT, data.draw(st.sampled_from(JUNK)))]
        spoilt[start:end] = {"cut": [], "twice": spoilt[start:end] * 2, "junk": junk}[filling]
    cuts = data.draw(st.frozensets(st.integers(0, len(spoilt)), max_size=12))
    options = {"truncated": data.draw(st.booleans()), "opaque": data.draw(st.booleans())}
    whole = bench.play(grouped(spoilt), **options)
    check_calls(whole)
    assert bench.play(grouped(spoilt, cuts=cuts), **options) == whole
    assert bench.play(spoilt, **options) == whole
