"""Where a tokenizer's added tokens are in a text, as the tokenizers library finds them.

An added token is structure: it counts only within text that the template wrote.  Added tokens
of nothing but blanks (runs of spaces, line ends) carry no structure and count everywhere, for
models have seen them in every text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from helios.frontend.provenance import Spans

WHITE: Final = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
LEADING_WHITE: Final = re.compile(f"[{WHITE}]*")
TRAILING_WHITE: Final = re.compile(f"[{WHITE}]*\\Z")
BLANKS: Final = re.compile(f"[{WHITE}\u2581]+")  # SentencePiece writes a space as U+2581
WORD: Final = re.compile(r"\w")


class AddedToken(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a tokenizer.json's `added_tokens`."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class Stretch(msgspec.Struct, frozen=True):
    """Characters of a text: an added token's, or those between two of them."""

    start: int
    stop: int
    token: AddedToken | None = None


class Matcher:
    """Finds some of the added tokens: the first, and of those that begin there the longest."""

    def __init__(self, tokens: Sequence[AddedToken]) -> None:
        self._tokens = {token.content: token for token in tokens if token.content}
        self._pattern = pattern_of(self._tokens)
        blanks = [token.content for token in tokens if is_blank(token)]
        self._blanks = pattern_of(blanks) if blanks else None

    def cut(self, text: str, within: Stretch, spans: Spans) -> Iterator[Stretch]:
        """The stretch in parts: added tokens that count, and what is between."""
        at = within.start
        for match in self._counting(text, within, spans):
            token = self._tokens[match[0]]
            start, stop = match.span()
            if token.single_word and in_word(text, start, stop, within):
                continue
            if token.lstrip:
                start = max(at, left_of_blanks(text, within.start, start))
            if token.rstrip:
                stop = right_of_blanks(text, stop, within.stop)
            if at < start:
                yield Stretch(at, start)
            yield Stretch(start, stop, token)
            at = stop
        if at < within.stop:
            yield Stretch(at, within.stop)

    def _counting(self, text: str, within: Stretch, spans: Spans) -> Iterator[re.Match[str]]:
        """Matches that are blank, or wholly the template's."""
        at = within.start
        while match := self._pattern.search(text, at, within.stop):
            start, stop = match.span()
            own_stop = end_of_own(spans, start)
            if stop > own_stop and not is_blank(self._tokens[match[0]]):
                shorter = self._pattern.match(text, start, own_stop) if own_stop > start else None
                if shorter is None:
                    at = self._next(text, start + 1, within, spans)
                    continue
                match = shorter
            yield match
            at = match.end()

    def _next(self, text: str, at: int, within: Stretch, spans: Spans) -> int:
        """Where to go on after a client's marker: however many there are, they cost nothing."""
        if end_of_own(spans, at) > at:
            return at
        index = bisect_right(spans, at, key=lambda span: span[0])
        own = spans[index][0] if index < len(spans) else within.stop
        blank = self._blanks.search(text, at, min(own, within.stop)) if self._blanks else None
        return own if blank is None else blank.start()


def end_of_own(spans: Spans, at: int) -> int:
    """Where the template's text that holds a character ends; before it, if a client wrote it."""
    index = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return spans[index][1] if index >= 0 else -1


def pattern_of(contents: Iterable[str]) -> re.Pattern[str]:
    """Matches any of them, the longest first."""
    longest_first = sorted(filter(None, contents), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def in_word(text: str, start: int, stop: int, within: Stretch) -> bool:
    """Whether letters touch the match."""
    before = start > within.start and WORD.match(text[start - 1])
    after = stop < within.stop and WORD.match(text[stop])
    return bool(before or after)


def left_of_blanks(text: str, first: int, start: int) -> int:
    """Where the blanks before a match begin."""
    found = TRAILING_WHITE.search(text[first:start])
    assert found is not None  # it matches nothing, too
    return first + found.start()


def right_of_blanks(text: str, stop: int, last: int) -> int:
    """Where the blanks after a match end."""
    found = LEADING_WHITE.match(text, stop, last)
    assert found is not None  # it matches nothing, too
    return found.end()


def is_blank(token: AddedToken) -> bool:
    """Whether a token is nothing but blanks."""
    return BLANKS.fullmatch(token.content) is not None


class AddedTokens:
    """All added tokens of a tokenizer.

    As the library does, tokens that are matched in the raw text are found first, and the
    others in what is left; those are looked for in the raw text as well, which is the same
    unless the normalizer changes their spelling.
    """

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        tokens = tuple(tokens)
        self.markers = {token.content: token.id for token in tokens if not is_blank(token)}
        self.texts = {token.id: token.content for token in tokens}
        self.marker_ids = frozenset(self.markers.values())
        self._passes = tuple(
            Matcher(chosen)
            for normalized in (False, True)
            if (chosen := [token for token in tokens if token.normalized == normalized])
        )

    def cut(self, text: str, spans: Spans) -> list[Stretch]:
        """The text in parts, of which those with a token are that token."""
        parts = [Stretch(0, len(text))] if text else []
        for matcher in self._passes:
            parts = [
                part
                for whole in parts
                for part in (matcher.cut(text, whole, spans) if whole.token is None else (whole,))
            ]
        return parts
