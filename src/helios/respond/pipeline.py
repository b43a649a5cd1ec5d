"""One answer being made: tokens in, events out, one ending.

Tokens become pieces, pieces pass the stops, and the syntax turns them into reasoning, content
and calls.  Formats are `serve`'s.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import msgspec

from helios.frontend.stops import StopCut, StopFilter, StopSpec
from helios.frontend.syntax.events import (
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Event,
    Reasoning,
)
from helios.frontend.syntax.pieces import Piece, PieceStream
from helios.frontend.syntax.plain import Reader
from helios.rounds import Finish


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    reused_tokens: int = 0  # of the prompt


class OutputPipeline:
    """Decoding and parsing state of one answer."""

    def __init__(
        self,
        pieces: PieceStream,
        stops: StopSpec | None,
        reader: Reader,
        *,
        eos_ids: Container[int],
        markers: Container[int],
        one_call: bool = False,
    ) -> None:
        self._filter = StopFilter(stops, pieces, markers=markers)
        self._reader, self._eos_ids, self._one_call = reader, eos_ids, one_call
        self._opened = self._closed = 0
        self.tokens = self.reasoning_tokens = 0
        self.over = False  # nothing that follows is wanted

    def feed(self, tokens: tuple[int, ...]) -> list[Event]:
        """What these tokens complete."""
        events: list[Event] = []
        for token in tokens:
            if self.over:
                break
            events += self.token(token)
        return joined(events)

    # hot
    def token(self, token: int) -> list[Event]:
        """What one token completes; an end of sequence has no text."""
        self.tokens += 1
        self.reasoning_tokens += self._reader.thinking
        if token in self._eos_ids:
            return []
        pieces = self._filter.feed(token)
        if len(pieces) == 1:
            return joined(self._count(self._reader.feed(pieces[0])))
        return joined(self._parsed(pieces))

    def close(self, finish: Finish, cut: StopCut | None) -> list[Event]:
        """What was held back, less what a stop takes."""
        if self.over:
            return []
        pieces = self._filter.close() if cut is None else self._filter.stop(cut)
        events = self._parsed(pieces)
        events += self._count(self._reader.close(truncated=finish in CUTS))
        return joined(events)

    def _parsed(self, pieces: list[Piece]) -> list[Event]:
        events: list[Event] = []
        for piece in pieces:
            events += self._count(self._reader.feed(piece))
        return events

    def _count(self, events: list[Event]) -> list[Event]:
        """Calls are counted; with one allowed, the answer ends with it."""
        if self.over:
            return []
        for place, event in enumerate(events):
            if isinstance(event, CallOpened):
                self._opened += 1
            elif isinstance(event, CallClosed):
                self._closed += 1
                if self._one_call:
                    self.over = True
                    return events[: place + 1]
        return events

    def reason(self, finish: Finish) -> str:
        """How the ending is told to a client; errors are told elsewhere.

        An answer that ends inside a call was cut off, whoever ended it: its arguments are no
        JSON, and no client may take it for finished (T-27).
        """
        if finish is Finish.STOPPED:
            return "stop"
        if self.over:
            return "tool_calls"
        if finish is Finish.OUTPUT_LIMIT or self._opened > self._closed:
            return "length"
        return "tool_calls" if self._closed else "stop"


CUTS: Final = frozenset({Finish.OUTPUT_LIMIT, Finish.STOPPED})
"""Endings that come from outside: what the model had begun stays unfinished."""


def joined(events: list[Event]) -> list[Event]:
    """Neighbours that say more of the same as one event."""
    if len(events) < 2:
        return events
    made: list[Event] = []
    for event in events:
        last = made[-1] if made else None
        match last, event:
            case Content(one), Content(more):
                made[-1] = Content(one + more)
            case Reasoning(one), Reasoning(more):
                made[-1] = Reasoning(one + more)
            case Arguments(index, one), Arguments(other, more) if index == other:
                made[-1] = Arguments(index, one + more)
            case _:
                made.append(event)
    return made
