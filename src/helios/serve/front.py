"""The front's side of every request: from permit to last piece of news.

Owns the mailbox's front end, and each request's news until they are read.  Leaving a
conversation before its end cancels the request (TO-29); losing the worker, or the end of a
drain, ends every one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final, Protocol

from msgspec.structs import replace

from helios.frontend.request import PreparedRequest
from helios.mailbox import (
    Begun,
    MailboxClosed,
    News,
    Ping,
    Plain,
    Pong,
    Ready,
    Refusal,
    Requests,
    Round,
    ToFront,
    ToWorker,
)
from helios.rounds import Finish
from helios.serve.gate import Gate
from helios.serve.liveness import PING_SECONDS, Liveness
from helios.serve.metrics import Metrics
from helios.values import (
    AdmissionRejected,
    Clock,
    ExecutionFailed,
    HeliosError,
    RequestId,
    StartRefused,
)

FAILURES: Final = (Finish.REJECTED, Finish.FAILED)
MOST_AT_ONCE: Final = 64
"""Rounds that a reader who was away is told at once, so that writing stays in small parts."""


class Sender(Protocol):
    """The mailbox, as the front uses it."""

    def send(self, message: ToWorker) -> None:
        """Send a message to the worker."""


class Conversation:
    """News of one request, in order; grows as it comes (TO-31), and ends with an ending."""

    def __init__(self, enqueued_ns: int) -> None:
        self._news: list[News | int] = []  # that nobody has read; a token stands for itself
        self._ended = False
        self._reader: asyncio.Future[None] | None = None
        self.enqueued_ns = enqueued_ns
        self.told_ns = 0  # when tokens last came
        self.reused = 0  # prompt tokens that were computed already
        self.over = False

    def tell(self, news: News | int) -> None:
        """Something happened; most often a token came, and nothing else.  # hot"""
        if self._ended:
            return
        self._ended = isinstance(news, News) and news.finish is not None
        self._news.append(news)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def begin(self, begun: Begun) -> None:
        """It has a slot; work found again after preemption is no reuse."""
        if not begun.again:
            self.reused = begun.reused

    async def rounds(self) -> AsyncIterator[Sequence[News | int]]:
        """News in order, whatever has come at once; the ending is the last of them.

        A failure is raised once all that was said before it is told.
        """
        while not self.over:
            if not self._news:
                self._reader = asyncio.get_running_loop().create_future()
                await self._reader
            told = self._news[:MOST_AT_ONCE]
            del self._news[:MOST_AT_ONCE]
            last = told[-1]
            if isinstance(last, News) and last.finish is not None:
                self.over = True
                if last.finish in FAILURES:
                    told[-1] = replace(last, finish=None, problem=None)
                    if said := told if last.tokens else told[:-1]:
                        yield said
                    raise failure_of(last)
            yield told


def failure_of(news: News) -> HeliosError:
    """The error that an ending tells of."""
    if news.finish is Finish.REJECTED:
        return AdmissionRejected(news.problem or "the request was not admitted")
    return ExecutionFailed(news.problem or "the model failed")


class Front:
    """All requests of a server."""

    def __init__(self, gate: Gate, metrics: Metrics, clock: Clock) -> None:
        self.gate, self.metrics, self.clock = gate, metrics, clock
        self.ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()
        self.draining = False
        self.watches: tuple[asyncio.Task[None], ...] = ()
        self.liveness = Liveness(clock)
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
    def problem(self) -> str | None:
        """Why the model cannot be served now, if it cannot."""
        if not self.ready.done():
            return "the model is not loaded yet"
        if self.lost.is_set():
            return "the model's worker is gone"
        return self.liveness.problem

    async def beat(self) -> None:
        """Ask the worker whether it is there, for ever."""
        while not self.lost.is_set():
            with suppress(ExecutionFailed):
                self._send(Ping())
            await asyncio.sleep(PING_SECONDS)

    # ------------------------------------------------------- from the worker

    def receive(self, message: ToFront) -> None:
        """A message from the worker."""
        self.liveness.heard()
        match message:
            case Round():
                self._spread(message)
            case Pong(running_ns):
                self.liveness.answered(running_ns)
            case Ready():
                self.metrics.ready(message)
                self.ready.set_result(message)
            case Refusal(why):
                self._refuse(why)

    def _spread(self, told: Round) -> None:
        """Each conversation its news, and the counts theirs."""
        now = self.clock.now_ns()
        self.metrics.round(told)
        for begun in told.begun:
            if conversation := self._open.get(begun.request):
                conversation.begin(begun)
        for news in told.news:
            if isinstance(news, Plain):
                self._hand_out(news, now)
            elif conversation := self._open.get(news.request):
                self._time(conversation, len(news.tokens), now=now)
                if news.finish is not None and news.tokens:
                    self.metrics.whole(now - conversation.enqueued_ns)
                conversation.tell(news)

    def _hand_out(self, plain: Plain, now: int) -> None:
        """A token each; who was told last at the same time has waited as long.  # hot"""
        waiting: dict[int, int] = defaultdict(int)
        for request, token in zip(plain.requests, plain.tokens, strict=True):
            if conversation := self._open.get(request):
                if conversation.told_ns:
                    waiting[conversation.told_ns] += 1
                else:
                    self.metrics.first_token(now - conversation.enqueued_ns)
                conversation.told_ns = now
                conversation.tell(token)
        for told_ns, tokens in waiting.items():
            self.metrics.token_gap((now - told_ns) * tokens, tokens=tokens)

    def _time(self, conversation: Conversation, tokens: int, *, now: int) -> None:
        """How long the client waited for so many tokens."""
        if not tokens:
            return
        if conversation.told_ns:
            self.metrics.token_gap(now - conversation.told_ns, tokens=tokens)
        else:
            self.metrics.first_token(now - conversation.enqueued_ns)
        conversation.told_ns = now

    def _refuse(self, why: str) -> None:
        """The worker cannot start; nobody need be waiting for it, if the front cannot either."""
        self.ready.set_exception(StartRefused(why))
        self.ready.exception()

    def worker_lost(self) -> None:
        """The worker is gone: every open conversation ends with an error."""
        self.lost.set()
        if not self.ready.done():
            self._refuse("the worker ended before it was ready")
        self.metrics.lost(len(self._open))
        self.end_all("the model's worker is gone")

    def end_all(self, why: str) -> None:
        """Every open conversation ends with an error."""
        for request, conversation in self._open.items():
            conversation.tell(News(request, finish=Finish.FAILED, problem=why))

    # --------------------------------------------------------- conversations

    @asynccontextmanager
    async def converse(self, request: PreparedRequest) -> AsyncIterator[Conversation]:
        """Submit a request; leaving the block early cancels it."""
        conversation = Conversation(self.clock.now_ns())
        self._open[request.id] = conversation
        try:
            self._send(Requests(submit=(request,)))
            self.metrics.started.add()
            yield conversation
        finally:
            del self._open[request.id]
            if not conversation.over and not self.lost.is_set():
                with suppress(ExecutionFailed):
                    self._send(Requests(cancel=(request.id,)))

    def _send(self, message: ToWorker) -> None:
        try:
            if self._mailbox is None:
                raise MailboxClosed
            self._mailbox.send(message)
        except MailboxClosed:
            raise ExecutionFailed("the model's worker is gone") from None
