"""What a history was computed from: token ids, image contents, and under which key.

Two histories may stand for each other only when their keys and their symbols are equal.  A
symbol is a token id, or, inside an image's span, a number made of the image's digest, the span's
length and the place in it: below zero, so that it never equals a token id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from helios.rounds import Span


class Key(Struct, frozen=True):
    """Whose histories may meet: one core's cache identity, and one salt of requests."""

    identity: bytes
    salt: str = ""


class Content(Struct, frozen=True, kw_only=True):
    """A sequence of symbols, and where it may not be cut."""

    symbols: tuple[int, ...]
    starts: tuple[int, ...] = ()  # of spans, ascending
    ends: tuple[int, ...] = ()

    def cut(self, tokens: int) -> int:
        """`tokens`, or fewer: where the span begins that a cut there would divide."""
        index = bisect_right(self.starts, tokens) - 1
        if index >= 0 and tokens < self.ends[index]:
            return self.starts[index]
        return tokens


def content_of(tokens: Sequence[int], spans: Sequence[Span] = ()) -> Content:
    """The content of a history; spans are ascending, apart, and of the whole prompt.

    A history may end before a span, or within one: it can then not be taken up there.
    """
    spans = [span for span in spans if span.start < len(tokens)]
    if not spans:
        return Content(symbols=tuple(tokens))
    symbols = list(tokens)
    for span in spans:
        image = int.from_bytes(b"\1" + span.digest, "big") << 64 | span.length << 32
        for place in range(min(span.length, len(tokens) - span.start)):
            symbols[span.start + place] = -1 - (image | place)
    return Content(
        symbols=tuple(symbols),
        starts=tuple(span.start for span in spans),
        ends=tuple(span.start + span.length for span in spans),
    )
