"""The prefix tree's entries, in the order of their use, and how they are let go.

Owns the tree's holders of pages, rows and host slots; nobody else adds or drops an entry.  An
entry in use when somebody looks for the least recently used counts as used just then.

Always: each idle page can be reclaimed, so `pages.idle` says how many can.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from helios.cache.content import Key
from helios.cache.entries import (
    Entry,
    Gone,
    InRow,
    Leaving,
    OnDevice,
    OnHost,
    Returning,
    Root,
    Symbols,
)
from helios.cache.pages import PagePool
from helios.cache.pool import Pool
from helios.cache.rows import RowPool
from helios.values import HostSlot, SnapshotRow

Uses = OrderedDict[Entry, None]  # least recent first
Payload = OnDevice | OnHost | InRow


@dataclass(slots=True)
class Shelf:
    """All entries under all roots."""

    pages: PagePool
    rows: RowPool
    slots: Pool[HostSlot]
    roots: dict[Key, Entry] = field(default_factory=dict)
    dropped: int = 0  # entries that can be found no more
    _on_device: Uses = field(default_factory=OrderedDict)
    _on_host: Uses = field(default_factory=OrderedDict)
    _in_rows: Uses = field(default_factory=OrderedDict)
    _dropped: OrderedDict[int, None] = field(default_factory=OrderedDict)  # traces

    # --------------------------------------------------- entries come, go

    def root(self, key: Key) -> Entry:
        """A key's root, made when missing; whoever makes it puts something below."""
        if key not in self.roots:
            self.roots[key] = Entry(symbols=(), above=None, where=Root(key), trace=hash(key))
        return self.roots[key]

    def add(self, above: Entry, symbols: Symbols, payload: Payload) -> Entry:
        """A new entry; a tail that it begins with has become useless."""
        begun = above.begun_by(symbols)
        entry = Entry(
            symbols=symbols, above=above, where=payload, trace=hash((above.trace, symbols))
        )
        above.add(entry)
        self.settle(entry, payload)
        if begun is not None:
            self.drop(begun)
        self._dropped.pop(entry.trace, None)
        return entry

    def settle(self, entry: Entry, payload: Payload) -> None:
        """The entry's payload is here now, held by somebody; the tree holds it too."""
        match payload:
            case OnDevice(page=page):
                self.pages.adopt(page)
                self._on_device[entry] = None
            case OnHost(slot=slot):
                self.slots.adopt(slot)
                self._on_host[entry] = None
            case _:
                self.rows.adopt(payload.row)
                self._in_rows[entry] = None
        entry.where = payload

    def vacate(self, entry: Entry) -> None:
        """The tree lets go of the entry's payload; the caller says where the entry is now."""
        match entry.where:
            case OnDevice(page=page) | Leaving(page=page):
                self.pages.disown(page)
                del self._on_device[entry]
            case OnHost(slot=slot):
                self.slots.disown(slot)
                del self._on_host[entry]
            case InRow(row=row):
                self.rows.disown(row)
                del self._in_rows[entry]

    def drop(self, entry: Entry) -> None:
        """An entry and all below it are no longer found; whoever holds them still does."""
        assert entry.above is not None, "a root goes with its last entry"
        entry.above.remove(entry)
        if isinstance(entry.above.where, Root) and not entry.above.below:
            del self.roots[entry.above.where.key]
        rest = [entry]
        while rest:
            gone = rest.pop()
            rest.extend(gone.below.values())
            self.vacate(gone)
            gone.where = Gone()
            self.dropped += 1
            self._dropped[gone.trace] = None
        while len(self._dropped) > self.pages.total + self.slots.total:
            self._dropped.popitem(last=False)

    def drop_all(self) -> None:
        """Nothing is found any more."""
        for root in list(self.roots.values()):
            for entry in list(root.below.values()):
                self.drop(entry)
        self._dropped.clear()

    def was_dropped(self, trace: int, symbols: Symbols) -> bool:
        """Whether an entry with these symbols was there not long ago."""
        return hash((trace, symbols)) in self._dropped

    # ----------------------------------------------------- order of use

    def touch(self, path: Iterable[Entry]) -> None:  # hot
        """Entries are used now, the last one longest ago: put deeper entries first."""
        for entry in path:
            match entry.where:
                case OnDevice() | Leaving():
                    self._on_device.move_to_end(entry)
                case InRow():
                    self._in_rows.move_to_end(entry)
                case OnHost():
                    self._on_host.move_to_end(entry)

    def least_used(self) -> Iterator[tuple[Entry, OnDevice]]:
        """Entries whose pages are idle, least recently used first, each once."""
        for _ in range(len(self._on_device)):
            entry = next(iter(self._on_device))
            where = entry.where
            if isinstance(where, OnDevice) and self.pages.is_idle(where.page):
                yield entry, where
            if entry in self._on_device:
                self._on_device.move_to_end(entry)

    def reclaim(self, count: int) -> int:
        """Free `count` idle pages, or all there are; how many were freed."""
        before = self.pages.free
        while self.pages.idle and self.pages.free - before < count:
            if not self._reclaim_leaves(before + count):
                # Whatever is below these is held by lanes that did not come this way: they
                # keep their pages, only nobody finds them.
                self.drop(next(entry for entry, _ in self.least_used()))
        return self.pages.free - before

    def _reclaim_leaves(self, enough: int) -> bool:
        """Drop idle nodes with no node below until enough pages are free; whether any was."""
        before = self.pages.free
        for entry, _ in self.least_used():
            if not entry.nodes:
                self.drop(entry)
            if self.pages.free >= enough:
                break
        return self.pages.free > before

    def free_row(self) -> SnapshotRow | None:
        """A row for a snapshot, the least recently used tail's if need be."""
        if not self.rows.free and self.rows.idle:
            self.drop(next(tail for tail in self._in_rows if self._is_idle(tail)))
        return self.rows.take(1)[0] if self.rows.free else None

    def _is_idle(self, tail: Entry) -> bool:
        return isinstance(tail.where, InRow) and self.rows.is_idle(tail.where.row)

    def free_slot(self) -> HostSlot | None:
        """A host slot, that of the least recently used node with none below if need be."""
        if not self.slots.free:
            leaf = next((entry for entry in self._on_host if not entry.nodes), None)
            if leaf is None:
                return None
            self.drop(leaf)
        return self.slots.take(1)[0]

    # ------------------------------------------------------------- proof

    def entries(self) -> Iterator[Entry]:
        """Every entry that can be found, those above first."""
        rest = list(self.roots.values())
        while rest:
            entry = rest.pop()
            rest.extend(entry.below.values())
            if not isinstance(entry.where, Root):
                yield entry

    def audit(self, *, page_tokens: int) -> None:
        """Prove that entries, their order and their payloads agree."""
        found = list(self.entries())
        assert all(root.below for root in self.roots.values()), "a root has nothing below"
        for entry in [*found, *self.roots.values()]:
            assert not isinstance(entry.where, Gone), "an entry that is gone can be found"
            assert entry.order == sorted(entry.below), "entries are out of order"
            assert all(below.above is entry for below in entry.below.values()), "a wrong parent"
            tails = [below for below in entry.below.values() if isinstance(below.where, InRow)]
            assert entry.nodes == len(entry.below) - len(tails), "nodes are miscounted"
            for tail in tails:
                alike = [s for s in entry.order if s[: len(tail.symbols)] == tail.symbols]
                assert alike == [tail.symbols], "a tail is covered by another entry"
        for uses, kinds, length in (
            (self._on_device, (OnDevice, Leaving), range(page_tokens, page_tokens + 1)),
            (self._on_host, (OnHost,), range(page_tokens, page_tokens + 1)),
            (self._in_rows, (InRow,), range(1, page_tokens)),
        ):
            here = {entry for entry in found if isinstance(entry.where, kinds)}
            assert set(uses) == here, "the order of use lacks an entry"
            assert all(len(entry.symbols) in length for entry in here), "a wrong length"
        returning = [entry for entry in found if isinstance(entry.where, Returning)]
        listed = len(self._on_device) + len(self._on_host) + len(self._in_rows)
        assert len(returning) + listed == len(found), "an entry is listed twice"
