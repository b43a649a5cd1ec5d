"""Whether a request becomes a lane: now, later or never."""

from __future__ import annotations

from collections.abc import Container

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helios.rounds import Finish
from helios.schedule.gates import Admitted, MustWait, Refused, never, short_pages
from prepared.contract import Operation
from tests.schedule.made import EVERY_PROGRAM, PROGRAMS, cache, entry, request, waiting
from tests.schedule.world import World

NOTHING: Container[Operation] = frozenset()


def test_a_request_whose_pages_are_free_lacks_none() -> None:
    wants = waiting(prompt_tokens=8)
    assert short_pages(wants, cache(free=3), shared_pages=0, promised_pages=0) == 0


@pytest.mark.clause("TO-39")
def test_a_request_whose_pages_are_short_waits_and_says_how_many() -> None:
    world = World(pages=4)
    world.start(waiting(1, prompt_tokens=10, output_limit=4))
    world.queue.add(waiting(2, prompt_tokens=8))
    assert world.admit() == MustWait(2)
    assert [waits.arrival for waits in world.queue] == [2]
    world.roster.audit()


def test_pages_promised_to_others_are_not_free() -> None:
    long = waiting(prompt_tokens=8)
    assert short_pages(long, cache(free=5), shared_pages=0, promised_pages=2) == 0
    assert short_pages(long, cache(free=5), shared_pages=0, promised_pages=3) == 1


def test_pages_that_are_shared_are_not_needed() -> None:
    long = waiting(prompt_tokens=8)
    assert short_pages(long, cache(free=1), shared_pages=2, promised_pages=0) == 0
    assert short_pages(long, cache(free=0), shared_pages=2, promised_pages=0) == 1


@pytest.mark.clause("OB-12", "TO-38")
def test_a_request_that_the_cache_can_never_hold_is_refused() -> None:
    gate = World(pages=10).roster.admit(waiting(prompt_tokens=38, output_limit=4))
    assert gate == Refused("the request may need 11 pages of 4 tokens, the cache has 10")


def test_a_request_for_scores_is_refused_where_nothing_scores() -> None:
    scored = entry(1, request(1, score_prompt=True))
    world = World(programs=PROGRAMS)
    assert world.roster.admit(scored) == Refused("the core has no program that scores prompts")
    assert isinstance(World(programs=EVERY_PROGRAM).roster.admit(scored), Admitted)


def test_the_last_token_of_a_request_needs_no_page() -> None:
    assert never(waiting(prompt_tokens=37, output_limit=4), cache(total=10), NOTHING) is None


def test_a_request_that_comes_back_needs_pages_for_what_it_has_emitted_too() -> None:
    back = waiting(prompt_tokens=8, output_limit=40, emitted=range(9))
    assert short_pages(back, cache(free=5), shared_pages=0, promised_pages=0) == 0
    assert short_pages(back, cache(free=4), shared_pages=0, promised_pages=0) == 1


@given(data=st.data(), prompt=st.integers(1, 40), limit=st.integers(1, 40), total=st.integers(1, 9))
def test_an_empty_cache_never_makes_a_request_wait(
    data: st.DataObject, prompt: int, limit: int, total: int
) -> None:
    emitted = data.draw(st.integers(0, limit - 1))
    whole = waiting(prompt_tokens=prompt, output_limit=limit, emitted=range(emitted))
    fits = prompt + limit - 1 <= 4 * total
    assert (never(whole, cache(total=total), NOTHING) is None) == fits
    if fits:
        view = cache(free=total, total=total)
        assert short_pages(whole, view, shared_pages=0, promised_pages=0) == 0


@pytest.mark.parametrize("prompt", range(1, 17))
def test_a_cache_full_of_what_others_left_never_makes_a_request_wait_for_ever(prompt: int) -> None:
    """What it would restore from may be the page that it lacks: then it computes that part."""
    world = World(slots=1, pages=4, rows=1, programs=EVERY_PROGRAM)
    for number in (1, 2, 3):
        limit = 17 - prompt
        world.start(waiting(number, prompt_tokens=prompt, output_limit=limit))
        world.run()
        assert [result.finish for result in world.endings(number)] == [Finish.OUTPUT_LIMIT]
        assert len(world.tokens(number)) == limit
