"""Strings that remember which of their characters a chat template wrote itself.

A `Traced` string has the value, and in every operation the result, that a plain string would
have: rendering with traced constants gives the same text.  What it adds are spans: characters
that provably came from the template.  Operations that this module does not follow give a plain
string, and plain text counts as a client's: provenance can be lost, never gained.

Always: spans are ascending, apart, not empty, and lie within the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, SupportsIndex

import msgspec
from markupsafe import Markup, escape

Span = tuple[int, int]  # from a character, up to another
Spans = tuple[Span, ...]
NO_SPANS: Final[Spans] = ()


class PromptText(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered prompt; only within the template's own text may markers become tokens."""

    text: str
    template_spans: Spans


class Traced(str):
    """Text of which some characters came from the template."""

    __slots__ = ("_spans",)
    _spans: Spans

    def __new__(cls, text: str = "", spans: Spans = NO_SPANS) -> Traced:
        """By default nothing of it is the template's."""
        made = str.__new__(cls, text)
        made._spans = spans
        return made

    def __str__(self) -> str:
        """Itself, so that `str` keeps the spans."""
        return self

    def __add__(self, other: str) -> str:
        if not isinstance(other, str) or hasattr(other, "__html__"):
            return NotImplemented
        return concat((self, other))

    def __radd__(self, other: str) -> str:
        if not isinstance(other, str) or hasattr(other, "__html__"):
            return NotImplemented
        return concat((other, self))

    def __mul__(self, count: SupportsIndex) -> str:
        return concat([self] * count.__index__())

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            return piece(self, start, stop) if step == 1 else str.__getitem__(self, key)
        index = key.__index__()
        str.__getitem__(self, index)  # out of range: the error of strings
        start = index % len(self)
        return piece(self, start, start + 1)

    def lstrip(self, chars: str | None = None, /) -> str:
        """Without what leads."""
        return piece(self, len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> str:
        """Without what trails."""
        return piece(self, 0, len(str.rstrip(self, chars)))

    def strip(self, chars: str | None = None, /) -> str:
        """Without what leads and trails."""
        stop = len(str.rstrip(self, chars))
        return piece(self, min(stop, len(self) - len(str.lstrip(self, chars))), stop)

    def removeprefix(self, prefix: str, /) -> str:
        """Without this beginning."""
        return piece(self, len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> str:
        """Without this end."""
        return piece(self, 0, len(str.removesuffix(self, suffix)))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """The parts between separators; by blanks, without spans."""
        parts = str.split(self, sep, maxsplit)
        return parts if sep is None else list(pieces(self, parts, gap=len(sep)))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """As `split`, from the end."""
        parts = str.rsplit(self, sep, maxsplit)
        return parts if sep is None else list(pieces(self, parts, gap=len(sep)))

    def splitlines(self, keepends: bool = False) -> list[str]:  # noqa: FBT001, FBT002
        """The lines."""
        kept = list(pieces(self, str.splitlines(self, keepends=True), gap=0))
        if keepends:
            return kept
        ends = (len(line) for line in str.splitlines(self))
        return [piece(line, 0, end) for line, end in zip(kept, ends, strict=True)]

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        """With other text in place of this."""
        if not old or not isinstance(new, str):
            return str.replace(self, old, new, count)
        return joined(self.split(old, count), new)

    def upper(self) -> str:
        """In capitals."""
        return recased(self, str.upper(self))

    def lower(self) -> str:
        """In small letters."""
        return recased(self, str.lower(self))

    def capitalize(self) -> str:
        """Beginning with a capital."""
        return recased(self, str.capitalize(self))

    def title(self) -> str:
        """Every word beginning with a capital."""
        return recased(self, str.title(self))

    def join(self, parts: Iterable[str], /) -> str:
        """The parts with this between them."""
        return joined(parts, self)


class TracedMarkup(Markup):
    """What the filter `safe` makes: it escapes what it is added to, and remembers spans."""

    __slots__ = ("_spans",)
    _spans: Spans

    def __str__(self) -> str:
        """Plain text again, with its spans."""
        return Traced(str.__str__(self), spans_of(self))

    def __add__(self, other: Any) -> TracedMarkup:
        """As Markup adds."""
        made = Markup.__add__(self, other)
        return made if made is NotImplemented else traced_markup(made, (self, unescaped(other)))

    def __radd__(self, other: Any) -> TracedMarkup:
        """As Markup is added."""
        made = Markup.__radd__(self, other)
        return made if made is NotImplemented else traced_markup(made, (unescaped(other), self))


def traced_markup(value: object, parts: tuple[str, ...]) -> TracedMarkup:
    """Markup of a value, with the spans of the parts that it consists of."""
    made = TracedMarkup(value)
    made._spans = spans_of(concat([part if isinstance(part, str) else "" for part in parts]))
    return made


def unescaped(text: str) -> str:
    """The text as it is after escaping, with spans only where that changes nothing."""
    escaped = str.__str__(escape(text))
    return text if escaped == text else escaped


def safe(value: object) -> TracedMarkup:
    """Jinja's filter, with spans."""
    return traced_markup(value, (value,) if isinstance(value, str) else ())


def template_text(text: str) -> Traced:
    """Text that is the template's, all of it."""
    return Traced(text, ((0, len(text)),) if text else NO_SPANS)


def spans_of(text: str) -> Spans:
    """Which characters came from the template."""
    if isinstance(text, Traced | TracedMarkup):
        return getattr(text, "_spans", NO_SPANS)
    return NO_SPANS


def piece(text: str, start: int, stop: int) -> str:
    """The characters from `start` to `stop`, as slicing gives them."""
    part = str.__getitem__(text, slice(start, stop))
    kept = tuple(
        (max(first, start) - start, min(last, stop) - start)
        for first, last in spans_of(text)
        if max(first, start) < min(last, stop)
    )
    return Traced(part, kept) if kept else part


def recased(text: Traced, changed: str) -> str:
    """The text in other letters; with spans where every character keeps its place."""
    return Traced(changed, spans_of(text)) if text.isascii() else changed


def pieces(text: str, parts: Iterable[str], *, gap: int) -> Iterator[str]:
    """Consecutive parts of a text, `gap` characters apart, with their spans."""
    at = 0
    for part in parts:
        yield piece(text, at, at + len(part))
        at += len(part) + gap


def concat(parts: Iterable[str]) -> str:
    """What `"".join` gives, with the spans of the parts; adjacent ones become one."""
    parts = parts if isinstance(parts, list | tuple) else list(parts)
    text = "".join(parts)
    spans: list[Span] = []
    at = 0
    for part in parts:
        for first, last in spans_of(part):
            if spans and spans[-1][1] == at + first:
                spans[-1] = (spans[-1][0], at + last)
            else:
                spans.append((at + first, at + last))
        at += len(part)
    return Traced(text, tuple(spans)) if spans else text


def joined(parts: Iterable[str], separator: str) -> str:
    """What `separator.join` gives, with spans."""
    woven: list[str] = []
    for part in parts:
        if woven:
            woven.append(separator)
        woven.append(part)
    return concat(woven)


def traced_values(value: object) -> object:
    """A JSON value whose strings are all the template's: what a core declares."""
    if isinstance(value, str):
        return template_text(value)
    if isinstance(value, list):
        return [traced_values(item) for item in value]
    if isinstance(value, dict):
        return {key: traced_values(item) for key, item in value.items()}
    return value
