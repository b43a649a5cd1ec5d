"""Pages that move to the host and back are accounted for at every step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helios.cache.content import content_of
from helios.cache.host import Ticket, Transfer
from helios.cache.matches import FromPage, Stop
from helios.values import HostSlot, PageId
from tests.cache.test_prefix import counted
from tests.cache.world import KEY, SIZE, World


def hosted(*, pages: int = 6, slots: int = 4, length: int = 2 * SIZE) -> World:
    """A world whose only content is on the host."""
    world = World(pages=pages, rows=2, slots=slots)
    world.keep(counted(0, length))
    world.offload(pages)
    assert world.tree.pages.free == pages
    return world


def test_an_offloaded_page_frees_its_page_and_is_found_again() -> None:
    world = hosted()
    lane = world.start(content_of(counted(0, 2 * SIZE + 1)))
    assert lane is not None
    assert (lane.match.tokens, len(lane.match.loads)) == (2 * SIZE, 2)
    assert [load.page for load in lane.match.loads] == lane.pages[:2]
    world.audit()
    for load in lane.match.loads:
        world.copied(load)
        world.audit()
    assert world.tree.host.shelf.slots.free == 4
    assert world.find(counted(0, 2 * SIZE)).loads == ()


def test_a_source_may_come_from_the_host_and_a_page_before_it_from_the_device() -> None:
    world = World(slots=4)
    holder = world.publish(counted(0, SIZE))
    world.keep(counted(0, 2 * SIZE))
    assert len(world.offload(5)) == 1
    lane = world.start(content_of([*counted(0, SIZE + 2), 99]))
    assert lane is not None
    (load,) = lane.match.loads
    assert lane.match.pages == tuple(holder.pages)
    assert lane.match.source == FromPage(load.page, 2)
    world.copied(load)
    world.audit()


def test_a_tail_whose_page_is_on_the_host_is_restored_with_it() -> None:
    world = hosted(length=SIZE + 2)
    lane = world.start(content_of(counted(0, SIZE + 3)))
    assert lane is not None
    assert (lane.match.tokens, len(lane.match.loads)) == (SIZE + 2, 1)
    world.copied(lane.match.loads[0])
    world.audit()


def test_a_page_that_is_wanted_while_it_leaves_stays() -> None:
    world = World(slots=2)
    world.keep(counted(0, SIZE))
    (save,) = world.tree.host.offload(1)
    assert (world.tree.reclaimable, world.tree.reclaim(1)) == (0, 0)
    lane = world.start(content_of(counted(0, SIZE + 1)))
    assert lane is not None
    assert lane.match.pages == (save.page,)
    world.copied(save)
    world.audit()
    assert world.find(counted(0, SIZE)).loads == ()
    assert world.tree.host.shelf.slots.free == 2


def test_a_page_that_could_not_leave_stays() -> None:
    world = World(slots=2)
    world.keep(counted(0, SIZE))
    (save,) = world.tree.host.offload(1)
    world.failed(save)
    world.audit()
    assert world.find(counted(0, SIZE)).loads == ()
    assert world.tree.reclaim(1) == 1


def test_a_page_on_its_way_back_is_not_matched_by_others() -> None:
    world = hosted()
    lane = world.start(content_of(counted(0, 2 * SIZE)))
    assert lane is not None
    match = world.find(counted(0, 2 * SIZE))
    assert (match.tokens, match.stop) == (0, Stop.IN_TRANSFER)
    world.copied(lane.match.loads[0])
    match = world.find(counted(0, 2 * SIZE))
    assert (match.tokens, match.stop) == (SIZE, Stop.IN_TRANSFER)


def test_a_page_that_could_not_come_back_is_still_on_the_host() -> None:
    world = hosted()
    lane = world.start(content_of(counted(0, 2 * SIZE)))
    assert lane is not None
    for load in lane.match.loads:
        world.failed(load)
        world.audit()
    assert world.lanes == []
    assert world.find(counted(0, 2 * SIZE)).tokens == 2 * SIZE


Ending = Callable[[World, Transfer], None]


@pytest.mark.parametrize("ending", [World.copied, World.failed])
@pytest.mark.parametrize("steps", range(3))
@pytest.mark.clause("AH-17")
def test_an_abort_while_pages_come_back_leaks_nothing(ending: Ending, steps: int) -> None:
    world = hosted()
    lane = world.start(content_of(counted(0, 2 * SIZE + 1)))
    assert lane is not None
    for load in lane.match.loads[:steps]:
        world.copied(load)
    world.end(lane)
    world.audit()
    assert world.tree.pages.free == world.pages - 2
    for load in lane.match.loads[steps:]:
        ending(world, load)
        world.audit()
    match = world.find(counted(0, 2 * SIZE))
    assert match.tokens == 2 * SIZE
    world.tree.forget_all()
    for load in match.loads:
        world.failed(load)
    world.audit()
    assert (world.tree.pages.free, world.tree.host.shelf.slots.free) == (6, 4)


@pytest.mark.parametrize("ending", [World.copied, World.failed])
def test_an_entry_forgotten_while_it_leaves_leaks_nothing(ending: Ending) -> None:
    world = World(slots=2)
    world.keep(counted(0, SIZE))
    (save,) = world.tree.host.offload(1)
    world.tree.forget_all()
    world.audit()
    assert (world.tree.pages.free, world.tree.host.shelf.slots.free) == (world.pages - 1, 1)
    ending(world, save)
    world.audit()
    assert (world.tree.pages.free, world.tree.host.shelf.slots.free) == (world.pages, 2)
    assert world.find(counted(0, SIZE)).tokens == 0


@pytest.mark.parametrize("ending", [World.copied, World.failed])
def test_an_entry_forgotten_while_it_returns_stays_with_who_waits(ending: Ending) -> None:
    world = hosted(length=SIZE)
    lane = world.start(content_of(counted(0, SIZE)))
    assert lane is not None
    world.tree.forget_all()
    world.audit()
    ending(world, lane.match.loads[0])
    world.audit()
    assert world.tree.host.shelf.slots.free == 4
    assert world.find(counted(0, SIZE)).stop is Stop.EMPTY


def test_a_match_ends_before_a_page_for_which_there_is_no_room() -> None:
    world = hosted(pages=6, length=4 * SIZE)
    busy = world.start(content_of(counted(100, 4 * SIZE)))
    assert busy is not None
    match = world.tree.match(content_of(counted(0, 4 * SIZE)), KEY, most=99)
    assert (match.tokens, match.stop, len(match.loads)) == (2 * SIZE, Stop.NO_ROOM, 2)
    for load in match.loads:
        world.copied(load)
    world.tree.release(match)
    again = world.find(counted(0, 4 * SIZE))
    assert (again.tokens, again.stop) == (2 * SIZE, Stop.NO_ROOM)  # for its own pages stay
    world.audit()


def test_pages_come_back_in_place_of_pages_used_less() -> None:
    world = hosted(pages=2)
    world.keep(counted(50, 2 * SIZE))
    assert world.tree.pages.free == 0
    match = world.find(counted(0, 2 * SIZE))
    assert (match.tokens, len(match.loads)) == (2 * SIZE, 2)
    assert world.find(counted(50, SIZE)).stop is Stop.EVICTED


def test_of_pages_that_came_back_the_last_is_reclaimed_first() -> None:
    world = hosted()
    lane = world.start(content_of(counted(0, 2 * SIZE)))
    assert lane is not None
    for load in lane.match.loads:
        world.copied(load)
    world.end(lane)
    assert world.tree.reclaim(1) == 1
    assert world.find(counted(0, 2 * SIZE)).tokens == SIZE


def test_a_page_leaves_before_the_page_it_continues() -> None:
    world = World(slots=4)
    world.keep(counted(0, 2 * SIZE))
    world.find(counted(0, 2 * SIZE))
    world.offload(1)
    first, second = world.find(counted(0, SIZE)), world.find(counted(0, 2 * SIZE))
    assert (len(first.loads), len(second.loads)) == (0, 1)


def test_a_full_host_tier_lets_the_least_recently_offloaded_leaf_go() -> None:
    world = hosted(slots=3)
    world.keep(counted(50, 2 * SIZE))
    assert len(world.offload(5)) == 2
    world.audit()
    assert world.tree.match(content_of(counted(0, 8)), KEY, most=0).loads == ()
    assert [world.find(counted(first, 2 * SIZE)).tokens for first in (0, 50)] == [SIZE, 2 * SIZE]


def test_a_full_host_tier_keeps_a_page_that_others_continue() -> None:
    world = hosted(slots=2)
    for load in world.find(counted(0, 2 * SIZE)).loads:
        world.failed(load)  # the first page is now the one offloaded longest ago
    world.keep(counted(50, SIZE))
    assert len(world.offload(1)) == 1
    assert world.find(counted(0, 2 * SIZE)).tokens == SIZE


def test_looking_at_what_is_on_the_host_is_a_use_of_it() -> None:
    world = World(pages=1, slots=2, rows=0)
    for first in (0, 10):
        world.keep(counted(first, SIZE))
        world.offload(1)
    (load,) = world.find(counted(0, SIZE)).loads
    world.failed(load)  # nobody wanted it after all
    world.keep(counted(20, SIZE))
    world.offload(1)
    assert len(world.find(counted(0, SIZE)).loads) == 1
    assert world.find(counted(10, SIZE)).stop is Stop.EVICTED


def test_nothing_leaves_when_slots_are_missing_and_none_can_be_freed() -> None:
    world = World()
    world.keep(counted(0, SIZE))
    assert world.tree.host.offload(3) == ()
    held = World(slots=1)
    held.keep(counted(0, SIZE))
    assert len(held.tree.host.offload(3)) == 1  # it holds the only slot
    held.keep(counted(50, SIZE))
    assert held.tree.host.offload(3) == ()
    held.audit()


def test_a_page_computed_anew_takes_the_place_of_one_on_the_host() -> None:
    world = World(pages=6, rows=0, slots=2)
    lane = world.start(content_of(counted(0, 2 * SIZE)))
    assert lane is not None
    world.keep(counted(0, SIZE))
    world.offload(2)
    publication = world.prepare(lane)
    assert publication is not None
    world.tree.complete(publication)
    world.audit()
    assert world.tree.host.shelf.slots.free == 2
    assert world.find(counted(0, 2 * SIZE)).pages == tuple(lane.pages)


def test_a_publication_over_a_page_on_its_way_back_leaves_it_to_its_transfer() -> None:
    world = World(pages=6, rows=0, slots=2)
    lane = world.start(content_of(counted(0, 2 * SIZE)))
    assert lane is not None
    world.keep(counted(0, SIZE))
    world.offload(1)
    (load,) = world.find(counted(0, SIZE)).loads
    publication = world.prepare(lane)
    assert publication is not None
    world.tree.complete(publication)
    world.copied(load)
    world.audit()
    assert world.find(counted(0, 2 * SIZE)).pages == (load.page, lane.pages[1])


def test_a_transfer_ends_once_and_as_what_it_is() -> None:
    world = World(slots=2)
    world.keep(counted(0, SIZE))
    (save,) = world.tree.host.offload(1)
    assert (save.ticket, save.page, save.slot) == (Ticket(1), PageId(0), HostSlot(0))
    with pytest.raises(AssertionError, match="ticket 1 went to host"):
        world.tree.host.loaded(save.ticket)
