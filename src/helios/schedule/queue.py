"""Requests that wait for a slot, oldest first; preempted ones keep their age."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from helios.cache.content import Content, Key, content_of
from helios.frontend.request import PreparedRequest
from helios.values import RequestId


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A request without a lane, and what it has emitted so far."""

    arrival: int
    request: PreparedRequest
    key: Key
    emitted: tuple[int, ...] = ()
    preempted: bool = False  # it has had a lane before
    scored: int = 0  # rows whose scores its client has, if it asked for them

    @property
    def tokens(self) -> int:
        """Tokens that must be fed before the next one is sampled."""
        return len(self.request.prompt) + len(self.emitted)

    @property
    def content(self) -> Content:
        """What its history will be computed from."""
        return content_of((*self.request.prompt, *self.emitted), self.request.spans)


@dataclass(slots=True)
class Queue:
    """Waiting requests in order of arrival."""

    _waiting: list[Waiting] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """Put a request in its place by age."""
        insort(self._waiting, waiting, key=lambda entry: entry.arrival)

    def first(self) -> Waiting | None:
        """The oldest, which stays."""
        return self._waiting[0] if self._waiting else None

    def take_first(self) -> Waiting:
        """The oldest, which leaves."""
        return self._waiting.pop(0)

    def remove(self, request: RequestId) -> Waiting | None:
        """A request that no longer waits, or None when it did not."""
        for index, waiting in enumerate(self._waiting):
            if waiting.request.id == request:
                return self._waiting.pop(index)
        return None
