"""Rules that a single wire field obeys, written in the shapes' own annotations.

A shape's annotation says everything that decoding checks about one field on its own:
its type, the values it may take and the contract version that introduced it.  Rules
between fields live in `consistency`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Annotated, Protocol

import msgspec


class Shape(msgspec.Struct, frozen=True):
    """A frozen value that mirrors a wire message.

    A msgspec struct and not a dataclass: the treaty has over seventy of them, and defining
    them is a tenth of the time in which a server starts (docs/log.md, 2026-11-30).
    """


class ContractError(Exception):
    """Prepared data breaks the treaty: where, what was found, what was expected."""

    def __init__(self, at: str, found: object, *, expected: str) -> None:
        super().__init__(at, found, expected)
        self.at = at
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.at}: found {self.found}, expected {self.expected}"

    def found_inside(self, outer: str) -> None:
        """Where it is goes on from `outer`."""
        self.at = f"{outer}{self.at}"


class Rule(Protocol):
    """A check of one value; the returned sentence completes "expected ..."."""

    def broken_by(self, value: object) -> str | None:
        """What was expected, or None when the value is fine."""


class Within(msgspec.Struct, frozen=True):
    """An integer between two bounds, both included."""

    least: int
    most: int | None = None

    def broken_by(self, value: object) -> str | None:
        """See `Rule`."""
        assert isinstance(value, int)
        if self.most is None:
            return None if value >= self.least else f"at least {self.least}"
        return None if self.least <= value <= self.most else f"{self.least} to {self.most}"


class Length(msgspec.Struct, frozen=True):
    """A text or byte string of bounded length."""

    least: int
    most: int | None = None

    def broken_by(self, value: object) -> str | None:
        """See `Rule`."""
        assert isinstance(value, str | bytes)
        if self.least == self.most:
            return None if len(value) == self.least else f"{self.least} bytes"
        if len(value) < self.least:
            return "text" if isinstance(value, str) else f"at least {self.least} bytes"
        return None if self.most is None or len(value) <= self.most else f"at most {self.most}"


class PowerOfTwo(msgspec.Struct, frozen=True):
    """An alignment."""

    def broken_by(self, value: object) -> str | None:
        """See `Rule`."""
        assert isinstance(value, int)
        return None if value > 0 and value & (value - 1) == 0 else "a power of two"


class Finite(msgspec.Struct, frozen=True):
    """A number that is neither infinite nor undefined; at least `least`, where that is given."""

    least: float | None = None

    def broken_by(self, value: object) -> str | None:
        """See `Rule`."""
        assert isinstance(value, float)
        if self.least is None:
            return None if isfinite(value) else "a finite number"
        ok = isfinite(value) and value >= self.least
        return None if ok else f"a finite number, at least {self.least:g}"


class OneOf(msgspec.Struct, frozen=True):
    """One of a few integers."""

    values: tuple[int, ...]

    def broken_by(self, value: object) -> str | None:
        """See `Rule`."""
        return None if value in self.values else f"one of {list(self.values)}"


class Since(msgspec.Struct, frozen=True):
    """The model contract version that introduced the field."""

    version: int


Count = Annotated[int, Within(1)]
Name = Annotated[str, Length(1)]
Digest = Annotated[bytes, Length(32, 32)]
Alignment = Annotated[int, PowerOfTwo()]
Real = Annotated[float, Finite()]
Scale = Annotated[float, Finite(0.0)]


def check_unique(names: Iterable[str], *, at: str) -> None:
    """Refuse a name that stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ContractError(at, repr(name), expected="each name once")
        seen.add(name)
