"""Whether a request becomes a lane: now, later or never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helios.schedule.gates import Admitted, MustWait, Refused, admit
from tests.schedule.made import cache, waiting


def test_a_request_whose_pages_are_free_is_admitted() -> None:
    assert admit(waiting(prompt_tokens=8), cache(free=3), reserved_pages=0) == Admitted()


@pytest.mark.clause("TO-39")
def test_a_request_whose_pages_are_short_waits_and_says_how_many() -> None:
    assert admit(waiting(prompt_tokens=8), cache(free=1), reserved_pages=0) == MustWait(2)


def test_pages_promised_to_others_are_not_free() -> None:
    long = waiting(prompt_tokens=8)
    assert admit(long, cache(free=5), reserved_pages=2) == Admitted()
    assert admit(long, cache(free=5), reserved_pages=3) == MustWait(1)


@pytest.mark.clause("OB-12", "TO-38")
def test_a_request_that_the_cache_can_never_hold_is_refused() -> None:
    gate = admit(waiting(prompt_tokens=38, output_limit=4), cache(total=10), reserved_pages=0)
    assert gate == Refused("the request may need 11 pages of 4 tokens, the cache has 10")


def test_the_last_token_of_a_request_needs_no_page() -> None:
    fits = waiting(prompt_tokens=37, output_limit=4)
    assert admit(fits, cache(free=10, total=10), reserved_pages=0) == Admitted()


def test_a_request_that_comes_back_needs_pages_for_what_it_has_emitted_too() -> None:
    back = waiting(prompt_tokens=8, output_limit=40, emitted=range(9))
    assert admit(back, cache(free=5), reserved_pages=0) == Admitted()
    assert admit(back, cache(free=4), reserved_pages=0) == MustWait(1)


@given(data=st.data(), prompt=st.integers(1, 40), limit=st.integers(1, 40), total=st.integers(1, 9))
def test_an_empty_cache_never_makes_a_request_wait(
    data: st.DataObject, prompt: int, limit: int, total: int
) -> None:
    emitted = data.draw(st.integers(0, limit - 1))
    whole = waiting(prompt_tokens=prompt, output_limit=limit, emitted=range(emitted))
    gate = admit(whole, cache(free=total, total=total), reserved_pages=0)
    fits = prompt + limit - 1 <= 4 * total
    assert isinstance(gate, Admitted if fits else Refused)
