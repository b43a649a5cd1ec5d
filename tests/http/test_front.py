"""The front without HTTP: news as a worker sends them, and how a chat writes them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helios.frontend.syntax.events import Content, Reasoning
from helios.mailbox import FrontMailbox, Gauges, News, Plain, Round, WorkerMailbox
from helios.rounds import Finish
from helios.serve.answers import Turn
from helios.serve.chunks import Chunks
from helios.serve.front import Conversation, Front
from helios.serve.gate import Gate
from helios.serve.metrics import Metrics
from helios.serve.wire import event
from helios.values import ExecutionFailed, MonotonicClock, RequestId
from tests.schedule.made import request

ONE, TWO = RequestId(1), RequestId(2)
ENDED = News(ONE, (9,), Finish.END_OF_SEQUENCE)


class World:
    """A front, and the worker's end of its mailbox."""

    def __init__(self, front: Front, worker: WorkerMailbox) -> None:
        self.front, self._worker = front, worker

    async def told(self, *news: News | Plain) -> None:
        """The front has heard of a round."""
        self._worker.publish(Round(news=news, steps=(), gauges=Gauges(0, 0, 0)))
        await asyncio.sleep(0.01)

    def count(self, name: str) -> float:
        """A count in the exposition."""
        lines = self.front.metrics.text().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A front with a mailbox."""
    ours, theirs = socket.socketpair()
    gate = Gate(4)
    front = Front(gate, Metrics(gate), MonotonicClock(0))
    mailbox = await FrontMailbox.connect(ours, front.receive, front.worker_lost)
    front.attach(mailbox)
    worker = WorkerMailbox(theirs)
    try:
        yield World(front, worker)
    finally:
        mailbox.close()
        worker.close()


def in_a_world(work: Callable[[World], Awaitable[None]]) -> None:
    """Do the work."""

    async def done() -> None:
        async with world() as made:
            await work(made)

    asyncio.run(done())


async def read(conversation: Conversation) -> list[Sequence[News | int]]:
    """All that is told, as it is told."""
    return [told async for told in conversation.rounds()]


def test_what_came_while_nobody_read_is_told_at_once_and_in_order() -> None:
    async def work(world: World) -> None:
        async with world.front.converse(request(1)) as conversation:
            await world.told(Plain((ONE,), (5,)))
            await world.told(News(ONE, (6, 7)), Plain((ONE,), (8,)))
            await world.told(ENDED)
            assert await read(conversation) == [[5, News(ONE, (6, 7)), 8, ENDED]]

    in_a_world(work)


def test_what_was_said_before_a_failure_is_told_before_it() -> None:
    async def work(world: World) -> None:
        async with world.front.converse(request(1)) as conversation:
            await world.told(Plain((ONE,), (5,)))
            await world.told(News(ONE, finish=Finish.FAILED, problem="why"))
            rounds = conversation.rounds()
            assert await anext(rounds) == [5]
            with pytest.raises(ExecutionFailed, match="why"):
                await anext(rounds)

    in_a_world(work)


def test_a_token_each_is_counted_for_each_whenever_they_began() -> None:
    async def work(world: World) -> None:
        async with AsyncExitStack() as stack:
            for number in (1, 2):
                await stack.enter_async_context(world.front.converse(request(number)))
            await world.told(Plain((ONE,), (5,)))
            await world.told(Plain((ONE, TWO), (6, 7)))
            await world.told(Plain((ONE, TWO), (8, 9)))
            assert world.count("flare_output_tokens_total") == 5
            assert world.count("flare_time_to_first_token_seconds_count") == 2
            assert world.count("flare_inter_token_seconds_count") == 3

    in_a_world(work)


@given(
    text=st.text(min_size=1),
    kind=st.sampled_from([Content, Reasoning]),
    choice=st.integers(0, 2),
    tail=st.sampled_from([{}, {"usage": None}]),
)
def test_a_chunk_is_what_the_encoder_writes(
    text: str, kind: type[Content] | type[Reasoning], choice: int, tail: dict[str, None]
) -> None:
    head = {"id": "chatcmpl-1", "created": 7, "model": "acme/small"}
    delta = {"content" if kind is Content else "reasoning_content": text}
    told = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": None}
    turn = Turn(choice=choice, events=[kind(text)], tokens=(1,))
    written = Chunks(head, tail, choices=3).deltas(turn)
    assert written == [event({**head, "choices": [told], **tail})]
