"""Pages of cache storage: which are free, which are held, and by how many.

Knows numbers only.  What a page contains, and where, is the contract's business; why somebody
wants one is the scheduler's.

Always: free + held == total, and a page with two holders is read-only (`audit`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from helios.values import PageId


def pages_for(tokens: int, *, page_tokens: int) -> int:
    """Pages that hold `tokens` tokens; zero tokens need none."""
    return -(-tokens // page_tokens)


@dataclass(slots=True)
class Hold:
    """Pages taken but not yet anybody's; given back unless kept."""

    pages: tuple[PageId, ...]
    kept: bool = False

    def keep(self) -> tuple[PageId, ...]:
        """The pages now belong to the caller."""
        self.kept = True
        return self.pages


@dataclass(slots=True)
class PagePool:
    """All pages of a cache; low numbers are taken first, so untouched memory stays untouched."""

    total: int
    _free: list[PageId] = field(init=False)
    _holders: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Every page is free."""
        self._free = [PageId(page) for page in range(self.total)]
        self._holders = [0] * self.total

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    def take(self, count: int) -> tuple[PageId, ...]:
        """Hold `count` free pages; the caller has checked that there are so many."""
        assert count <= len(self._free), f"{count} pages wanted, {len(self._free)} free"
        taken = tuple(heapq.heappop(self._free) for _ in range(count))
        for page in taken:
            self._holders[page] = 1
        return taken

    def share(self, pages: Iterable[PageId]) -> None:
        """One more holder for each page."""
        for page in pages:
            assert self._holders[page], f"page {page} is free"
            self._holders[page] += 1

    def give_back(self, pages: Iterable[PageId]) -> None:
        """One holder fewer for each page; without holders it is free."""
        for page in pages:
            assert self._holders[page], f"page {page} is free already"
            self._holders[page] -= 1
            if not self._holders[page]:
                heapq.heappush(self._free, page)

    def holders(self, page: PageId) -> int:
        """How many hold a page."""
        return self._holders[page]

    def audit(self) -> None:
        """Prove that every page is accounted for."""
        held = sum(1 for holders in self._holders if holders)
        assert held + len(self._free) == self.total, f"{held} held, {len(self._free)} free"
        assert len(set(self._free)) == len(self._free), "a page is free twice"
        assert all(not self._holders[page] for page in self._free), "a free page has holders"


@contextmanager
def hold_pages(pool: PagePool, count: int) -> Iterator[Hold]:
    """Take pages; give them back unless the block said `keep()`."""
    hold = Hold(pool.take(count))
    try:
        yield hold
    finally:
        if not hold.kept:
            pool.give_back(hold.pages)
