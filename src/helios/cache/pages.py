"""Pages of cache storage: which are free, which are held, and by how many.

Knows numbers only.  What a page contains, and where, is the contract's business; why somebody
wants one is the scheduler's.

Always: free + held == total, and a page with two holders is read-only (`Pool.audit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from helios.cache.pool import Pool
from helios.values import PageId

PagePool = Pool[PageId]


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


@contextmanager
def hold_pages(pool: PagePool, count: int) -> Iterator[Hold]:
    """Take pages; give them back unless the block said `keep()`."""
    hold = Hold(pool.take(count))
    try:
        yield hold
    finally:
        if not hold.kept:
            pool.give_back(hold.pages)
