"""Hundreds of made-up histories; `scripts/sim` runs as many more as you like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helios.rounds import Finish
from prepared.contract import Operation
from tests.sim.clients import Script
from tests.sim.histories import OPTIONAL, SUBSETS, history_of
from tests.sim.world import SimWorld

SEEDS = range(240)
QUIET_SEEDS = range(1000, 1024)


@pytest.mark.clause(
    "AH-08", "AH-13", "AH-14", "AH-15", "AH-16", "AH-17", "AH-18", "HV-25", "HV-26", "TO-26"
)
@pytest.mark.parametrize("first", SEEDS[::10])
def test_every_promise_holds_at_every_turn_of_a_history(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            SimWorld(history_of(seed)).run()
        except Exception as error:
            error.add_note(f"replay: scripts/sim --seeds 1 --first {seed}")
            raise


@pytest.mark.parametrize("seed", SEEDS[::60])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    first, second = (SimWorld(history_of(seed)).run() for _ in range(2))
    assert first.mailbox.outbox == second.mailbox.outbox
    assert first.device.played == second.device.played
    assert (first.turns, first.clock.now) == (second.turns, second.clock.now)


@pytest.mark.parametrize("seed", QUIET_SEEDS)
def test_frames_programs_and_cache_change_no_token(seed: int) -> None:
    """Frames, what a core has, how large the cache is: none of it is seen by a client."""
    whole = history_of(seed, quiet=True)
    plain = replace(whole, frames=1, operations=frozenset(), pages=400, rows=0, host_slots=0)
    least = whole.extents.row_pages
    tight = replace(whole, frames=2, operations=frozenset(OPTIONAL), pages=least, host_slots=2)
    worlds = [
        SimWorld(replace(history, clients=alone(history.clients))).run()
        for history in (plain, whole, tight, replace(tight, frames=1))
    ]
    assert len({tuple(world.answers().items()) for world in worlds}) == 1
    assert all(finish is not Finish.CANCELLED for finish, _ in worlds[0].answers().values())


def alone(clients: tuple[Script, ...]) -> tuple[Script, ...]:
    """Clients whose only request comes at once, so that requests have the same numbers."""
    return tuple(
        replace(client, asks=(replace(client.asks[0], after=0, reads_for=0),)) for client in clients
    )


def test_the_histories_do_everything_that_can_be_done() -> None:
    finishes, operations = set[Finish](), set[Operation]()
    preempted = spilled = loaded = reused = again = turned_away = 0
    for seed in SEEDS[1::3]:
        world = SimWorld(history_of(seed)).run()
        finishes |= {world.finish(number) for number in world.asked}
        operations |= {played.operation for played in world.device.played}
        for message in world.rounds():
            reused += sum(begun.reused for begun in message.begun if not begun.again)
            again += sum(begun.reused for begun in message.begun if begun.again)
        last = list(world.rounds())[-1].totals
        preempted, spilled, loaded = (
            preempted + last.preempted,
            spilled + last.spilled,
            loaded + last.loaded,
        )
        turned_away += sum(client.turned_away for client in world.clients)
    assert finishes == set(Finish)
    assert operations == {*OPTIONAL, Operation.INITIALIZE, Operation.PREFILL, Operation.DECODE}
    assert min(preempted, spilled, loaded, reused, again, turned_away) >= 5
    assert len({history_of(seed).operations for seed in SEEDS}) == len(SUBSETS)
