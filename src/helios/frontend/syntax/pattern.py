"""Patterns over text that is still coming: matched, failed, or too short to tell.

Always: an answer other than "too short" stays the same whatever text follows, so what a machine
decides never depends on how its input was cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

import msgspec

MOST_GAP: Final = 256
MOST_NAME: Final = 256
ENTITIES: Final = (("&quot;", '"'), ("&amp;", "&"))
SPACES: Final = re.compile(r"\s*")
ATTRIBUTE_NAME: Final = re.compile(r"[\w:.-]+")


class Undecided(Enum):
    """Why there is no match yet, or none at all."""

    SHORT = 1
    FAILED = 2


SHORT: Final = Undecided.SHORT
FAILED: Final = Undecided.FAILED


class Text(msgspec.Struct):
    """What has come, whether more may come, and what patterns took from it."""

    text: str
    final: bool
    accept: Callable[[str, str], bool]  # (what, name): whether this name may stand here
    taken: dict[str, str] = msgspec.field(default_factory=dict)

    def lacking(self) -> Undecided:
        """The answer at the end of what has come."""
        return FAILED if self.final else SHORT


class Element(Protocol):
    """One part of a pattern: where it ends when it starts at `at`."""

    def step(self, text: Text, at: int) -> int | Undecided:
        """The end of the match, or why there is none."""


Pattern = tuple["Element", ...]


def match(pattern: Pattern, text: Text, at: int) -> int | Undecided:
    """Match the elements one after another."""
    for element in pattern:
        found = element.step(text, at)
        if isinstance(found, Undecided):
            return found
        at = found
    return at


class Literal(msgspec.Struct, frozen=True):
    """Exactly this text."""

    literal: str

    def step(self, text: Text, at: int) -> int | Undecided:
        """The end of the literal."""
        if text.text.startswith(self.literal, at):
            return at + len(self.literal)
        return text.lacking() if self.literal.startswith(text.text[at:]) else FAILED


class Gap(msgspec.Struct, frozen=True):
    """Any white space, a bounded amount."""

    def step(self, text: Text, at: int) -> int | Undecided:
        """The first character that is no white space."""
        found = SPACES.match(text.text, at)
        end = at if found is None else found.end()
        if end - at > MOST_GAP:
            return FAILED
        return SHORT if end == len(text.text) and not text.final else end


class End(msgspec.Struct, frozen=True):
    """The end of the output."""

    def step(self, text: Text, at: int) -> int | Undecided:
        """Here, when nothing follows and nothing will."""
        if at < len(text.text):
            return FAILED
        return at if text.final else SHORT


class Name(msgspec.Struct, frozen=True):
    """A name up to one of the stops, which stay; `accept` judges it."""

    what: str
    stops: tuple[str, ...]
    forbidden: str = "\\s<>\"'{}()\\[\\]\ud800-\udfff"

    def step(self, text: Text, at: int) -> int | Undecided:
        """The end of the name."""
        run = re.compile(f"[^{self.forbidden}]*").match(text.text, at)
        stop = len(text.text) if run is None else run.end()
        ends = [text.text.find(literal, at, stop + len(literal)) for literal in self.stops]
        found = min((end for end in ends if end >= 0), default=-1)
        if found < 0:
            if stop - at > MOST_NAME:
                return FAILED
            rest = text.text[stop:]
            partial = any(literal.startswith(rest) for literal in self.stops)
            return text.lacking() if partial else FAILED
        name = text.text[at:found]
        if not 0 < len(name) <= MOST_NAME or not text.accept(self.what, name):
            return FAILED
        text.taken[self.what] = name
        return found


class Attributes(msgspec.Struct, frozen=True):
    """`name="value"` pairs, then the close; which attribute says what is data."""

    close: str
    meanings: tuple[tuple[str, str], ...]  # (attribute, what)

    def step(self, text: Text, at: int) -> int | Undecided:
        """The end of the close."""
        values: dict[str, str] = {}
        while True:
            at = self._space(text.text, at)
            closed = Literal(self.close).step(text, at)
            if closed is not FAILED:
                break
            pair = self._pair(text, at)
            if isinstance(pair, Undecided):
                return pair
            at, name, value = pair
            values[name] = value
        if isinstance(closed, Undecided):
            return closed
        for attribute, what in self.meanings:
            if attribute in values:
                text.taken[what] = values[attribute]
        needed = self.meanings[0][1]
        name = text.taken.get(needed, "") if self.meanings[0][0] in values else ""
        return closed if name and text.accept(needed, name) else FAILED

    @staticmethod
    def _space(text: str, at: int) -> int:
        """Past white space."""
        found = SPACES.match(text, at)
        return at if found is None else found.end()

    def _pair(self, text: Text, at: int) -> tuple[int, str, str] | Undecided:
        """One attribute, whole."""
        name = ATTRIBUTE_NAME.match(text.text, at)
        if name is None:
            return text.lacking() if at == len(text.text) else FAILED
        at = name.end()
        for literal in '="':
            at = self._space(text.text, at)
            if at == len(text.text):
                return text.lacking()
            if text.text[at] != literal:
                return FAILED
            at += 1
        end = text.text.find('"', at)
        if (end if end >= 0 else len(text.text)) - at > MOST_NAME:
            return FAILED
        if end < 0:
            return text.lacking()
        value = text.text[at:end]
        for entity, character in ENTITIES:
            value = value.replace(entity, character)
        return end + 1, name[0], value


class Either(msgspec.Struct, frozen=True):
    """The first alternative that matches; an undecided one is waited for."""

    ways: tuple[Pattern, ...]

    def step(self, text: Text, at: int) -> int | Undecided:
        """The end of the first match."""
        for way in self.ways:
            found = match(way, text, at)
            if found is not FAILED:
                return found
        return FAILED


class Ahead(msgspec.Struct, frozen=True):
    """What must follow without being consumed; what it takes is forgotten."""

    pattern: Pattern

    def step(self, text: Text, at: int) -> int | Undecided:
        """Here, if the pattern matches from here."""
        taken = dict(text.taken)
        found = match(self.pattern, text, at)
        text.taken = taken
        return found if isinstance(found, Undecided) else at


def maybe(*pattern: Element) -> Either:
    """The pattern, or nothing."""
    return Either((pattern, ()))


def texts(*literals: str) -> tuple[Pattern, ...]:
    """Alternatives of plain text; empty ones are left out."""
    return tuple((Literal(literal),) for literal in literals if literal)
