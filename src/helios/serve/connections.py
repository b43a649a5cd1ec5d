"""Connections: the head of a request is bounded, in bytes and in time.

uvicorn's protocol over httptools bounds neither.  A client that connects and says nothing, or
sends its headers a byte at a time, is let go; one whose headers have no end is told.
"""

from __future__ import annotations

import asyncio
import resource
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_NBYTES: Final = 64 << 10
MESSAGE: Final = (
    b'{"error":{"message":"headers: found over %d bytes, expected fewer",'
    b'"type":"invalid_request_error","param":"headers","code":431}}' % MOST_HEAD_NBYTES
)
TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(MESSAGE), MESSAGE)
)


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    head_seconds: ClassVar[float] = 30.0
    """From the connection, or a request's first byte, to the end of its headers."""

    _waiting: asyncio.TimerHandle | None = None
    _in_head = True
    _head_nbytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._in_head, self._head_nbytes = True, 0
        if self._waiting is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Some bytes; where they are of an unfinished head, they count."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_nbytes += len(data)
            if self._head_nbytes > MOST_HEAD_NBYTES:
                self.transport.write(TOO_LARGE)
                self.transport.close()
        elif self._waiting is None and self.cycle.response_complete:
            self._wait()  # bytes between requests put the keep-alive timer off: not for ever

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.close()


def allow_connections() -> None:
    """As many open files as the system lets this process have: a connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
