"""Both ends of a mailbox over a real pair of sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from helios.mailbox import (
    MOST_NBYTES,
    PREFIX,
    Begun,
    FrontMailbox,
    Gauges,
    MailboxClosed,
    News,
    Ping,
    Plain,
    Pong,
    Ready,
    Refusal,
    Requests,
    Round,
    Shutdown,
    Stage,
    Step,
    ToFront,
    Totals,
    ToWorker,
    WorkerMailbox,
)
from helios.rounds import Finish, Span
from helios.values import RequestId
from tests.schedule.made import PLAIN, request

READY = Ready(
    snapshots=0,
    slots=4,
    pages=8,
    page_tokens=64,
    memory={"keys": 1 << 40},
    image="plain",
    stages=(Stage("load", 0.5),),
)
ROUND = Round(
    news=(
        News(RequestId(7), (1, 2), times=(10, 1 << 60)),
        Plain((RequestId(7), RequestId(1 << 40)), (3, 1 << 20)),
        News(RequestId(8), finish=Finish.FAILED, problem="why"),
        *(News(RequestId(10), finish=finish) for finish in Finish),
    ),
    steps=(
        Step(operation="decode", lanes=2, tokens=2),
        Step(
            operation="mixed",
            lanes=3,
            tokens=9,
            prompt_tokens=7,
            constrained=1,
            device_ns=1 << 40,
            host_ns=5,
            gap_ns=6,
        ),
    ),
    gauges=Gauges(1, 2, 3, idle_pages=4, free_rows=5, idle_rows=6),
    totals=Totals(preempted=1, evicted=2, spilled=3, loaded=4, constrained_most_in_flight=1),
    begun=(Begun(RequestId(7), 64, 70, "diverged", again=True, waited_ns=1 << 40),),
)
REQUESTS = Requests(
    submit=(
        request(1, sampling=msgspec.structs.replace(PLAIN, seed=(1 << 64) - 1, temperature=0.1)),
        request(2, eos_ids=(), salt="mine", spans=(Span(start=1, length=2, digest=b"\0\xff"),)),
        request(3, score_prompt=True),
    ),
    cancel=(RequestId(9),),
)


def big_round(tokens: int) -> Round:
    """A message of about five bytes a token."""
    return Round(
        news=(News(RequestId(1), tuple(range(1 << 20, (1 << 20) + tokens))),),
        steps=(),
        gauges=Gauges(0, 0, 0),
    )


@contextmanager
def pair() -> Iterator[tuple[WorkerMailbox, socket.socket]]:
    """A worker's end, and the raw socket at the other."""
    ours, theirs = socket.socketpair()
    worker = WorkerMailbox(theirs)
    try:
        yield worker, ours
    finally:
        worker.close()
        ours.close()


class Front:
    """A front's end, and what came to it."""

    def __init__(self) -> None:
        self.received: list[ToFront] = []
        self.lost = asyncio.Event()
        self.mailbox: FrontMailbox

    async def until(self, count: int) -> None:
        """Wait for so many messages."""
        async with asyncio.timeout(10):
            while len(self.received) < count:
                await asyncio.sleep(0.001)


def talk(conversation: Callable[[WorkerMailbox, Front], Awaitable[None]]) -> None:
    """Run a conversation between both ends."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        worker, front = WorkerMailbox(theirs), Front()
        front.mailbox = await FrontMailbox.connect(ours, front.received.append, front.lost.set)
        try:
            await conversation(worker, front)
        finally:
            front.mailbox.close()
            worker.close()
            await asyncio.sleep(0)

    asyncio.run(run())


async def drained(worker: WorkerMailbox, count: int) -> list[ToWorker]:
    """So many messages at the worker's end."""
    found: list[ToWorker] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += worker.drain()
            await asyncio.sleep(0)
    return found


# ---------------------------------------------------------------- messages


def test_what_the_front_sends_is_what_the_worker_reads() -> None:
    async def conversation(worker: WorkerMailbox, front: Front) -> None:
        assert worker.drain() == []
        for message in (REQUESTS, Requests(), Ping(), Shutdown()):
            front.mailbox.send(message)
        assert await drained(worker, 4) == [REQUESTS, Requests(), Ping(), Shutdown()]

    talk(conversation)


def test_what_the_worker_publishes_is_what_the_front_receives() -> None:
    async def conversation(worker: WorkerMailbox, front: Front) -> None:
        for message in (READY, ROUND, Pong(1 << 40), Refusal("why")):
            worker.publish(message)
        await front.until(4)
        assert front.received == [READY, ROUND, Pong(1 << 40), Refusal("why")]

    talk(conversation)


def test_messages_larger_than_any_buffer_arrive_whole() -> None:
    async def conversation(worker: WorkerMailbox, front: Front) -> None:
        sizes = (300_000, 1, 300_000)
        for size in sizes:
            worker.publish(big_round(size))
        while len(front.received) < len(sizes):
            worker.flush()
            await asyncio.sleep(0)
        assert front.received == [big_round(size) for size in sizes]
        front.mailbox.send(Requests(submit=(request(1, prompt=range(300_000)),)))
        (message,) = await drained(worker, 1)
        assert isinstance(message, Requests)
        assert message.submit[0].prompt == tuple(range(300_000))

    talk(conversation)


# ------------------------------------------------------------ stalled reader


