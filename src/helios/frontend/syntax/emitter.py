"""Events of one answer, collected until they are taken; neighbouring text of one kind joins.

Marks that turned out to be data become their text here.
"""

from __future__ import annotations

from helios.frontend.syntax.events import (
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Event,
    Reasoning,
)
from helios.frontend.syntax.marks import Marks


class Emitter:
    """What an answer has said and nobody has taken yet."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._events: list[Event] = []
        self._calls = 0

    def taken(self) -> list[Event]:
        """Hand the events over."""
        events, self._events = self._events, []
        return events

    def content(self, text: str) -> None:
        """Text of the answer; control tokens are none."""
        plain = self._marks.plain(text, control=False)
        if plain:
            self._add(Content(plain))

    def reasoning(self, text: str) -> None:
        """Text of the reasoning; control tokens are none."""
        plain = self._marks.plain(text, control=False)
        if plain:
            self._add(Reasoning(plain))

    def open(self, name: str, call_id: str | None) -> None:
        """Begin the next call."""
        self._add(CallOpened(self._calls, name, call_id))
        self._calls += 1

    def write(self, text: str) -> None:
        """More of the last call's arguments."""
        if text:
            self._add(Arguments(self._calls - 1, text))

    def shut(self) -> None:
        """The last call is complete."""
        self._add(CallClosed(self._calls - 1))

    def literally(self, text: str) -> str:
        """Data keeps the text of every mark."""
        return self._marks.plain(text, control=True)

    def _add(self, event: Event) -> None:
        match self._events[-1] if self._events else None, event:
            case Content(said), Content(more):
                self._events[-1] = Content(said + more)
            case Reasoning(said), Reasoning(more):
                self._events[-1] = Reasoning(said + more)
            case Arguments(index, said), Arguments(_, more):
                self._events[-1] = Arguments(index, said + more)
            case _:
                self._events.append(event)
