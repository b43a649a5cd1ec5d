"""Looking for the earliest of several patterns in text that is still coming."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from helios.frontend.syntax.pattern import (
    SHORT,
    Ahead,
    Either,
    End,
    Gap,
    Literal,
    Pattern,
    Text,
    match,
)

Accept = Callable[[str, str], bool]
WHITE: Final = " \t\r\n"
ANYTHING: Final = "\\s\\S"
MARKS: Final = "\ud800-\udfff"
"""Every mark (`marks`), as a class's inside."""


class Edge(msgspec.Struct, frozen=True):
    """A pattern, and what its match means."""

    pattern: Pattern
    meaning: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A match: what came before it, where it ends, what it took."""

    start: int
    end: int
    edge: Edge
    taken: dict[str, str]


class Nothing(msgspec.Struct, frozen=True):
    """No match: text before `safe` can never be part of one; `edge` may begin there."""

    safe: int
    edge: Edge | None


def starts(pattern: Pattern) -> tuple[str, bool]:
    """Characters that a match can begin with, as a class's inside; and whether it can be empty."""
    found = ""
    for element in pattern:
        match element:
            case Literal(literal):
                return found + re.escape(literal[0]), False
            case Gap():
                found += WHITE
            case End():
                return found, True
            case Ahead(inner):
                first, empty = starts(inner)
                return found + first, empty
            case Either(ways):
                inside = [starts(way) for way in ways]
                found += "".join(characters for characters, _ in inside)
                if not any(empty for _, empty in inside):
                    return found, False
            case _:
                return ANYTHING, False
    return found, True


class Scanner:
    """Edges that may begin anywhere: the earlier match counts, then the edge listed first."""

    def __init__(self, edges: tuple[Edge, ...]) -> None:
        self.edges: Final = edges
        inside = "".join(starts(edge.pattern)[0] for edge in edges)
        self._candidates = re.compile(f"[{inside}]" if inside else "(?!)")
        self._markup = re.compile(f"[{inside}{MARKS}]").search

    def passes(self, text: str) -> bool:
        """Whether nothing can begin in this text, and no mark is in it.  # hot"""
        return self._markup(text) is None

    def find(self, text: str, *, final: bool, accept: Accept) -> Found | Nothing:
        """The earliest match, or how much of the text is certainly none."""
        for candidate in self._candidates.finditer(text):
            found = self.at(text, candidate.start(), final=final, accept=accept)
            if found is not None:
                return found
        end = self.at(text, len(text), final=True, accept=accept) if final else None
        return Nothing(len(text), None) if end is None else end

    def at(self, text: str, start: int, *, final: bool, accept: Accept) -> Found | Nothing | None:
        """What begins here: a match, perhaps one, or none."""
        for edge in self.edges:
            seen = Text(text, final, accept)
            end = match(edge.pattern, seen, start)
            if isinstance(end, int):
                return Found(start=start, end=end, edge=edge, taken=seen.taken)
            if end is SHORT:
                return Nothing(start, edge)
        return None