@pytest.mark.clause("TO-32")
def test_a_stalled_reader_does_not_block_the_worker() -> None:
    with pair() as (worker, ours):
        began = time.monotonic()
        for _ in range(40):
            worker.publish(big_round(20_000))
        assert time.monotonic() - began < 5
        assert worker.drain() == []
        ours.settimeout(10)
        reader = msgspec.msgpack.Decoder(Round)
        for _ in range(40):
            assert reader.decode(read_message(ours, worker)) == big_round(20_000)


def read_message(connection: socket.socket, worker: WorkerMailbox) -> bytes:
    """One message at the front's raw end, while the worker flushes."""

    def exactly(nbytes: int) -> bytes:
        found = bytearray()
        while len(found) < nbytes:
            worker.flush()
            found += connection.recv(nbytes - len(found))
        return bytes(found)

    return exactly(*PREFIX.unpack(exactly(PREFIX.size)))


def test_waiting_sends_on_what_a_stalled_reader_left() -> None:
    with pair() as (worker, ours):
        worker.publish(big_round(500_000))
        found = bytearray()
        thread = threading.Thread(target=read_all, args=(ours, found))
        thread.start()
        (nbytes,) = PREFIX.unpack(expected_prefix(500_000))
        deadline = time.monotonic() + 10
        while len(found) < nbytes + PREFIX.size and time.monotonic() < deadline:
            worker.wait(0.01)
        worker.close()
        thread.join()
        assert len(found) == nbytes + PREFIX.size


def expected_prefix(tokens: int) -> bytes:
    """The length of a big round."""
    return PREFIX.pack(len(msgspec.msgpack.encode(big_round(tokens))))


def read_all(connection: socket.socket, found: bytearray) -> None:
    """Read until the other end hangs up."""
    while data := connection.recv(1 << 16):
        found += data


def test_waiting_ends_with_a_message_and_with_patience() -> None:
    with pair() as (worker, ours):
        began = time.monotonic()
        worker.wait(0.02)
        assert time.monotonic() - began >= 0.01
        ours.sendall(PREFIX.pack(0)[:1])
        worker.wait(None)  # would hang without the byte


# --------------------------------------------------------------------- loss


def test_a_worker_whose_front_hung_up_is_told_when_it_reads() -> None:
    with pair() as (worker, ours):
        ours.close()
        with pytest.raises(MailboxClosed, match="the front is gone"):
            worker.drain()


def test_a_worker_whose_front_hung_up_is_told_when_it_publishes() -> None:
    with pair() as (worker, ours):
        ours.close()
        with pytest.raises(MailboxClosed, match="the front is gone"):
            worker.publish(ROUND)


def test_a_worker_whose_front_vanished_with_bytes_unread_is_told() -> None:
    with pair() as (worker, ours):
        worker.publish(ROUND)
        ours.close()
        with pytest.raises(MailboxClosed, match="the front is gone"):
            worker.drain()


def test_a_worker_that_waits_is_woken_by_the_loss() -> None:
    with pair() as (worker, ours):
        threading.Timer(0.05, ours.close).start()
        worker.wait(None)
        with pytest.raises(MailboxClosed):
            worker.drain()


def test_an_absurd_length_is_a_loss_to_the_worker() -> None:
    with pair() as (worker, ours):
        ours.sendall(PREFIX.pack(MOST_NBYTES + 1))
        with pytest.raises(MailboxClosed, match="a message of"):
            worker.drain()


def test_a_front_whose_worker_hung_up_is_told_and_can_send_no_more() -> None:
    async def conversation(worker: WorkerMailbox, front: Front) -> None:
        worker.publish(ROUND)
        worker.close()
        async with asyncio.timeout(10):
            await front.lost.wait()
        assert front.received == [ROUND]
        with pytest.raises(MailboxClosed, match="the worker is gone"):
            front.mailbox.send(Shutdown())

    talk(conversation)


def test_a_front_that_hung_up_itself_can_send_no_more() -> None:
    async def conversation(worker: WorkerMailbox, front: Front) -> None:
        front.mailbox.close()
        with pytest.raises(MailboxClosed, match="the worker is gone"):
            front.mailbox.send(Shutdown())
        async with asyncio.timeout(10):
            await front.lost.wait()
        with pytest.raises(MailboxClosed):
            await drained(worker, 1)

    talk(conversation)


def test_a_front_that_was_never_connected_can_send_nothing() -> None:
    mailbox = FrontMailbox(lambda _message: None, lambda: None)
    with pytest.raises(MailboxClosed, match="the worker is gone"):
        mailbox.send(Shutdown())
    mailbox.close()


def test_an_absurd_length_is_a_loss_to_the_front() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        front = Front()
        front.mailbox = await FrontMailbox.connect(ours, front.received.append, front.lost.set)
        theirs.sendall(PREFIX.pack(MOST_NBYTES + 1))
        async with asyncio.timeout(10):
            await front.lost.wait()
        theirs.close()
        with pytest.raises(MailboxClosed):
            front.mailbox.send(Shutdown())

    asyncio.run(run())


def test_a_message_of_an_unknown_kind_is_not_read_as_another() -> None:
    with pair() as (worker, ours):
        data = msgspec.msgpack.encode({"type": "Surprise"})
        ours.sendall(PREFIX.pack(len(data)) + data)
        with pytest.raises((msgspec.ValidationError, MailboxClosed)):
            worker.drain()
