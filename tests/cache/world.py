"""A made-up cache under a prefix tree: pages, rows and slots remember what was written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from helios.cache.content import Content, Key, content_of
from helios.cache.host import Direction, Transfer
from helios.cache.matches import FromPage, FromRow, Match, Publication
from helios.cache.pages import PagePool, pages_for
from helios.cache.prefix import PrefixTree
from helios.cache.rows import row_pool
from helios.values import HostSlot, PageId, SnapshotRow

SIZE = 4  # tokens of a page
KEY = Key(b"core")
Written = tuple[Key, tuple[int, ...]]  # everything a payload depends on


@dataclass(eq=False)
class Lane:
    """A request with all its pages."""

    content: Content
    key: Key
    match: Match
    pages: list[PageId]
    loading: set[int]
    restored: bool = False

    def held(self) -> list[PageId]:
        """Its pages, and the one it is restored from."""
        source = self.match.source
        held = isinstance(source, FromPage) and not self.restored
        return [*self.pages, *([source.page] if held and isinstance(source, FromPage) else [])]

    def held_rows(self) -> list[SnapshotRow]:
        """The row it is restored from."""
        source = self.match.source
        return [source.row] if isinstance(source, FromRow) and not self.restored else []


@dataclass
class World:
    """A tree, its pools and what the device and the host contain."""

    pages: int = 12
    rows: int = 2
    slots: int = 0
    lanes: list[Lane] = field(default_factory=list)
    in_pages: dict[PageId, Written] = field(default_factory=dict)
    in_rows: dict[SnapshotRow, Written] = field(default_factory=dict)
    in_slots: dict[HostSlot, Written] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tree = PrefixTree(
            PagePool(self.pages), row_pool(self.rows), page_tokens=SIZE, host_slots=self.slots
        )

    # ------------------------------------------------------------ requests

    def start(self, content: Content, key: Key = KEY, *, most: int | None = None) -> Lane | None:
        """Match, take what else is needed, compute the rest; None when there is no room."""
        tree, length = self.tree, len(content.symbols)
        with tree.hold_match(content, key, most=length if most is None else most) as hold:
            match = hold.match
            wanted = pages_for(length, page_tokens=SIZE) - len(match.pages)
            if wanted > tree.pages.free + tree.reclaimable:
                return None
            tree.reclaim(wanted - tree.pages.free)
            private = tree.pages.take(wanted)
            lane = Lane(content, key, hold.keep(), [*match.pages, *private], set())
        lane.loading = {transfer.ticket for transfer in match.loads}
        for index in range(len(match.pages), len(lane.pages)):
            written = content.symbols[: (index + 1) * SIZE]
            self.in_pages[lane.pages[index]] = (key, written)
        self.lanes.append(lane)
        self.check(lane)
        return lane

    def check(self, lane: Lane) -> None:
        """What a lane reuses was computed from its own content, under its own key."""
        if lane.loading:
            return
        match, symbols = lane.match, lane.content.symbols
        for index, page in enumerate(match.pages):
            assert self.in_pages[page] == (lane.key, symbols[: (index + 1) * SIZE])
        shared, source = len(match.pages) * SIZE, match.source
        if source is None:
            assert match.tokens == shared
            return
        assert 0 < source.tokens < SIZE
        assert match.tokens == shared + source.tokens
        key, written = (
            self.in_pages[source.page] if isinstance(source, FromPage) else self.in_rows[source.row]
        )
        assert (key, written[: match.tokens]) == (lane.key, symbols[: match.tokens])

    def restored(self, lane: Lane) -> None:
        """The restoration's fence has passed."""
        self.tree.release_source(lane.match)
        lane.restored = True

    def end(self, lane: Lane) -> None:
        """A lane's last fence has passed."""
        self.lanes.remove(lane)
        if not lane.restored:
            self.restored(lane)
        self.tree.pages.give_back(lane.pages)

    def prepare(self, lane: Lane) -> Publication | None:
        """Submit a snapshot of all a lane has."""
        publication = self.tree.prepare(lane.content, lane.key, tuple(lane.pages))
        if publication is not None and publication.row is not None:
            self.in_rows[publication.row] = (lane.key, lane.content.symbols)
        return publication

    def publish(self, tokens: Iterable[int], key: Key = KEY) -> Lane:
        """Compute and publish; the lane goes on."""
        lane = self.start(content_of(tuple(tokens)), key)
        assert lane is not None
        publication = self.prepare(lane)
        if publication is not None:
            self.tree.complete(publication)
        return lane

    def keep(self, tokens: Iterable[int], key: Key = KEY) -> None:
        """Compute and publish; the lane ends."""
        self.end(self.publish(tokens, key))

    def find(self, tokens: Iterable[int], key: Key = KEY, *, most: int = 1000) -> Match:
        """Match and release at once."""
        match = self.tree.match(content_of(tuple(tokens)), key, most=most)
        self.tree.release(match)
        return match

    # ----------------------------------------------------------- transfers

    def copied(self, transfer: Transfer) -> None:
        """A transfer ends well."""
        if transfer.direction is Direction.TO_HOST:
            self.in_slots[transfer.slot] = self.in_pages[transfer.page]
            self.tree.host.saved(transfer.ticket)
            return
        self.in_pages[transfer.page] = self.in_slots[transfer.slot]
        self.tree.host.loaded(transfer.ticket)
        for lane in self.lanes:
            lane.loading.discard(transfer.ticket)
            self.check(lane)

    def failed(self, transfer: Transfer) -> None:
        """A transfer fails, and with it who waits for it."""
        self.tree.host.failed(transfer.ticket)
        for lane in list(self.lanes):
            if transfer.ticket in lane.loading:
                self.end(lane)

    def offload(self, count: int) -> list[Transfer]:
        """Move pages to the host, to the end."""
        transfers = self.tree.host.offload(count)
        for transfer in transfers:
            self.copied(transfer)
        return list(transfers)

    # --------------------------------------------------------------- proof

    def audit(self) -> None:
        """Prove every holder."""
        self.tree.audit(
            [page for lane in self.lanes for page in lane.held()],
            [row for lane in self.lanes for row in lane.held_rows()],
        )
