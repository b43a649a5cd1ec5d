"""Pages: every one of them is accounted for, whatever is held, kept, shared and given back."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from helios.cache.pages import PagePool, hold_pages, pages_for
from helios.values import PageId

TOTAL = 7


class Abandoned(Exception):
    """Whoever held pages gave up."""


class PoolUnderUse(RuleBasedStateMachine):
    """Any order of holds, keeps, shares and releases leaves every page accounted for."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(TOTAL)
        self.kept: list[tuple[PageId, ...]] = []

    @rule(count=st.integers(0, TOTAL))
    def take(self, count: int) -> None:
        if count <= self.pool.free:
            self.kept.append(self.pool.take(count))

    @rule(count=st.integers(0, TOTAL), keep=st.booleans(), fails=st.booleans())
    def hold(self, count: int, keep: bool, fails: bool) -> None:
        if count > self.pool.free:
            return
        before = self.pool.free
        try:
            with hold_pages(self.pool, count) as hold:
                assert self.pool.free == before - count
                if keep:
                    self.kept.append(hold.keep())
                if fails:
                    raise Abandoned
        except Abandoned:
            assert fails
        assert self.pool.free == (before - count if keep else before)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        pages = data.draw(st.sampled_from(self.kept))
        self.pool.share(pages)
        self.kept.append(pages)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.pool.give_back(self.kept.pop(data.draw(st.integers(0, len(self.kept) - 1))))

    @invariant()
    def no_page_is_lost(self) -> None:
        self.pool.audit()
        assert self.pool.free + len(self.holders()) == TOTAL

    @invariant()
    def every_page_has_as_many_holders_as_took_or_shared_it(self) -> None:
        held = self.holders()
        assert [self.pool.holders(PageId(page)) for page in range(TOTAL)] == [
            held[PageId(page)] for page in range(TOTAL)
        ]

    def holders(self) -> Counter[PageId]:
        return Counter(page for pages in self.kept for page in pages)

    def teardown(self) -> None:
        for pages in self.kept:
            self.pool.give_back(pages)
        self.pool.audit()
        assert self.pool.free == TOTAL


TestPoolUnderUse = PoolUnderUse.TestCase
TestPoolUnderUse.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@given(tokens=st.integers(0, 1 << 40), page_tokens=st.integers(1, 4096))
def test_pages_hold_all_tokens_and_one_page_fewer_would_not(tokens: int, page_tokens: int) -> None:
    pages = pages_for(tokens, page_tokens=page_tokens)
    assert pages * page_tokens >= tokens
    assert (pages - 1) * page_tokens < tokens or pages == 0


def test_pages_that_were_used_are_used_again_first() -> None:
    pool = PagePool(1000)
    first = pool.take(3)
    pool.give_back(first)
    assert set(pool.take(3)) == set(first)


def test_more_pages_than_are_free_are_never_taken() -> None:
    pool = PagePool(2)
    with pytest.raises(AssertionError, match="3 pages wanted, 2 free"):
        pool.take(3)
    pool.audit()
    assert pool.free == 2


def test_a_page_is_given_back_once() -> None:
    pool = PagePool(2)
    pages = pool.take(1)
    pool.give_back(pages)
    with pytest.raises(AssertionError, match="page 0 is free already"):
        pool.give_back(pages)
    pool.audit()


def test_a_free_page_is_not_shared() -> None:
    with pytest.raises(AssertionError, match="page 1 is free"):
        PagePool(2).share([PageId(1)])


def test_a_shared_page_stays_until_its_last_holder_is_gone() -> None:
    pool = PagePool(1)
    pages = pool.take(1)
    pool.share(pages)
    pool.give_back(pages)
    assert (pool.free, pool.holders(pages[0])) == (0, 1)
    pool.give_back(pages)
    assert (pool.free, pool.holders(pages[0])) == (1, 0)
