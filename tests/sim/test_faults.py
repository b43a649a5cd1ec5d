"""One thing goes wrong, at every place in turn: no wrong token, no lost page, no dead worker."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from helios.device.scripted import Line
from helios.mailbox import Ping, Pong
from helios.rounds import Finish
from helios.values import RequestId
from prepared.contract import Operation
from tests.sim.clients import Ask, Script
from tests.sim.faults import STALL_NS, Faults, Flip
from tests.sim.histories import OPTIONAL
from tests.sim.judges import EOS
from tests.sim.world import History, SimWorld
from tests.worker.world import text_extents

SYSTEM = tuple(range(10, 20))
RECORD_NBYTES = 5 * 64 + 10 * 64
"""Fields are 64 bytes apart; lanes of a field are next to each other."""


def busy(*, faults: Faults, host_slots: int = 4) -> History:
    """Three short conversations over one system prompt, on few pages, with every program."""
    scripts = tuple(
        Script(
            asks=(
                Ask(tokens=(*SYSTEM, 30 + number), output_limit=3, after=number, reads_for=0),
                Ask(tokens=(40, 41), output_limit=4, after=0, reads_for=0),
            ),
            salt="",
            eos_ids=(EOS,),
        )
        for number in range(3)
    )
    return History(
        extents=text_extents(lanes=3, prefill_tokens=8, page_tokens=4, context_tokens=32),
        operations=frozenset(OPTIONAL),
        pages=9,
        rows=2,
        host_slots=host_slots,
        frames=2,
        queue_capacity=8,
        lines=(Line(tokens=(50, 51, 52, 53, 54)), Line(tokens=(60,))),
        clients=scripts,
        faults=faults,
    )


def length() -> int:
    """Submissions of the history when nothing goes wrong."""
    return len(SimWorld(busy(faults=Faults())).run().device.played)


SUBMISSIONS = length()


def failed(world: SimWorld) -> set[RequestId]:
    """Requests that ended with a failure."""
    return {number for number in world.asked if world.finish(number) is Finish.FAILED}


def test_the_history_runs_every_operation() -> None:
    world = SimWorld(busy(faults=Faults())).run()
    assert {played.operation for played in world.device.played} >= {
        Operation.RESTORE,
        Operation.PUBLISH_SNAPSHOT,
        Operation.MIXED,
    }
    assert not failed(world)


@pytest.mark.parametrize("number", range(1, SUBMISSIONS + 1))
@pytest.mark.clause("TO-41", "AH-18")
def test_the_nth_launch_fails_and_only_who_was_in_it(number: int) -> None:
    world = SimWorld(busy(faults=Faults(launches=frozenset({number})))).run()
    played = world.device.played[number - 1]
    assert played.harmed
    assert failed(world) <= set(played.requests)
    told = world.device.played[: number - 1]
    if not any(request in before.requests for request in played.requests for before in told):
        assert failed(world) == set(played.requests)


def test_every_launch_fails_and_everybody_is_told() -> None:
    world = SimWorld(busy(faults=Faults(launches=frozenset(range(1, 200))))).run()
    assert failed(world) == set(world.asked)


@pytest.mark.parametrize("number", range(1, SUBMISSIONS + 1, 3))
def test_the_nth_fence_comes_late_and_nobody_fails(number: int) -> None:
    world = SimWorld(busy(faults=Faults(stalls=frozenset({number})))).run()
    assert not failed(world)
    assert world.clock.now >= STALL_NS


@pytest.mark.parametrize("number", range(1, 9))
def test_the_nth_copy_fails_and_everything_comes_back(number: int) -> None:
    world = SimWorld(busy(faults=Faults(copies=frozenset({number})))).run()
    assert len(failed(world)) <= 1


def test_no_copy_ever_works() -> None:
    world = SimWorld(busy(faults=Faults(copies=frozenset(range(1, 500))))).run()
    assert not failed(world)  # nothing ever reached the host, so nothing comes back


def flips(submission: int, bit: int) -> Iterable[Faults]:
    """Every byte of a submission's record, one at a time."""
    for byte in range(RECORD_NBYTES):
        # A field's cells: four or eight bytes a lane, three lanes; the rest is padding.
        if byte % 64 < 12 or byte % 64 == 63:
            yield Faults(flips=(Flip(submission=submission, byte=byte, bit=bit),))


@pytest.mark.parametrize("submission", [SUBMISSIONS // 3, SUBMISSIONS // 2])
@pytest.mark.clause("AH-13", "AH-12", "AH-11", "SG-27")
def test_a_bit_of_a_record_is_wrong_and_no_client_sees_a_wrong_token(submission: int) -> None:
    harmed = 0
    for bit, faults in enumerate(flips(submission, submission % 8)):
        world = SimWorld(busy(faults=faults)).run()
        lanes = world.device.played[submission - 1]
        assert failed(world) <= set(lanes.requests), f"byte {bit}"
        harmed += lanes.harmed
    assert harmed > 20


# ------------------------------------------------------------------- health


def test_a_frozen_device_is_seen_and_a_busy_one_is_not_mistaken_for_it() -> None:
    """How long the oldest submission has run grows while a device is frozen, and only then."""
    longest = {}
    for name, stalls in (("busy", frozenset[int]()), ("frozen", frozenset({4}))):
        world, seen = SimWorld(busy(faults=Faults(stalls=stalls))), list[int]()
        while not all(client.over for client in world.clients):
            world.mailbox.inbox.append(Ping())
            world.worker.turn()
            pongs = [message for message in world.mailbox.outbox if isinstance(message, Pong)]
            seen += [pong.running_ns for pong in pongs]
            world.mailbox.outbox[:] = [
                message for message in world.mailbox.outbox if not isinstance(message, Pong)
            ]
            world.turn()
        longest[name] = max(seen)
    assert longest["frozen"] > STALL_NS // 2
    assert longest["busy"] < STALL_NS // 100
