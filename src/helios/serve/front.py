"""The front's side of every request: from permit to last piece of news.

Owns the mailbox's front end and one queue of news a request.  Leaving a conversation before
its end cancels the request (TO-29); losing the worker ends every one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Protocol

from helios.frontend.request import PreparedRequest
from helios.mailbox import MailboxClosed, News, Ready, Refusal, Requests, Round, ToFront, ToWorker
from helios.rounds import Finish
from helios.serve.gate import Gate
from helios.serve.metrics import Metrics
from helios.values import AdmissionRejected, ExecutionFailed, RequestId, StartRefused


class Sender(Protocol):
    """The mailbox, as the front uses it."""

    def send(self, message: ToWorker) -> None:
        """Send a message to the worker."""


class Conversation:
    """News of one request, in order; grows as it comes (TO-31)."""

    def __init__(self) -> None:
        self._news: asyncio.Queue[News] = asyncio.Queue()
        self.over = False

    def tell(self, news: News) -> None:
        """Something happened."""
        self._news.put_nowait(news)

    async def rounds(self) -> AsyncIterator[News]:
        """News until the ending, which is the last; failures are raised."""
        while not self.over:
            news = await self._news.get()
            while news.finish is None and not self._news.empty():
                news = merged(news, self._news.get_nowait())
            self.over = news.finish is not None
            match news.finish:
                case Finish.REJECTED:
                    raise AdmissionRejected(news.problem or "the request was not admitted")
                case Finish.FAILED:
                    raise ExecutionFailed(news.problem or "the model failed")
            yield news


def merged(first: News, second: News) -> News:
    """Two pieces of news of one request, as one."""
    return News(first.request, first.tokens + second.tokens, second.finish, second.problem)


class Front:
    """All requests of a server."""

    def __init__(self, gate: Gate, metrics: Metrics) -> None:
        self.gate, self.metrics = gate, metrics
        self.ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()
        self.watch: asyncio.Task[None]
        self._mailbox: Sender | None = None
        self._ids = count(1)
        self._open: dict[RequestId, Conversation] = {}

    def attach(self, mailbox: Sender) -> None:
        """The worker can be reached now."""
        self._mailbox = mailbox

    def next_id(self) -> RequestId:
        """An id for a request."""
        return RequestId(next(self._ids))

    @property
    def healthy(self) -> bool:
        """Whether requests can be served."""
        return self.ready.done() and not self.lost.is_set()

    def receive(self, message: ToFront) -> None:
        """A message from the worker."""
        match message:
            case Ready():
                self.metrics.ready(message)
                self.ready.set_result(message)
            case Refusal(why):
                self._refuse(why)
            case Round():
                self.metrics.round(message)
                for news in message.news:
                    if conversation := self._open.get(news.request):
                        conversation.tell(news)

    def _refuse(self, why: str) -> None:
        """The worker cannot start; nobody need be waiting for it, if the front cannot either."""
        self.ready.set_exception(StartRefused(why))
        self.ready.exception()

    def worker_lost(self) -> None:
        """The worker is gone: every open conversation ends with an error."""
        self.lost.set()
        if not self.ready.done():
            self._refuse("the worker ended before it was ready")
        for request, conversation in self._open.items():
            conversation.tell(
                News(request, finish=Finish.FAILED, problem="the model's worker is gone")
            )

    @asynccontextmanager
    async def converse(self, request: PreparedRequest) -> AsyncIterator[Conversation]:
        """Submit a request; leaving the block early cancels it."""
        conversation = Conversation()
        self._open[request.id] = conversation
        try:
            self._send(Requests(submit=(request,)))
            self.metrics.started.inc()
            yield conversation
        finally:
            del self._open[request.id]
            if not conversation.over and not self.lost.is_set():
                self._send(Requests(cancel=(request.id,)))

    def _send(self, message: ToWorker) -> None:
        try:
            if self._mailbox is None:
                raise MailboxClosed
            self._mailbox.send(message)
        except MailboxClosed:
            raise ExecutionFailed("the model's worker is gone") from None
