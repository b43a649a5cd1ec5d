"""Callers: clients that cost little, and what they can see of a server's processes.

A caller is one keep-alive connection over a raw socket: it finds the end of an answer and reads
nothing in it, so that it is the server that is measured.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Final, cast

import msgspec

from bench.served import family
from tests.http.scripted import Stage, make_core
from tests.http.small import SmallServer

EVENT: Final = b"data: "
LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
STATUS_AT: Final = slice(9, 12)  # of an answer: HTTP/1.1 200 OK
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def post(path: str, body: object) -> bytes:
    """A request as it travels."""
    data = msgspec.json.encode(body)
    return (
        b"POST %b HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (path.encode(), len(data), data)
    )


def object_of(answer: bytes) -> bytes:
    """The JSON object of an answer, in one chunk or in none."""
    return answer[answer.index(b"{") : answer.rindex(b"}") + 1]


class Caller(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._arrived = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._end = 0  # where the answer ends, once its head has said so
        self._enough: int | None = None  # events after which the rest is not waited for

    @classmethod
    async def to(cls, port: int) -> Caller:
        """A new connection."""
        loop = asyncio.get_running_loop()
        _, caller = await loop.create_connection(cls, "127.0.0.1", port)
        return caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes) -> None:
        """Send and expect nothing."""
        assert self._transport is not None
        self._transport.write(request)

    async def ask(self, request: bytes, *, enough: int | None = None) -> bytes:
        """The answer, whole; or what came of it until it had enough events."""
        self._arrived, self._end, self._enough = bytearray(), 0, enough
        self._answer = asyncio.get_running_loop().create_future()
        self.send(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._arrived += data
        if self._answer is not None and not self._answer.done() and self._complete():
            self._answer.set_result(bytes(self._arrived))

    def _complete(self) -> bool:
        if self._enough is not None and self._arrived.count(EVENT) >= self._enough:
            return True
        if not self._end:
            head = self._arrived.find(HEAD_END)
            if head < 0:
                return False
            length = LENGTH.search(self._arrived, 0, head)
            self._end = head + len(HEAD_END) + int(length[1]) if length else -1
        if self._end < 0:
            return self._arrived.endswith(LAST_CHUNK)
        return len(self._arrived) >= self._end

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server hung up"))

    def leave(self) -> None:
        """Hang up, whatever was asked."""
        assert self._transport is not None
        self._transport.abort()


def scripted_server(stage: Stage, folder: Path) -> SmallServer:
    """A server that plays a stage's lines; its core is made first."""
    core = folder / stage.name
    make_core(stage, core, core / "home")
    return SmallServer(core, *stage.options)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the system says of one process."""

    cpu_seconds: float
    resident_nbytes: int
    descriptors: int


def seen(pid: int) -> Seen:
    """A process, now."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return Seen(
        cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS,
        resident_nbytes=int((folder / "statm").read_text().split()[1]) * PAGE,
        descriptors=len(os.listdir(folder / "fd")),
    )


def both_processes(server: SmallServer) -> dict[str, int]:
    """Ids of a server's front and of its worker."""
    front, worker, *_ = family(server.process.pid)
    return {"front": front, "worker": worker}
