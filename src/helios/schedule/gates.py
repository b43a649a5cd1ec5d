"""Whether a waiting request can become a lane: now, later, or never."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from helios.cache.pages import pages_for
from helios.schedule.lanes import Reuse
from helios.schedule.queue import Waiting
from prepared.contract import Operation


class CacheView(msgspec.Struct, frozen=True, kw_only=True):
    """Pages as gates and plans see them."""

    page_tokens: int
    total_pages: int
    free_pages: int  # that nobody holds, or that only the prefix tree does


class Admitted(msgspec.Struct, frozen=True):
    """It is a lane now; what it found computed already."""

    reuse: Reuse


class MustWait(msgspec.Struct, frozen=True):
    """Pages are short for now."""

    short_pages: int


class Refused(msgspec.Struct, frozen=True):
    """This server can never hold it; the sentence says why."""

    why: str


Gate = Admitted | MustWait | Refused


def never(waiting: Waiting, cache: CacheView, operations: Container[Operation]) -> Refused | None:
    """Why a request can never be served here, if so."""
    if waiting.request.score_prompt and Operation.SCORED_PREFILL not in operations:
        return Refused("the core has no program that scores prompts")
    most = pages_for(waiting.request.most_tokens, page_tokens=cache.page_tokens)
    if most <= cache.total_pages:
        return None
    return Refused(
        f"the request may need {most} pages of {cache.page_tokens} tokens, "
        f"the cache has {cache.total_pages}"
    )


def short_pages(
    waiting: Waiting, cache: CacheView, *, shared_pages: int, promised_pages: int
) -> int:
    """Pages that a request lacks to become a lane, with some promised to lanes that grow.

    A lane takes pages as it grows; at the door it needs those of the tokens it will feed and
    of the first one it samples, unless that one is its last and so is never kept.
    """
    soon = min(waiting.tokens + 1, waiting.request.most_tokens)
    needed = pages_for(soon, page_tokens=cache.page_tokens) - shared_pages
    return max(0, needed + promised_pages - cache.free_pages)
