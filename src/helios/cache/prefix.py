"""The prefix tree: what earlier requests have computed, found again to the token (AH-08).

A match shares whole pages as they are; inside the next page it names what to copy into a private
one, the leading records of a page or of a continuation row (AH-15, AH-16).  A publication has two
steps, because a snapshot counts only once its fence has passed well (AH-14, AH-18).

Always: reuse never passes the first symbol that differs, nor ends inside an image; whatever a
match or a publication names has a holder until it is let go (`audit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count as count_up

from helios.cache.content import Content, Key
from helios.cache.entries import (
    Entry,
    InRow,
    Leaving,
    OnDevice,
    OnHost,
    Returning,
    Symbols,
)
from helios.cache.host import HostTier, Transfer, slot_pool
from helios.cache.matches import FromPage, FromRow, Match, Publication, Stop, Walk
from helios.cache.pages import PagePool, pages_for
from helios.cache.rows import RowPool
from helios.cache.shelf import Shelf
from helios.values import HostSlot, PageId, SnapshotRow


@dataclass(slots=True)
class MatchHold:
    """A match that is nobody's yet; released unless kept."""

    match: Match
    kept: bool = False

    def keep(self) -> Match:
        """The match's holders now belong to the caller."""
        self.kept = True
        return self.match


@dataclass(slots=True)
class PrefixTree:
    """Published contents of all requests."""

    pages: PagePool
    rows: RowPool
    page_tokens: int
    host_slots: int = 0
    snapshots: int = 0  # continuation rows published so far
    host: HostTier = field(init=False)
    _shelf: Shelf = field(init=False)
    _open: dict[int, Publication] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count_up(1))

    def __post_init__(self) -> None:
        """Nothing is published."""
        self._shelf = Shelf(self.pages, self.rows, slot_pool(self.host_slots))
        self.host = HostTier(self._shelf)

    # ------------------------------------------------------------ finding

    def match(self, content: Content, key: Key, *, most: int) -> Match:
        """The longest reuse of at most `most` tokens; the caller holds what it names."""
        walk = self._available(content, self._walk(content, key, most))
        self._shelf.touch(reversed(walk.entries))
        pages: list[PageId] = []
        rows: list[SnapshotRow] = []
        on_host: list[Entry] = []
        for entry in walk.entries:
            match entry.where:
                case OnDevice(page=page) | Leaving(page=page):
                    pages.append(page)
                case InRow(row=row):
                    rows.append(row)
                case _:
                    on_host.append(entry)
        self.pages.share(pages)
        self.rows.share(rows)
        loads = self._load(on_host)
        if loads:
            pages = self._in_order(walk.entries, loads, pages)
        return self._matched(walk, pages, rows, loads)

    def _matched(
        self, walk: Walk, pages: list[PageId], rows: list[SnapshotRow], loads: tuple[Transfer, ...]
    ) -> Match:
        """The walk's match; the last entry is a source when only part of it is used."""
        part = walk.tokens % self.page_tokens
        source: FromPage | FromRow | None = None
        if rows:
            source = FromRow(rows[0], part)
        elif part:
            source = FromPage(pages.pop(), part)
        return Match(
            tokens=walk.tokens, pages=tuple(pages), source=source, loads=loads, stop=walk.stop
        )

    @contextmanager
    def hold_match(self, content: Content, key: Key, *, most: int) -> Iterator[MatchHold]:
        """Match; release it unless the block said `keep()`."""
        hold = MatchHold(self.match(content, key, most=most))
        try:
            yield hold
        finally:
            if not hold.kept:
                self.release(hold.match)

    def release(self, found: Match) -> None:
        """Nobody will use this match."""
        self.pages.give_back(found.pages)
        self.release_source(found)

    def release_source(self, found: Match) -> None:
        """The restoration's fence has passed (AH-17); the pages are the lane's."""
        match found.source:
            case FromPage(page=page):
                self.pages.give_back((page,))
            case FromRow(row=row):
                self.rows.give_back((row,))

    def _walk(self, content: Content, key: Key, most: int) -> Walk:  # hot
        """Follow the content as far as it goes."""
        limit, size = min(most, len(content.symbols)), self.page_tokens
        at = self._shelf.roots.get(key)
        if at is None:
            return Walk(entries=(), tokens=0, stop=self._no_root(content, key, limit))
        entries: list[Entry] = []
        tokens, symbols = 0, content.symbols
        while tokens + size <= limit:
            below = at.below.get(symbols[tokens : tokens + size])
            if below is None:
                break
            entries.append(below)
            at = below
            tokens += size
        near, shared = at.nearest(symbols[tokens : min(tokens + size, limit)])
        stop = self._stop(at, symbols[tokens : tokens + size], at_limit=tokens + shared == limit)
        if near is not None:
            entries.append(near)
        return self._cut(content, entries, tokens=tokens + shared, stop=stop)

    def _cut(self, content: Content, entries: list[Entry], *, tokens: int, stop: Stop) -> Walk:
        """No more than these tokens, and no part of an image's span."""
        whole = content.cut(tokens)
        return Walk(
            entries=tuple(entries[: pages_for(whole, page_tokens=self.page_tokens)]),
            tokens=whole,
            stop=stop if whole == tokens else Stop.IMAGE,
        )

    def _stop(self, at: Entry, wanted: Symbols, *, at_limit: bool) -> Stop:
        """Why the walk ended at an entry."""
        if at_limit:
            return Stop.LIMIT
        if self._shelf.was_dropped(at.trace, wanted):
            return Stop.EVICTED
        return Stop.DIVERGED if at.below else Stop.ENDED

    def _no_root(self, content: Content, key: Key, limit: int) -> Stop:
        """Why the walk did not begin."""
        if not limit:
            return Stop.LIMIT
        if self._shelf.was_dropped(hash(key), content.symbols[: self.page_tokens]):
            return Stop.EVICTED
        return Stop.UNKNOWN_KEY if self._shelf.roots else Stop.EMPTY

    # --------------------------------------------------------- publishing

    def prepare(self, content: Content, key: Key, pages: tuple[PageId, ...]) -> Publication | None:
        """Hold a content's full pages, and a row for the rest; nothing when nothing is new.

        The row is free or the least recently used tail's; when each row is in use, the full
        pages alone are published.
        """
        full = len(content.symbols) // self.page_tokens
        assert len(pages) >= full, f"{len(pages)} pages hold {full} full ones"
        walk = self._walk(content, key, len(content.symbols))
        row = None
        if len(content.symbols) % self.page_tokens and walk.tokens < len(content.symbols):
            row = self._shelf.free_row()
        if row is None and walk.tokens >= full * self.page_tokens:
            return None
        self.pages.share(pages[:full])
        publication = Publication(
            number=next(self._numbers), content=content, key=key, pages=pages[:full], row=row
        )
        self._open[publication.number] = publication
        return publication

    def complete(self, publication: Publication) -> None:
        """The fence has passed well: the content can be found.

        An entry that is there already stays, and the lane's copy of its page stays the lane's.
        """
        size, symbols = self.page_tokens, publication.content.symbols
        at = self._shelf.root(publication.key)
        path = []
        for index, page in enumerate(publication.pages):
            at = self._keep_page(at, symbols[index * size : (index + 1) * size], page)
            path.append(at)
        if publication.row is not None:
            tail = symbols[len(publication.pages) * size :]
            if not at.covers(tail):
                path.append(self._shelf.add(at, tail, InRow(publication.row)))
                self.snapshots += 1
        self._shelf.touch(reversed(path))
        self._let_go(publication)

    def abandon(self, publication: Publication) -> None:
        """The work failed or was cancelled: nobody ever finds it (AH-18)."""
        self._let_go(publication)

    def _keep_page(self, above: Entry, symbols: Symbols, page: PageId) -> Entry:
        """The entry for a full page; one whose payload is on the host comes back with it."""
        entry = above.below.get(symbols)
        if entry is None:
            return self._shelf.add(above, symbols, OnDevice(page))
        if isinstance(entry.where, OnHost):
            self._shelf.vacate(entry)
            self._shelf.settle(entry, OnDevice(page))
        return entry

    def _let_go(self, publication: Publication) -> None:
        del self._open[publication.number]
        self.pages.give_back(publication.pages)
        if publication.row is not None:
            self.rows.give_back((publication.row,))

    # ------------------------------------------------------------ evicting

    @property
    def evicted(self) -> int:
        """Entries that were dropped so far."""
        return self._shelf.dropped

    @property
    def reclaimable(self) -> int:
        """Pages that `reclaim` can free."""
        return self.pages.idle

    def reclaim(self, count: int) -> int:
        """Free `count` pages that only the tree holds, or all; least recently used first."""
        return self._shelf.reclaim(count)

    def forget_all(self) -> None:
        """Nothing published is found any more, and counts begin anew; what is in use stays."""
        self._shelf.drop_all()
        self.snapshots = self._shelf.dropped = 0

    # ---------------------------------------------------------- host tier

    def _available(self, content: Content, walk: Walk) -> Walk:
        """Cut a walk before a page in transfer, or one that finds no room on the device."""
        if not self.host_slots:
            return walk
        room = self.pages.free + self.pages.idle
        for index, entry in enumerate(walk.entries):
            stop = Stop.NO_ROOM
            match entry.where:
                case OnDevice(page=page):
                    room -= self.pages.is_idle(page)
                case OnHost():
                    room -= 1
                case Returning():
                    stop, room = Stop.IN_TRANSFER, -1
            if room < 0:
                tokens = index * self.page_tokens
                return self._cut(content, list(walk.entries), tokens=tokens, stop=stop)
        return walk

    def _load(self, entries: list[Entry]) -> tuple[Transfer, ...]:
        """Begin to bring entries back; there is room, and what the match needs is held."""
        if not entries:
            return ()
        self._shelf.reclaim(len(entries) - self.pages.free)
        fresh = self.pages.take(len(entries))
        return tuple(
            self.host.load(entry, page) for entry, page in zip(entries, fresh, strict=True)
        )

    def _in_order(
        self, entries: tuple[Entry, ...], loads: tuple[Transfer, ...], pages: list[PageId]
    ) -> list[PageId]:
        """Pages that were here and pages that come, in the order of their entries."""
        here, coming = iter(pages), iter(loads)
        ordered = []
        for entry in entries:
            match entry.where:
                case OnDevice() | Leaving():
                    ordered.append(next(here))
                case Returning():
                    ordered.append(next(coming).page)
        return ordered

    # --------------------------------------------------------------- proof

    def audit(self, pages: Iterable[PageId], rows: Iterable[SnapshotRow] = ()) -> None:
        """Prove every holder: the tree, transfers, publications, and those given."""
        self._shelf.audit(page_tokens=self.page_tokens)
        paged, rowed, slotted = Counter(pages), Counter(rows), Counter[HostSlot]()
        for entry in self._shelf.entries():
            match entry.where:
                case OnDevice(page=page) | Leaving(page=page):
                    paged[page] += 1
                case OnHost(slot=slot):
                    slotted[slot] += 1
                case InRow(row=row):
                    rowed[row] += 1
        for transfer in self.host.under_way():
            paged[transfer.page] += 1
            slotted[transfer.slot] += 1
        for publication in self._open.values():
            paged.update(publication.pages)
            rowed.update(() if publication.row is None else (publication.row,))
        self.pages.audit_holders(paged)
        self.rows.audit_holders(rowed)
        self._shelf.slots.audit_holders(slotted)
