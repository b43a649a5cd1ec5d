"""What users of servers complain of, each played through here: none of it happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helios.device.scripted import Line
from helios.mailbox import Begun
from helios.rounds import Finish
from helios.values import RequestId
from prepared.contract import Operation
from tests.sim.clients import Ask, Script
from tests.sim.faults import Faults
from tests.sim.histories import OPTIONAL
from tests.sim.judges import EOS
from tests.sim.world import History, SimWorld
from tests.worker.world import text_extents


def ask(
    *tokens: int,
    limit: int = 3,
    after: int = 0,
    reads_for: int = 0,
    leaves_after: int | None = None,
) -> Ask:
    """One turn of a conversation."""
    return Ask(
        tokens=tokens,
        output_limit=limit,
        after=after,
        reads_for=reads_for,
        leaves_after=leaves_after,
    )


def conversation(*asks: Ask, salt: str = "") -> Script:
    """A client."""
    return Script(asks=asks, salt=salt, eos_ids=(EOS,))


def history(*clients: Script, lanes: int = 4, pages: int = 40, context_tokens: int = 64) -> History:
    """A core with every program, on pages of four tokens."""
    return History(
        extents=text_extents(lanes=lanes, context_tokens=context_tokens),
        operations=frozenset(OPTIONAL),
        pages=pages,
        rows=4,
        host_slots=0,
        frames=2,
        queue_capacity=64,
        lines=(Line(tokens=tuple(range(50, 90))),),
        clients=clients,
    )


def begun(world: SimWorld) -> list[Begun]:
    """What each request found, in order."""
    return [found for message in world.rounds() for found in message.begun]


LONG = tuple(range(10, 34))


# ------------------------------------------------------------------ caching


@pytest.mark.parametrize("shared", range(1, 24))
def test_a_shared_prefix_hits_at_every_offset_of_a_page_and_says_why_it_ends(shared: int) -> None:
    first = conversation(ask(*LONG))
    second = conversation(ask(*LONG[:shared], 99, 98, after=40))
    found = begun(SimWorld(history(first, second)).run())
    assert [(one.reused, one.stop) for one in found] == [(0, "empty"), (shared, "diverged")]


def test_a_tool_loop_of_ten_turns_never_computes_its_prompt_again() -> None:
    turns = [ask(*LONG[:5]), *(ask(95, 96) for _ in range(9))]
    world = SimWorld(history(conversation(*turns))).run()
    found = begun(world)
    assert len(found) == 10
    for before, after in zip(found, found[1:], strict=False):
        # All of the last turn but its final token, which was sampled and never consumed.
        assert after.reused == before.asked + 1 + 2
        assert after.reused > before.reused


def test_each_miss_has_its_reason() -> None:
    world = SimWorld(
        history(
            conversation(ask(*LONG)),
            conversation(ask(*LONG, after=30), salt="mine"),
            conversation(ask(77, 78, after=60)),
        )
    ).run()
    assert [one.stop for one in begun(world)] == ["empty", "unknown_key", "diverged"]


def test_work_found_again_after_preemption_is_not_counted_as_a_hit() -> None:
    clients = [conversation(ask(n, *LONG[:7], limit=20)) for n in range(4)]
    world = SimWorld(history(*clients, pages=10, context_tokens=32)).run()
    found = begun(world)
    assert any(one.again and one.reused for one in found)
    assert not any(one.reused for one in found if not one.again)


def test_one_row_for_snapshots_is_enough() -> None:
    clients = [conversation(*(ask(n, n + 1, n + 2) for _ in range(4))) for n in (20, 30, 40, 50)]
    for rows in (0, 1):
        world = SimWorld(replace(history(*clients), rows=rows)).run()
        assert {world.finish(number) for number in world.asked} == {Finish.OUTPUT_LIMIT}


# --------------------------------------------------------------- scheduling


def test_an_answer_is_the_same_cold_and_warm_alone_and_in_company() -> None:
    asked = ask(*LONG, limit=20)
    alone = SimWorld(history(conversation(asked, replace(asked, after=5)))).run()
    crowd = SimWorld(history(*(conversation(asked) for _ in range(32)), lanes=8)).run()
    tokens = crowd.tokens(RequestId(1))
    assert len(tokens) == 20
    assert all(crowd.tokens(number) == tokens for number in crowd.asked)
    assert alone.tokens(RequestId(1)) == tokens


def test_the_oldest_is_served_and_the_youngest_gives_way() -> None:
    clients = [conversation(ask(n, *LONG[:7], limit=20, after=n)) for n in range(4)]
    world = SimWorld(history(*clients, pages=10, context_tokens=32)).run()
    again = [one.request for one in begun(world) if one.again]
    assert again
    assert RequestId(1) not in again
    ended = [
        news.request
        for message in world.rounds()
        for news in message.by_request()
        if news.finish is not None
    ]
    assert ended[0] == 1


def test_a_burst_is_served_in_order_and_nobody_beyond_the_permits_gets_in() -> None:
    clients = [conversation(ask(*LONG[:6])) for _ in range(60)]
    world = SimWorld(replace(history(*clients, lanes=2), queue_capacity=5)).run()
    assert sum(client.turned_away for client in world.clients) > 0
    assert len(world.asked) == 60


def test_turning_the_second_frame_off_changes_nothing_but_time() -> None:
    clients = [conversation(ask(n, *LONG[:n], limit=9)) for n in range(1, 9)]
    one, two = (SimWorld(replace(history(*clients), frames=frames)).run() for frames in (1, 2))
    assert one.answers() == two.answers()


def test_a_reader_that_never_lets_go_stops_nobody() -> None:
    slow = conversation(ask(*LONG[:3], reads_for=2000))
    quick = [conversation(*(ask(n, limit=9) for _ in range(5))) for n in (40, 50, 60)]
    world = SimWorld(history(slow, *quick))
    while not all(client.over for client in world.clients[1:]):
        world.turn()
        assert world.turns < 1000
    assert not world.clients[0].over
    assert world.gate.held == 1
    world.run()


# ------------------------------------------------------------------- aborts


@pytest.mark.parametrize("turn", range(30))
def test_leaving_at_any_moment_of_a_restore_or_a_copy_returns_everything(turn: int) -> None:
    first = conversation(ask(*LONG[:10], limit=8))
    other = conversation(ask(*range(60, 84), limit=8, after=20))
    again = conversation(ask(*LONG[:10], 97, limit=20, after=45, leaves_after=turn))
    made = replace(history(first, other, again, pages=8, context_tokens=32), host_slots=8)
    world = SimWorld(made).run()
    assert list(world.rounds())[-1].totals.loaded > 0
    assert Operation.RESTORE in {played.operation for played in world.device.played}
    assert len(world.asked) == 3


@pytest.mark.parametrize("turn", range(12))
def test_everybody_leaves_at_once_and_the_next_is_served(turn: int) -> None:
    crowd = [conversation(ask(n, *LONG, limit=20, leaves_after=turn)) for n in range(8)]
    late = conversation(ask(*LONG, limit=5, after=40))
    world = SimWorld(history(*crowd, late, pages=20)).run()
    (served,) = [number for number, request in world.asked.items() if request.output_limit == 5]
    assert world.finish(served) is Finish.OUTPUT_LIMIT


def test_counts_agree_after_a_storm() -> None:
    """Everybody who came is accounted for: served, cancelled, failed or refused."""
    clients = [
        conversation(*(ask(n, *LONG[:9], limit=9, leaves_after=n % 7 or None) for _ in range(3)))
        for n in range(20)
    ]
    faults = Faults(launches=frozenset(range(5, 200, 17)))
    world = SimWorld(replace(history(*clients, pages=12, context_tokens=48), faults=faults)).run()
    ends = [world.finish(number) for number in world.asked]
    assert len(ends) == len(world.asked) == 60
    assert {Finish.CANCELLED, Finish.FAILED, Finish.OUTPUT_LIMIT} <= set(ends)
    started = [one.request for one in begun(world) if not one.again]
    assert len(started) == len(set(started))
