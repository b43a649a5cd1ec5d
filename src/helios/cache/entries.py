"""Entries of the prefix tree: what each continues, what continues it, and where its payload is.

An entry with as many symbols as a page has tokens is a *node*, and its payload a page, on the
device or on the host; one with fewer is a *tail*, and its payload a continuation row.

Always: no tail's symbols begin another entry beside it, so that the entry which shares most
with a query stands next to the query's place in the order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from msgspec import Struct

from helios.cache.content import Key
from helios.values import HostSlot, PageId, SnapshotRow

Symbols = tuple[int, ...]


class Root(Struct, frozen=True):
    """Nothing precedes it; it has no payload."""

    key: Key


class OnDevice(Struct, frozen=True):
    """In a page that the tree holds."""

    page: PageId


class Leaving(Struct, frozen=True):
    """In a page that the tree holds, on its way to the host."""

    page: PageId


class OnHost(Struct, frozen=True):
    """In a host slot."""

    slot: HostSlot


class Returning(Struct, frozen=True):
    """On its way to the device; its transfer holds both ends."""


class InRow(Struct, frozen=True):
    """In a continuation row that the tree holds."""

    row: SnapshotRow


class Gone(Struct, frozen=True):
    """The tree has let go of it."""


Where = Root | OnDevice | Leaving | OnHost | Returning | InRow | Gone


@dataclass(slots=True, eq=False)
class Entry:
    """One page's worth of symbols or fewer, after everything above it."""

    symbols: Symbols
    above: Entry | None = field(repr=False)
    where: Where
    trace: int  # a hash of all symbols from the root on
    nodes: int = 0  # entries below that are nodes
    below: dict[Symbols, Entry] = field(default_factory=dict, repr=False)
    order: list[Symbols] = field(default_factory=list, repr=False)

    def add(self, entry: Entry) -> None:
        """Put an entry below this one."""
        self.below[entry.symbols] = entry
        insort(self.order, entry.symbols)
        self.nodes += not isinstance(entry.where, InRow)

    def remove(self, entry: Entry) -> None:
        """Take an entry below this one out."""
        del self.below[entry.symbols]
        del self.order[bisect_left(self.order, entry.symbols)]
        self.nodes -= not isinstance(entry.where, InRow)

    def nearest(self, symbols: Symbols) -> tuple[Entry | None, int]:
        """The entry below that shares most leading symbols, and how many; none shares none."""
        place = bisect_left(self.order, symbols)
        best, most = None, 0
        for near in self.order[max(0, place - 1) : place + 1]:
            shared = common(near, symbols)
            if shared > most:
                best, most = self.below[near], shared
        return best, most

    def covers(self, symbols: Symbols) -> bool:
        """Whether an entry below begins with these symbols."""
        return self.nearest(symbols)[1] == len(symbols)

    def begun_by(self, symbols: Symbols) -> Entry | None:
        """The tail below that these symbols begin with."""
        near, shared = self.nearest(symbols)
        return near if near is not None and shared == len(near.symbols) else None


def common(one: Symbols, other: Symbols) -> int:
    """How many leading symbols are the same."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
