"""What every generating route does: read, permit, prepare, answer, and never leave work behind.

The trip of a request on this side: decode, permit, prepare in a thread, submit, then turns into
the route's own format until the ending.  A reader that goes away ends all of it, whatever it was
waiting for (TO-29); after the headers of a stream an error is one event (TO-42).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import Executor
from typing import Final, Protocol

import msgspec
from starlette.types import Message, Receive, Scope, Send

from helios.frontend.prepare import Asked, Frontend, Prepared
from helios.serve.bodies import Bodies
from helios.serve.front import Front
from helios.serve.wire import encode, error_of
from helios.values import STATUS, HeliosError, RequestInvalid

RETRY_SECONDS: Final = b"1"
TOO_MANY: Final = 429


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What routes share: the front, the frontend, threads to prepare in, the model's names."""

    front: Front
    frontend: Frontend
    preparers: Executor  # frontend_workers threads
    model: str
    names: frozenset[str]
    bodies: Bodies = msgspec.field(default_factory=Bodies)

    def served_names(self) -> list[str]:
        """The model's id, then its aliases."""
        return [self.model, *sorted(self.names - {self.model})]

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not served."""
        if name is not None and name not in self.names:
            raise RequestInvalid("model", repr(name), expected=f"one of {sorted(self.names)}")

    async def prepare(self, asked: Asked) -> Prepared:
        """Prepare in a thread; the event loop goes on."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self.preparers, self.frontend.prepare, self.front.next_id, asked
        )


class Reply(Protocol):
    """An answer in a route's own format: a stream of bytes, or one object."""

    @property
    def streams(self) -> bool:
        """Whether it is a stream of events."""

    def events(self) -> AsyncIterator[bytes]:
        """Server-sent events, to the end."""

    async def whole(self) -> bytes:
        """One JSON object."""

    def failed(self, error: HeliosError) -> bytes:
        """The event that ends a stream which failed."""


class Format(Protocol):
    """A route's own format."""

    async def reply(self, body: bytes) -> Reply:
        """Decode and prepare; RequestInvalid names the field."""

    def refusal(self, error: HeliosError, *, status: int) -> object:
        """An error before any of the answer was sent."""


class OpenAIErrors:
    """Errors in OpenAI's shape."""

    def refusal(self, error: HeliosError, *, status: int) -> object:
        """See `Format`."""
        return error_of(error, status=status)


class Route:
    """One generating route; an ASGI application."""

    def __init__(self, service: Service, form: Format) -> None:
        self._service, self._form = service, form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        del scope
        sending = Sending(send)
        try:
            body = await self._service.bodies.read(receive)
            with self._service.front.gate.permit():
                await unless_gone(self._answer(body, sending), receive)
        except HeliosError as error:
            await self._refuse(error, sending)

    async def _answer(self, body: bytes, sending: Sending) -> None:
        reply = await self._form.reply(body)
        if not reply.streams:
            await sending.whole(await reply.whole())
            return
        events = reply.events()
        first = await anext(events)  # what goes wrong before it has a status of its own
        await sending.begin()
        await sending.piece(first)
        try:
            async for piece in events:
                await sending.piece(piece)
        except HeliosError as error:
            self._service.front.metrics.refuse(STATUS[type(error)])
            await sending.piece(reply.failed(error))
        await sending.end()

    async def _refuse(self, error: HeliosError, sending: Sending) -> None:
        """An error before any of the answer was sent."""
        status = STATUS[type(error)]
        self._service.front.metrics.refuse(status)
        extra = [(b"retry-after", RETRY_SECONDS)] if status == TOO_MANY else []
        body = encode(self._form.refusal(error, status=status))
        await sending.whole(body, status=status, extra=extra)


# -------------------------------------------------------------------- ASGI

EVENT_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Sending(msgspec.Struct):
    """One response."""

    send: Send

    async def begin(self) -> None:
        """The headers of a stream."""
        await self.send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})

    async def piece(self, body: bytes) -> None:
        """A part of a stream; waits while the reader is behind."""
        await self.send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        """The end of a stream."""
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(
        self, body: bytes, *, status: int = 200, extra: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        """A whole JSON response."""
        headers = [(b"content-type", b"application/json"), *(extra or [])]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


async def unless_gone(work: Awaitable[None], receive: Receive) -> None:
    """Do the work; a reader that goes away ends it."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(wait_until_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        for pending in (task, gone):
            pending.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()
