"""Any order of matches, publications, evictions, transfers and ends loses nothing."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from helios.cache.content import Content, Key, content_of
from helios.cache.matches import Publication
from helios.cache.pages import pages_for
from helios.rounds import Span
from tests.cache.world import SIZE, Lane, World

KEYS = [Key(b"core"), Key(b"core", "salt"), Key(b"other core")]


@st.composite
def contents(draw: st.DrawFn) -> Content:
    """Few different symbols, so that contents begin alike; sometimes one image."""
    tokens = draw(st.lists(st.integers(0, 1), min_size=1, max_size=14))
    if len(tokens) < 3 or not draw(st.booleans()):
        return content_of(tokens)
    start = draw(st.integers(0, len(tokens) - 3))
    length = draw(st.integers(1, min(6, len(tokens) - start)))
    digest = draw(st.sampled_from([b"cat", b"dog"]))
    return content_of(tokens, [Span(start=start, length=length, digest=digest)])


class CacheUnderUse(RuleBasedStateMachine):
    """The tree against a list of everything published, and memory that remembers its writer."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.open: list[tuple[Publication, Lane]] = []
        self.known: list[tuple[Key, tuple[int, ...]]] = []
        self.lossless = True  # nothing was evicted

    @initialize(pages=st.sampled_from([9, 60]), rows=st.sampled_from([0, 2, 20]))
    def make(self, pages: int, rows: int) -> None:
        self.world = World(pages=pages, rows=rows, slots=pages // 3)

    # ------------------------------------------------------------ requests

    @rule(content=contents(), key=st.sampled_from(KEYS), data=st.data())
    def start(self, content: Content, key: Key, data: st.DataObject) -> None:
        most = data.draw(st.integers(0, len(content.symbols)))
        expected, free = self.expected(content, key, most=most), self.world.tree.pages.free
        self.lossless = self.lossless and free >= pages_for(len(content.symbols), page_tokens=SIZE)
        moving = self.transfers()
        found = self.world.tree.match(content, key, most=most)
        self.world.tree.release(found)
        assert found.tokens <= expected
        if self.lossless and not moving:
            assert found.tokens == expected
        for transfer in found.loads:
            self.world.failed(transfer)  # nobody waits: all is as it was
        self.world.start(content, key, most=most)

    def expected(self, content: Content, key: Key, *, most: int) -> int:
        longest = 0
        for known_key, known in self.known:
            if known_key == key:
                pairs = zip(known, content.symbols, strict=False)
                differs = (at for at, (one, other) in enumerate(pairs) if one != other)
                whole = min(len(known), len(content.symbols))
                longest = max(longest, next(differs, whole))
        return content.cut(min(most, longest))

    def ready(self) -> list[Lane]:
        return [lane for lane in self.world.lanes if not lane.loading]

    @precondition(lambda self: self.ready())
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(self.ready()))
        self.lossless = self.lossless and self.world.tree.rows.free > 0
        publication = self.world.prepare(lane)
        if publication is not None:
            self.open.append((publication, lane))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), well=st.booleans())
    def fence(self, data: st.DataObject, well: bool) -> None:
        publication, lane = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if not well:
            self.world.tree.abandon(publication)
            return
        self.world.tree.complete(publication)
        symbols = lane.content.symbols
        if publication.row is None:
            symbols = symbols[: len(publication.pages) * SIZE]
        self.known.append((lane.key, symbols))

    @precondition(lambda self: self.ready())
    @rule(data=st.data())
    def restored(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(self.ready()))
        if not lane.restored:
            self.world.restored(lane)

    @precondition(lambda self: self.world.lanes)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.world.end(data.draw(st.sampled_from(self.world.lanes)))

    # ------------------------------------------------------------ evicting

    @rule(count=st.integers(0, 5))
    def reclaim(self, count: int) -> None:
        idle = self.world.tree.reclaimable
        assert self.world.tree.reclaim(count) >= min(count, idle)
        self.lossless = self.lossless and not min(count, idle)

    @rule()
    def forget(self) -> None:
        self.world.tree.forget_all()
        self.known, self.lossless = [], True

    # ----------------------------------------------------------- transfers

    def transfers(self) -> list[object]:
        return list(self.world.tree.host.under_way())

    @rule(count=st.integers(0, 4))
    def offload(self, count: int) -> None:
        free = self.world.tree.host.shelf.slots.free
        begun = self.world.tree.host.offload(count)
        assert len(begun) <= count
        self.lossless = self.lossless and count <= free

    @precondition(lambda self: self.transfers())
    @rule(data=st.data(), well=st.booleans())
    def transferred(self, data: st.DataObject, well: bool) -> None:
        transfer = data.draw(st.sampled_from(list(self.world.tree.host.under_way())))
        (self.world.copied if well else self.world.failed)(transfer)

    # --------------------------------------------------------------- proof

    @invariant()
    def everything_is_accounted_for(self) -> None:
        self.world.audit()

    def teardown(self) -> None:
        for publication, _ in self.open:
            self.world.tree.abandon(publication)
        for transfer in self.world.tree.host.under_way():
            self.world.failed(transfer)
        while self.world.lanes:
            self.world.end(self.world.lanes[0])
        self.world.tree.forget_all()
        self.world.audit()
        assert self.world.tree.pages.free == self.world.pages
        assert self.world.tree.rows.free == self.world.rows
        assert self.world.tree.host.shelf.slots.free == self.world.slots


TestCacheUnderUse = CacheUnderUse.TestCase
TestCacheUnderUse.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
