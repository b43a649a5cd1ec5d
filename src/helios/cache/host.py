"""The host tier: nodes whose pages have moved to host slots, and transfers under way.

Knows numbers only: the worker performs each copy and says how it ended.  A transfer holds the
page and the slot it copies between, so both stay whatever happens to the entry meanwhile.

Always: a transfer's page and slot are neither free nor idle; an entry on its way back is not
matched (`Transfer`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

from msgspec import Struct

from helios.cache.entries import Entry, Gone, Leaving, OnDevice, OnHost, Returning
from helios.cache.pool import Pool
from helios.cache.shelf import Shelf
from helios.values import HostSlot, PageId

Ticket = NewType("Ticket", int)


class Direction(Enum):
    """Which way a page is copied."""

    TO_HOST = "to host"
    TO_DEVICE = "to device"


class Transfer(Struct, frozen=True, kw_only=True):
    """One page to copy between the device and a host slot; the worker reports its ticket."""

    ticket: Ticket
    direction: Direction
    page: PageId
    slot: HostSlot


def slot_pool(total: int) -> Pool[HostSlot]:
    """So many host slots, all free."""
    return Pool[HostSlot](total, kind="slot")


@dataclass(slots=True)
class HostTier:
    """Transfers of the shelf's pages."""

    shelf: Shelf
    _under_way: dict[Ticket, tuple[Transfer, Entry]] = field(default_factory=dict)
    _last: int = 0

    def offload(self, count: int) -> tuple[Transfer, ...]:
        """Begin to move up to `count` idle pages, least recently used first."""
        shelf, begun = self.shelf, list[Transfer]()
        for entry, where in shelf.least_used():
            slot = shelf.free_slot() if len(begun) < count else None
            if slot is None:
                break
            shelf.pages.share((where.page,))
            entry.where = Leaving(where.page)
            begun.append(self._begin(entry, Direction.TO_HOST, page=where.page, slot=slot))
        return tuple(begun)

    def load(self, entry: Entry, page: PageId) -> Transfer:
        """Begin to bring an entry back into a page that the caller holds."""
        assert isinstance(entry.where, OnHost), f"{entry.where} is not on the host"
        slot = entry.where.slot
        self.shelf.slots.share((slot,))
        self.shelf.vacate(entry)
        entry.where = Returning()
        self.shelf.pages.share((page,))
        return self._begin(entry, Direction.TO_DEVICE, page=page, slot=slot)

    def _begin(
        self, entry: Entry, direction: Direction, *, page: PageId, slot: HostSlot
    ) -> Transfer:
        """The page and the slot have a holder for it."""
        self._last += 1
        transfer = Transfer(ticket=Ticket(self._last), direction=direction, page=page, slot=slot)
        self._under_way[transfer.ticket] = (transfer, entry)
        return transfer

    def saved(self, ticket: Ticket) -> None:
        """A page is on the host; if somebody has come to use it, it stays on the device."""
        transfer, entry = self._end(ticket, Direction.TO_HOST)
        self.shelf.pages.give_back((transfer.page,))
        if isinstance(entry.where, Leaving):
            if self.shelf.pages.is_idle(transfer.page):
                self.shelf.vacate(entry)
                self.shelf.settle(entry, OnHost(transfer.slot))
            else:
                entry.where = OnDevice(transfer.page)
        self.shelf.slots.give_back((transfer.slot,))

    def loaded(self, ticket: Ticket) -> None:
        """A page is back; the tree holds it, whether or not who asked for it still does."""
        transfer, entry = self._end(ticket, Direction.TO_DEVICE)
        if isinstance(entry.where, Returning):
            self.shelf.settle(entry, OnDevice(transfer.page))
        self._let_go(transfer)

    def failed(self, ticket: Ticket) -> None:
        """Nothing was copied; the entry is where it was (AH-18)."""
        transfer, entry = self._end(ticket, self._under_way[ticket][0].direction)
        if isinstance(entry.where, Leaving):
            entry.where = OnDevice(transfer.page)
        elif isinstance(entry.where, Returning):
            self.shelf.settle(entry, OnHost(transfer.slot))
        else:
            assert isinstance(entry.where, Gone), f"{entry.where} was under way"
        self._let_go(transfer)

    def _end(self, ticket: Ticket, direction: Direction) -> tuple[Transfer, Entry]:
        transfer, entry = self._under_way.pop(ticket)
        assert transfer.direction is direction, f"ticket {ticket} went {transfer.direction.value}"
        return transfer, entry

    def _let_go(self, transfer: Transfer) -> None:
        self.shelf.pages.give_back((transfer.page,))
        self.shelf.slots.give_back((transfer.slot,))

    def under_way(self) -> Iterable[Transfer]:
        """Transfers that have not ended."""
        return [transfer for transfer, _ in self._under_way.values()]
