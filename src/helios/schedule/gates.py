"""Whether a waiting request can become a lane: now, later, or never."""

from __future__ import annotations

import msgspec

from helios.cache.pages import pages_for
from helios.schedule.queue import Waiting


class CacheView(msgspec.Struct, frozen=True, kw_only=True):
    """Pages as gates and plans see them."""

    page_tokens: int
    total_pages: int
    free_pages: int


class Admitted(msgspec.Struct, frozen=True):
    """It can become a lane now."""


class MustWait(msgspec.Struct, frozen=True):
    """Pages are short for now."""

    short_pages: int


class Refused(msgspec.Struct, frozen=True):
    """This server can never hold it; the sentence says why."""

    why: str


Gate = Admitted | MustWait | Refused


def admit(waiting: Waiting, cache: CacheView, *, reserved_pages: int) -> Gate:
    """Whether a request can become a lane, with `reserved_pages` promised to lanes that grow.

    A lane takes pages as it grows; at the door it needs those of the tokens it will feed and
    of the first one it samples, unless that one is its last and so is never kept.
    """
    most = pages_for(waiting.request.most_tokens, page_tokens=cache.page_tokens)
    if most > cache.total_pages:
        return Refused(
            f"the request may need {most} pages of {cache.page_tokens} tokens, "
            f"the cache has {cache.total_pages}"
        )
    soon = min(waiting.tokens + 1, waiting.request.most_tokens)
    needed = pages_for(soon, page_tokens=cache.page_tokens)
    short = needed + reserved_pages - cache.free_pages
    return MustWait(short) if short > 0 else Admitted()
