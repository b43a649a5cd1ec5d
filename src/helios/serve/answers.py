"""The answers to one request, as they are made: turns of every choice, whatever the format.

A turn is what one piece of news made of a choice; formats only write turns down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import msgspec

from helios.frontend.prepare import Frontend, Prepared
from helios.frontend.syntax.events import Event
from helios.mailbox import News
from helios.respond.pipeline import OutputPipeline, Usage
from helios.rounds import Finish, Score
from helios.serve.front import Conversation, Front
from helios.serve.journal import note_answers
from helios.values import HeliosError


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one piece of news made of a choice."""

    choice: int
    events: list[Event]
    tokens: tuple[int, ...]
    times: tuple[int, ...] = ()
    scores: tuple[Score, ...] = ()
    prompt_scores: tuple[Score | None, ...] = ()
    finish: str | None = None
    stop: str | None = None  # the client's string that ended it


class Answers:
    """Every choice of one request."""

    def __init__(
        self, front: Front, frontend: Frontend, prepared: Prepared, *, raw: bool = False
    ) -> None:
        self.prepared = prepared
        self._front, self._frontend, self._raw = front, frontend, raw
        self._pipelines = [self._pipeline() for _ in prepared.requests]
        self._conversations: list[Conversation] = []
        note_answers(self)

    def _pipeline(self) -> OutputPipeline:
        prepared, syntax = self.prepared, self._frontend.syntax
        return OutputPipeline(
            syntax.pieces(),
            prepared.requests[0].stops,
            syntax.plain()
            if self._raw
            else syntax.machine(
                tools=prepared.tools, opened=prepared.opened, opaque=prepared.opaque
            ),
            eos_ids=self._frontend.eos_ids,
            markers=syntax.markers,
            one_call=not prepared.parallel_calls,
        )

    @property
    def enqueued_ns(self) -> int:
        """When the first choice was handed to the worker."""
        return self._conversations[0].enqueued_ns

    @property
    def reused_tokens(self) -> int:
        """Prompt tokens that were computed already."""
        return max((talk.reused for talk in self._conversations), default=0)

    def usage(self) -> Usage:
        """Tokens so far, of all choices; the prompt counts once."""
        return Usage(
            prompt_tokens=len(self.prepared.prompt),
            completion_tokens=sum(pipeline.tokens for pipeline in self._pipelines),
            reasoning_tokens=sum(pipeline.reasoning_tokens for pipeline in self._pipelines),
            reused_tokens=self.reused_tokens,
        )

    async def turns(self) -> AsyncIterator[Sequence[Turn]]:
        """Turns, those that came together at once; leaving early cancels what is not over."""
        async with AsyncExitStack() as stack:
            for request in self.prepared.requests:
                conversation = await stack.enter_async_context(self._front.converse(request))
                self._conversations.append(conversation)
            if len(self._conversations) == 1:
                async for turns in self._choice(0):
                    yield turns
            else:
                async for turns in self._together(stack):
                    yield turns

    async def _choice(self, choice: int) -> AsyncIterator[Sequence[Turn]]:
        """One choice, to its end."""
        pipeline = self._pipelines[choice]
        async for told in self._conversations[choice].rounds():
            turns = []
            for news in told:
                turns.append(turn_of(choice, pipeline, news))
                if turns[-1].finish is not None:
                    break
            yield turns
            if turns[-1].finish is not None:
                return

    async def _together(self, stack: AsyncExitStack) -> AsyncIterator[Sequence[Turn]]:
        """Several choices; the first error ends them all."""
        made: asyncio.Queue[Sequence[Turn] | HeliosError | None] = asyncio.Queue()

        async def follow(choice: int) -> None:
            try:
                async for turns in self._choice(choice):
                    made.put_nowait(turns)
            except HeliosError as error:
                made.put_nowait(error)
            made.put_nowait(None)

        for choice in range(len(self._conversations)):
            task = asyncio.create_task(follow(choice))
            stack.callback(task.cancel)
        left = len(self._conversations)
        while left:
            turns = await made.get()
            if isinstance(turns, HeliosError):
                raise turns
            if turns is None:
                left -= 1
            else:
                yield turns


def turn_of(choice: int, pipeline: OutputPipeline, news: News | int) -> Turn:
    """What a piece of news, or a token alone, makes of a choice.  # hot"""
    if isinstance(news, int):
        events = pipeline.token(news)
        ending = pipeline.reason(Finish.END_OF_SEQUENCE) if pipeline.over else None
        return Turn(choice=choice, events=events, tokens=(news,), finish=ending)
    before = pipeline.tokens
    events = pipeline.feed(news.tokens)
    kept = pipeline.tokens - before
    finish = news.finish
    if finish is not None:
        events = [*events, *pipeline.close(finish, news.cut)]
    elif pipeline.over:
        finish = Finish.END_OF_SEQUENCE
    return Turn(
        choice=choice,
        events=events,
        tokens=news.tokens[:kept],
        times=news.times[:kept],
        scores=news.scores[:kept],
        prompt_scores=news.prompt_scores,
        finish=None if finish is None else pipeline.reason(finish),
        stop=news.cut.string if finish is Finish.STOPPED and news.cut is not None else None,
    )
