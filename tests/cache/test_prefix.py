"""The prefix tree finds what was published, to the token, and says why it finds no more."""

from __future__ import annotations

import random
import sys
from types import FrameType

import pytest

from helios.cache.content import Key, content_of
from helios.cache.matches import FromPage, FromRow, Stop
from helios.cache.prefix import PrefixTree
from helios.rounds import Span
from helios.values import PageId
from tests.cache.world import KEY, SIZE, World

LENGTHS = range(1, 3 * SIZE + 1)


def counted(first: int, length: int) -> list[int]:
    """Tokens that are all different."""
    return list(range(first, first + length))


# ------------------------------------------------------------------ exact reuse


@pytest.mark.clause("AH-14", "AH-15", "AH-16")
@pytest.mark.parametrize("length", LENGTHS)
def test_reuse_is_exact_at_every_offset(length: int) -> None:
    for differs in range(length + 1):
        world = World(rows=1)
        world.keep(counted(0, length))
        lane = world.start(content_of([*counted(0, differs), *counted(100, 5)]))
        assert lane is not None
        match = lane.match
        assert (match.tokens, len(match.pages)) == (differs, differs // SIZE)
        in_full_page = differs < length // SIZE * SIZE
        part = differs % SIZE
        expected = FromPage if in_full_page else FromRow
        assert isinstance(match.source, expected) if part else match.source is None
        world.audit()


@pytest.mark.parametrize("most", range(2 * SIZE + 2))
def test_a_request_that_must_feed_something_reuses_no_more_than_it_may(most: int) -> None:
    world = World()
    world.keep(counted(0, 2 * SIZE + 1))
    match = world.find(counted(0, 2 * SIZE + 1), most=most)
    assert (match.tokens, len(match.pages), match.stop) == (most, most // SIZE, Stop.LIMIT)
    world.audit()


def test_each_turn_of_a_conversation_reuses_all_turns_before() -> None:
    world, tokens, reused = World(pages=60), counted(0, 3), []
    for turn in range(10):
        match = world.find(tokens)
        reused.append(match.tokens)
        world.keep(tokens)
        tokens = [*tokens, *counted(1000 * (turn + 1), 7)]
    assert reused == [0, *range(3, 3 + 9 * 7, 7)]


def test_other_salts_and_cores_share_nothing() -> None:
    world = World()
    world.keep(counted(0, 6))
    for other in (Key(b"core", "mine"), Key(b"other")):
        match = world.find(counted(0, 6), other)
        assert (match.tokens, match.stop) == (0, Stop.UNKNOWN_KEY)
    world.keep(counted(0, 6), Key(b"core", "mine"))
    assert world.find(counted(0, 6), Key(b"core", "mine")).tokens == 6
    world.audit()


# ----------------------------------------------------------------------- images


def image(start: int, length: int, digest: bytes = b"cat") -> list[Span]:
    return [Span(start=start, length=length, digest=digest)]


def test_prompts_alike_but_for_an_image_share_what_precedes_it() -> None:
    for start in range(6):
        world, tokens = World(), counted(0, 11)
        for digest in (b"cat", b"dog", b"\0cat"):
            content = content_of(tokens, image(start, 5, digest))
            lane = world.start(content)
            assert lane is not None
            assert lane.match.tokens == (0 if digest == b"cat" else start)
            publication = world.prepare(lane)
            assert publication is not None
            world.tree.complete(publication)
            world.end(lane)
            again = world.tree.match(content, KEY, most=11)
            assert again.tokens == 11
            world.tree.release(again)
        world.audit()


@pytest.mark.parametrize("most", range(12))
def test_no_match_ends_inside_an_image(most: int) -> None:
    world, content = World(), content_of(counted(0, 11), image(3, 6))
    lane = world.start(content)
    assert lane is not None
    publication = world.prepare(lane)
    assert publication is not None
    world.tree.complete(publication)
    match = world.tree.match(content, KEY, most=most)
    inside = 3 < most < 9
    assert match.tokens == (3 if inside else most)
    assert match.stop is (Stop.IMAGE if inside else Stop.LIMIT)
    world.tree.release(match)
    world.audit()


@pytest.mark.parametrize("length", range(12))
def test_a_history_that_ends_before_or_within_an_image_begins_as_the_whole_does(
    length: int,
) -> None:
    whole = content_of(counted(0, 11), image(3, 6))
    part = content_of(counted(0, 11)[:length], image(3, 6))
    assert part.symbols == whole.symbols[:length]
    assert part.cut(length) == (3 if 3 < length < 9 else length)


def test_an_image_of_another_length_is_another_image() -> None:
    short = content_of(counted(0, 8), image(2, 2))
    long = content_of(counted(0, 8), image(2, 4))
    assert short.symbols[2:4] != long.symbols[2:4]
    assert min(long.symbols[2:6]) < max(long.symbols[2:6]) < 0


# ---------------------------------------------------------------------- reasons


def test_every_miss_has_its_reason() -> None:
    world = World(pages=6, rows=1)
    assert world.find(counted(0, 9)).stop is Stop.EMPTY
    world.keep(counted(0, 9))
    assert world.find([], Key(b"other")).stop is Stop.LIMIT
    assert world.find(counted(0, 9), Key(b"other")).stop is Stop.UNKNOWN_KEY
    assert world.find(counted(0, 9)).stop is Stop.LIMIT
    assert world.find(counted(0, 12)).stop is Stop.DIVERGED  # the tail is no full page
    assert world.find([*counted(0, 4), 77]).stop is Stop.DIVERGED
    world.keep(counted(50, 4))
    assert world.find(counted(50, 9)).stop is Stop.ENDED
    assert world.tree.reclaim(1) == 1
    assert world.find(counted(0, 9)).stop is Stop.EVICTED
    world.tree.reclaim(6)
    assert world.find(counted(0, 9)).stop is Stop.EVICTED
    world.tree.forget_all()
    assert world.find(counted(0, 9)).stop is Stop.EMPTY


def test_only_so_many_evictions_are_remembered() -> None:
    world = World(pages=2, rows=0)
    for first in (0, 10, 20, 30):
        world.keep(counted(first, SIZE))
        world.tree.reclaim(1)
    world.keep(counted(90, SIZE))
    stops = [world.find(counted(first, SIZE)).stop for first in (0, 10, 20, 30)]
    assert stops == [Stop.DIVERGED, Stop.DIVERGED, Stop.EVICTED, Stop.EVICTED]


# ------------------------------------------------------------------ publication


@pytest.mark.clause("AH-18")
def test_what_failed_or_was_cancelled_is_never_found() -> None:
    world = World()
    lane = world.start(content_of(counted(0, 6)))
    assert lane is not None
    publication = world.prepare(lane)
    assert publication is not None
    assert world.find(counted(0, 6)).tokens == 0
    world.audit()
    world.tree.abandon(publication)
    assert world.find(counted(0, 6)).tokens == 0
    world.end(lane)
    world.audit()
    assert (world.tree.pages.free, world.tree.rows.free) == (world.pages, world.rows)


@pytest.mark.clause("AH-17")
def test_a_publication_keeps_its_pages_until_its_fence() -> None:
    world = World()
    lane = world.start(content_of(counted(0, 6)))
    assert lane is not None
    publication = world.prepare(lane)
    assert publication is not None
    world.end(lane)  # cancelled meanwhile
    assert world.tree.pages.free == world.pages - 1
    world.tree.complete(publication)
    assert world.find(counted(0, 6)).tokens == 6
    world.audit()


def test_a_longer_tail_replaces_a_shorter_one_and_a_shorter_one_is_not_published() -> None:
    world = World(rows=3)
    world.keep(counted(0, 5))
    world.keep(counted(0, 7))
    assert world.tree.rows.free == 2
    lane = world.publish(counted(0, 6))
    assert world.prepare(lane) is None
    assert world.find(counted(0, 7)).tokens == 7
    world.end(lane)
    world.keep(counted(0, 8))
    assert world.tree.rows.free == 3
    assert world.find(counted(0, 7)).tokens == 7
    world.audit()


def test_of_two_equal_publications_the_first_stays() -> None:
    world = World(rows=2)
    lanes = [world.start(content_of(counted(0, 6))) for _ in range(2)]
    publications = []
    for lane in lanes:
        assert lane is not None
        publications.append(world.prepare(lane))
    for publication in publications:
        assert publication is not None
        world.tree.complete(publication)
    assert lanes[0] is not None
    assert world.find(counted(0, 4)).pages == (lanes[0].pages[0],)
    assert world.tree.rows.free == 1
    world.audit()


def test_without_a_row_the_full_pages_alone_are_published() -> None:
    world = World(rows=0)
    world.keep(counted(0, 6))
    assert world.find(counted(0, 6)).tokens == SIZE
    lane = world.start(content_of(counted(30, 3)))
    assert lane is not None
    assert world.prepare(lane) is None


def test_a_publication_has_all_its_full_pages() -> None:
    with pytest.raises(AssertionError, match="1 pages hold 2 full ones"):
        World().tree.prepare(content_of(counted(0, 8)), KEY, (PageId(0),))


# --------------------------------------------------------------------- eviction


@pytest.mark.parametrize(
    ("count", "left"), list(enumerate([(2, 2), (2, 1), (2, 0), (1, 0), (0, 0)]))
)
def test_the_least_recently_used_page_goes_first_and_none_before_what_continues_it(
    count: int, left: tuple[int, int]
) -> None:
    world = World(pages=12)
    world.keep(counted(0, 2 * SIZE))
    world.keep(counted(100, 2 * SIZE))
    world.find(counted(0, 2 * SIZE))
    assert world.tree.reclaim(count) == count
    found = [world.find(counted(first, 2 * SIZE)).pages for first in (0, 100)]
    assert (len(found[0]), len(found[1])) == left
    assert (world.tree.reclaim(9), world.tree.reclaimable) == (4 - count, 0)


def test_pages_in_use_are_not_reclaimed() -> None:
    world = World()
    lane = world.publish(counted(0, 2 * SIZE))
    world.keep(counted(50, 2 * SIZE))
    assert (world.tree.reclaimable, world.tree.reclaim(5)) == (2, 2)
    assert world.find(counted(0, 2 * SIZE)).tokens == 2 * SIZE
    world.end(lane)
    assert world.tree.reclaim(5) == 2
    world.audit()


def test_an_idle_page_below_which_others_are_in_use_can_be_reclaimed() -> None:
    """A lane that computed its own copy holds only the second page of the tree's two."""
    world = World(rows=0)
    second = world.start(content_of(counted(0, 2 * SIZE)))
    assert second is not None
    world.keep(counted(0, SIZE))
    publication = world.prepare(second)
    assert publication is not None
    world.tree.complete(publication)
    assert (world.tree.reclaimable, world.tree.reclaim(3)) == (1, 1)
    assert world.find(counted(0, 2 * SIZE)).tokens == 0
    world.audit()
    world.end(second)
    assert world.tree.pages.free == world.pages


def test_the_least_recently_used_row_that_nobody_reads_goes_first() -> None:
    world = World(rows=3)
    for first in (0, 10, 20):
        world.keep(counted(first, 2))
    reader = world.start(content_of(counted(0, 3)))
    assert reader is not None
    world.find(counted(20, 2))
    world.find(counted(10, 2))
    world.keep(counted(30, 2))
    assert [world.find(counted(first, 2)).tokens for first in (0, 10, 20, 30)] == [2, 2, 0, 2]
    world.audit()
    world.restored(reader)
    world.audit()


def test_when_every_row_is_read_none_is_evicted() -> None:
    world = World(rows=1)
    world.keep(counted(0, 2))
    reader = world.start(content_of(counted(0, 3)))
    assert reader is not None
    assert world.prepare(reader) is None
    assert world.find(counted(0, 2)).tokens == 2


def test_a_match_that_is_not_kept_is_released() -> None:
    world = World()
    world.keep(counted(0, 6))
    with world.tree.hold_match(content_of(counted(0, 6)), KEY, most=6) as hold:
        assert hold.match.tokens == 6
        assert world.tree.reclaimable == 0
    assert world.tree.reclaimable == 1
    world.audit()


def test_forgetting_leaves_lanes_what_they_hold() -> None:
    world = World()
    lane = world.publish(counted(0, 6))
    world.keep(counted(0, 6), Key(b"other"))
    world.tree.forget_all()
    world.audit()
    assert world.tree.pages.free == world.pages - 2
    world.end(lane)
    assert world.tree.pages.free == world.pages


# ------------------------------------------------------------------------- cost


def calls(tree: PrefixTree, tokens: list[int]) -> int:
    """Python calls that one match makes."""
    content, made = content_of(tokens), 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(count)
    match = tree.match(content, KEY, most=len(tokens))
    sys.setprofile(None)
    tree.release(match)
    return made


def test_a_match_costs_the_same_beside_a_thousand_others() -> None:
    chance, world = random.Random(3), World(pages=4000, rows=4)
    start = counted(0, SIZE + 1)
    prompts = [[*start, *(chance.randrange(9) for _ in range(9))] for _ in range(1000)]
    costs = []
    for prompt in prompts:
        world.keep(prompt)
        costs.append(calls(world.tree, prompt))
    assert max(costs) - min(costs) <= 2
    world.audit()


def test_the_cost_of_a_match_does_not_grow_with_its_pages_in_calls() -> None:
    world = World(pages=1000)
    world.keep(counted(0, 800 * SIZE))
    few = calls(world.tree, counted(0, 2 * SIZE))
    assert abs(calls(world.tree, counted(0, 800 * SIZE)) - few) <= 1
