"""Many made-up histories, one a seed: whatever happens, every request is answered once.

A seed decides sizes, requests, arrivals, departures, delays and failures; the same seed gives
the same history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

import pytest

from helios.device.scripted import Line
from helios.frontend.request import PreparedRequest
from helios.rounds import Finish
from helios.values import RequestId
from ignition.preparation.storage import TextExtents
from tests.schedule.made import EOS, request
from tests.worker.world import World, played_line, text_extents

SEEDS = range(60)
QUIET_SEEDS = range(1000, 1020)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything that a seed decided."""

    extents: TextExtents
    pages: int
    script: tuple[Line, ...]
    arrivals: Mapping[int, tuple[PreparedRequest, ...]]  # by turn
    departures: Mapping[int, tuple[int, ...]]

    def play(self, *, frames: int = 2) -> World:
        """Let it happen."""
        world = World(*self.script, extents=self.extents, pages=self.pages, frames=frames)
        world.run({turn: self.event(turn) for turn in {*self.arrivals, *self.departures}})
        return world

    def event(self, turn: int) -> Callable[[World], None]:
        """What happens before a turn."""

        def happen(world: World) -> None:
            if coming := self.arrivals.get(turn):
                world.submit(*coming)
            if leaving := self.departures.get(turn):
                world.cancel(*leaving)

        return happen


def made_up_line(chance: Random, *, may_fail: bool) -> Line:
    """A line of any length and ending."""
    length = chance.randrange(0, 30)
    tokens = [chance.randrange(10, 100) for _ in range(length)]
    if length and chance.random() < 0.2:
        tokens[chance.randrange(length)] = EOS
    return Line(
        tokens=tuple(tokens),
        end="length" if length and chance.random() < 0.3 else "eos",
        delay_ns=chance.choice((0, 0, 1000, 7_000_000)),
        fail_at=chance.randrange(0, 12) if may_fail and chance.random() < 0.25 else None,
    )


def history_of(seed: int, *, quiet: bool = False) -> History:
    """The seed's history; a quiet one has neither failures nor departures."""
    chance = Random(seed)
    extents = text_extents(
        lanes=chance.choice((1, 2, 3, 5, 8)),
        prefill_tokens=chance.choice((4, 16, 20)),
        page_tokens=chance.choice((1, 4, 8)),
    )
    row = extents.row_pages
    requests = [
        request(
            number,
            prompt=[chance.randrange(3, 100) for _ in range(chance.randrange(1, 33))],
            output_limit=chance.randrange(1, 32),
        )
        for number in range(1, chance.randrange(2, 14))
    ]
    arrivals: dict[int, tuple[PreparedRequest, ...]] = {}
    turn = 0
    for asked in requests:
        turn += chance.choice((0, 0, 0, 1, 9))
        arrivals[turn] = (*arrivals.get(turn, ()), asked)
    departures: dict[int, tuple[int, ...]] = {}
    for asked in requests:
        if not quiet and chance.random() < 0.2:
            turn = chance.randrange(0, 40)
            departures[turn] = (*departures.get(turn, ()), asked.id)
    return History(
        extents=extents,
        pages=chance.choice((max(1, row // 2), row, row + 3, row * 4)),
        script=tuple(made_up_line(chance, may_fail=not quiet) for _ in range(5)),
        arrivals=arrivals,
        departures=departures,
    )


def lines_of(history: History, world: World) -> dict[RequestId, Line]:
    """Which line each request took: those that reached the model, in order."""
    return {
        number: history.script[place % len(history.script)]
        for place, number in enumerate(world.order())
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_every_request_of_a_history_is_answered_once(seed: int) -> None:
    history = history_of(seed)
    world = history.play()
    left = {number for numbers in history.departures.values() for number in numbers}
    lines = lines_of(history, world)
    for number, asked in world.asked.items():
        finish, told = world.finish(number), world.tokens(number)
        if finish is Finish.REJECTED:
            assert asked.most_tokens > world.pages * history.extents.page_tokens
            assert number not in lines
            continue
        if number not in lines:
            assert (finish, told, number in left) == (Finish.CANCELLED, (), True)
            continue
        whole, end = played_line(lines[number], asked)
        assert told == whole[: len(told)]
        if finish is Finish.CANCELLED:
            assert number in left
        else:
            assert (told, finish) == (whole, end)
        if finish is Finish.FAILED:
            assert world.ending(number).problem == "the device reports that execution failed"
    assert world.is_empty()


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    first, second = history_of(seed).play(), history_of(seed).play()
    assert first.mailbox.outbox == second.mailbox.outbox
    assert first.device.played == second.device.played


@pytest.mark.parametrize("seed", QUIET_SEEDS)
def test_one_frame_and_two_give_the_same_tokens(seed: int) -> None:
    history = history_of(seed, quiet=True)
    one, two = history.play(frames=1), history.play(frames=2)
    for number in one.asked:
        assert one.finish(number) is two.finish(number)
        assert one.tokens(number) == two.tokens(number)


@pytest.mark.parametrize("seed", QUIET_SEEDS)
def test_a_small_cache_and_a_large_one_give_the_same_tokens(seed: int) -> None:
    history = history_of(seed, quiet=True)
    large = replace(history, pages=history.extents.row_pages * history.extents.lanes)
    least = max(asked.most_tokens for asks in history.arrivals.values() for asked in asks)
    small = replace(history, pages=-(-least // history.extents.page_tokens))
    calm, rough = large.play(), small.play()
    for number in calm.asked:
        assert calm.finish(number) is rough.finish(number)
        assert calm.tokens(number) == rough.tokens(number)


def test_the_histories_put_requests_back_fail_reject_and_cancel() -> None:
    seen = set[Finish]()
    preempted = 0
    for seed in SEEDS:
        world = history_of(seed).play()
        seen |= {world.finish(number) for number in world.asked}
        preempted += world.rounds()[-1].totals.preempted
    assert seen == set(Finish) - {Finish.STOPPED}
    assert preempted > 3
