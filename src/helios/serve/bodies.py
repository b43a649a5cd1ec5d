"""Bodies of requests: bounded each, bounded together, and not waited for without end.

A body that is only sent in part holds memory and nothing else: no permit, no thread.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import Message, Receive

from helios.values import BodyTooLarge, BodyTooSlow, IngressFull, RequestInvalid

MOST_BODY_NBYTES: Final = 32 << 20
MOST_TOGETHER_NBYTES: Final = 512 << 20
"""Of all bodies that are being read."""
BODY_SECONDS: Final = 60.0
"""From a request's headers to the end of its body."""


class Bodies:
    """The bodies that are being read."""

    def __init__(self, *, seconds: float = BODY_SECONDS, most: int = MOST_TOGETHER_NBYTES) -> None:
        self._seconds, self._most = seconds, most
        self.nbytes = 0  # being read

    async def read(self, receive: Receive) -> bytes:
        """The whole body."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    message = await receive()
                    piece = piece_of(message)
                    self.nbytes += len(piece)
                    body += piece
                    self._check(len(body))
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise BodyTooSlow(
                "body",
                f"{len(body)} bytes and no end in {self._seconds:g} seconds",
                expected="the whole body",
            ) from None
        finally:
            self.nbytes -= len(body)

    def _check(self, nbytes: int) -> None:
        if nbytes > MOST_BODY_NBYTES:
            raise BodyTooLarge("body", f"over {MOST_BODY_NBYTES} bytes", expected="a smaller body")
        if self.nbytes > self._most:
            raise IngressFull(
                f"the bodies that are being read have {self._most} bytes together, as many as "
                "this server holds; try again later"
            )


def piece_of(message: Message) -> bytes:
    """A message's part of the body; a client that went away has sent no body."""
    if message["type"] == "http.disconnect":
        raise RequestInvalid("body", "a closed connection", expected="the whole body")
    piece: bytes = message.get("body", b"")
    return piece
