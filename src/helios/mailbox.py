"""Between front and worker: length-prefixed MessagePack over a Unix socket.

One message a round in each direction, whatever the number of lanes.  Sending never blocks:
what the other side has not taken yet waits in a buffer of ours.  A lost connection is
`MailboxClosed`, on either side.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Final, cast

import msgspec

from helios.frontend.request import PreparedRequest
from helios.frontend.stops import StopCut
from helios.rounds import Finish, Score
from helios.values import RequestId

PREFIX: Final = struct.Struct("<I")
MOST_NBYTES: Final = 256 << 20
READ_NBYTES: Final = 1 << 20


class MailboxClosed(Exception):
    """The other side is gone."""


# ---------------------------------------------------------------- messages


class Requests(msgspec.Struct, tag=True, frozen=True):
    """To the worker: requests that come, requests that go."""

    submit: tuple[PreparedRequest, ...] = ()
    cancel: tuple[RequestId, ...] = ()


class Ping(msgspec.Struct, tag=True, frozen=True):
    """To the worker: are you there?"""


class Shutdown(msgspec.Struct, tag=True, frozen=True):
    """To the worker: end everything, then yourself."""


class News(msgspec.Struct, tag=True, frozen=True, omit_defaults=True):
    """What a request got in a round."""

    request: RequestId
    tokens: tuple[int, ...] = ()
    finish: Finish | None = None
    problem: str | None = None
    times: tuple[int, ...] = ()  # when each token was settled, if the request observes it
    cut: StopCut | None = None  # what a declared stop takes from the end
    scores: tuple[Score, ...] = ()  # of the tokens, if the request asked
    prompt_scores: tuple[Score | None, ...] = ()  # of prompt tokens from the second on


class Plain(msgspec.Struct, tag=True, frozen=True):
    """What most requests get in a round: a token each, and nothing else."""

    requests: tuple[RequestId, ...]
    tokens: tuple[int, ...]


class Begun(msgspec.Struct, frozen=True):
    """A request got a slot: what was found computed already, and why no more."""

    request: RequestId
    reused: int  # tokens
    asked: int  # tokens that could have been
    stop: str
    again: bool  # after preemption: its own work found again
    waited_ns: int


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A submission that finished, for the counts."""

    operation: str
    lanes: int
    tokens: int
    prompt_tokens: int = 0
    constrained: int = 0  # lanes under a grammar
    device_ns: int = 0
    host_ns: int = 0  # planning, packing and handing over
    gap_ns: int = 0  # the device waited for it


class Gauges(msgspec.Struct, frozen=True):
    """How full the worker is."""

    waiting: int
    lanes: int
    free_pages: int
    idle_pages: int = 0  # that only the prefix tree holds
    free_rows: int = 0
    idle_rows: int = 0


class Totals(msgspec.Struct, frozen=True):
    """Counts since the worker began."""

    preempted: int = 0
    published: int = 0  # continuation rows
    evicted: int = 0  # entries of the prefix tree
    spilled: int = 0  # pages copied to the host
    loaded: int = 0  # pages copied back
    constrained_most_in_flight: int = 0


class Round(msgspec.Struct, tag=True, frozen=True):
    """From the worker: news of requests in order, what was submitted, how full it is."""

    news: tuple[News | Plain, ...]
    steps: tuple[Step, ...]
    gauges: Gauges
    totals: Totals = Totals()
    begun: tuple[Begun, ...] = ()

    def by_request(self) -> Iterator[News]:
        """All news, one request after another."""
        for news in self.news:
            if isinstance(news, Plain):
                for request, token in zip(news.requests, news.tokens, strict=True):
                    yield News(request, (token,))
            else:
                yield news


class Pong(msgspec.Struct, tag=True, frozen=True):
    """From the worker: it turns; how long its oldest submission has been running."""

    running_ns: int


class Stage(msgspec.Struct, frozen=True):
    """A part of starting up, in seconds."""

    name: str
    seconds: float


class Ready(msgspec.Struct, tag=True, frozen=True):
    """From the worker: the model is loaded and one real round has run."""

    slots: int
    pages: int
    page_tokens: int
    snapshots: int  # continuation rows
    memory: dict[str, int]  # bytes by buffer
    image: str
    stages: tuple[Stage, ...]


class Refusal(msgspec.Struct, tag=True, frozen=True):
    """From the worker: it cannot start, and why."""

    why: str


ToWorker = Requests | Ping | Shutdown
ToFront = Round | Pong | Ready | Refusal


# ------------------------------------------------------------------ frames


class FrameBuffer:
    """Bytes that arrived, cut into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Whole messages, as they complete."""
        self._bytes += data
        start = 0
        while len(self._bytes) - start >= PREFIX.size:
            (nbytes,) = PREFIX.unpack_from(self._bytes, start)
            if nbytes > MOST_NBYTES:
                raise MailboxClosed(f"a message of {nbytes} bytes")
            end = start + PREFIX.size + nbytes
            if len(self._bytes) < end:
                break
            yield bytes(self._bytes[start + PREFIX.size : end])
            start = end
        del self._bytes[:start]


def framed(message: bytes) -> bytes:
    """A message with its length."""
    return PREFIX.pack(len(message)) + message


class WorkerMailbox:
    """The worker's end: read when convenient, write without blocking."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        self._connection = connection
        self._frames = FrameBuffer()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToWorker)
        self._unsent = bytearray()

    def drain(self) -> list[ToWorker]:
        """Every message that has arrived."""
        messages: list[ToWorker] = []
        while True:
            try:
                data = self._connection.recv(READ_NBYTES)
            except BlockingIOError:
                return messages
            except OSError:
                raise MailboxClosed("the front is gone") from None
            if not data:
                raise MailboxClosed("the front is gone")
            messages += map(self._decoder.decode, self._frames.feed(data))

    def publish(self, message: ToFront) -> None:
        """Send a message, now or as the other side makes room."""
        self._unsent += framed(self._encoder.encode(message))
        self.flush()

    def flush(self) -> None:
        """Send what can be sent."""
        while self._unsent:
            try:
                sent = self._connection.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                raise MailboxClosed("the front is gone") from None
            del self._unsent[:sent]

    def wait(self, seconds: float | None) -> None:
        """Wait for a message, for room to send, or for so long."""
        poll = select.poll()
        interest = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        poll.register(self._connection, interest)
        poll.poll(None if seconds is None else seconds * 1000)
        self.flush()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class FrontMailbox(asyncio.Protocol):
    """The front's end, on its event loop."""

    def __init__(self, receive: Callable[[ToFront], None], lost: Callable[[], None]) -> None:
        self._receive, self._lost = receive, lost
        self._frames = FrameBuffer()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToFront)
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(
        cls,
        connection: socket.socket,
        receive: Callable[[ToFront], None],
        lost: Callable[[], None],
    ) -> FrontMailbox:
        """Take a connected socket over."""
        loop = asyncio.get_running_loop()
        _, mailbox = await loop.create_connection(lambda: cls(receive, lost), sock=connection)
        return mailbox

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)  # a stream's, whatever the loop

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        for message in self._frames.feed(data):
            self._receive(self._decoder.decode(message))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        del exc
        self._lost()

    def send(self, message: ToWorker) -> None:
        """Send a message."""
        if self._transport is None or self._transport.is_closing():
            raise MailboxClosed("the worker is gone")
        self._transport.write(framed(self._encoder.encode(message)))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
