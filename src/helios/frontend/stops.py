"""Stops that a client declares: what may be asked, when one is reached, what then stays visible.

The worker decides: a `StopMatcher` per lane sees every token and answers with a `StopCut`, which
crosses to the front with the lane's last tokens.  The front never decides: its `StopFilter` holds
back what may still become part of a stop, releases everything else at once, and takes off what the
cut says.  Both walk the same automaton over the same text, so what the cut takes is always held.

Text is what all tokens but the end of sequence decode to, markers of reasoning and tool
envelopes spelled out (SS-04); the first stop to be complete counts, and of two that are complete
at once the longer (SS-05).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from helios.frontend.syntax.pieces import Piece, PieceStream
from helios.values import RequestInvalid

MOST_STRINGS: Final = 4
MOST_STRING_NBYTES: Final = 4096
MOST_SEQUENCES: Final = 16
MOST_SEQUENCE_TOKENS: Final = 64
STRINGS: Final = "null, a nonempty string, or up to four nonempty strings"

T = TypeVar("T", bound=Hashable)


class StopSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What ends a request besides the model: strings, or token sequences; never both (SS-03)."""

    strings: tuple[str, ...] = ()
    sequences: tuple[tuple[int, ...], ...] = ()


class StopCut(msgspec.Struct, frozen=True, kw_only=True):
    """A stop was reached with the last token: what of the output is not shown."""

    characters: int = 0  # at the end of the decoded text
    tokens: int = 0  # at the end of the tokens
    string: str | None = None  # the string that was reached, if it was one


# ------------------------------------------------------------- what may be asked


def stop_spec(
    *,
    stop: object = None,
    stop_token_ids: object = None,
    stop_token_sequences: object = None,
    structured: bool = False,
    vocabulary: int,
) -> StopSpec | None:
    """The stops of a request, or None where it has none (SS-01 to SS-03, TO-21, TO-22)."""
    strings = stop_strings(stop)
    sequences: list[tuple[int, ...]] = [
        (token,) for token in token_ids(stop_token_ids, "stop_token_ids", vocabulary)
    ]
    sequences += token_sequences(stop_token_sequences, vocabulary)
    if strings and sequences:
        field = "stop_token_ids" if stop_token_ids else "stop_token_sequences"
        raise RequestInvalid(field, "token stops beside stop", expected="one kind of stops")
    if strings and structured:
        raise RequestInvalid("stop", "strings beside structured output", expected="one of the two")
    if not strings and not sequences:
        return None
    return StopSpec(strings=strings, sequences=tuple(dict.fromkeys(sequences)))


def stop_strings(stop: object) -> tuple[str, ...]:
    """The strings of `stop`; none where it is null or empty (SS-01, SS-02)."""
    if stop is None:
        return ()
    if not isinstance(stop, str | list | tuple):
        raise RequestInvalid("stop", type(stop).__name__, expected=STRINGS)
    found = (stop,) if isinstance(stop, str) else tuple(stop)
    if len(found) > MOST_STRINGS:
        raise RequestInvalid("stop", f"{len(found)} strings", expected=STRINGS)
    nbytes = 0
    for index, text in enumerate(found):
        field = "stop" if isinstance(stop, str) else f"stop[{index}]"
        if not isinstance(text, str) or not text:
            raise RequestInvalid(field, repr(text)[:80], expected="a nonempty string")
        nbytes += text_nbytes(text, field)
    if nbytes > MOST_STRING_NBYTES:
        raise RequestInvalid(
            "stop", f"{nbytes} bytes", expected=f"at most {MOST_STRING_NBYTES} in all"
        )
    return tuple(dict.fromkeys(found))


def text_nbytes(text: str, field: str) -> int:
    """Bytes of a text in UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise RequestInvalid(field, "half a surrogate pair", expected="Unicode text") from None


def token_ids(ids: object, field: str, vocabulary: int) -> list[int]:
    """Ids of the vocabulary; none where there are none."""
    if ids is None:
        return []
    if not isinstance(ids, list | tuple):
        raise RequestInvalid(field, type(ids).__name__, expected="null or a list of token ids")
    for index, token in enumerate(ids):
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocabulary:
            raise RequestInvalid(
                f"{field}[{index}]", repr(token)[:80], expected=f"a token id below {vocabulary}"
            )
    return list(ids)


def token_sequences(sequences: object, vocabulary: int) -> list[tuple[int, ...]]:
    """The sequences of `stop_token_sequences` (TO-22)."""
    field = "stop_token_sequences"
    if sequences is None:
        return []
    if not isinstance(sequences, list | tuple):
        raise RequestInvalid(
            field, type(sequences).__name__, expected="null or a list of lists of token ids"
        )
    if len(sequences) > MOST_SEQUENCES:
        raise RequestInvalid(
            field, f"{len(sequences)} sequences", expected=f"at most {MOST_SEQUENCES}"
        )
    found = []
    for index, sequence in enumerate(sequences):
        tokens = token_ids(sequence, f"{field}[{index}]", vocabulary)
        if not 1 <= len(tokens) <= MOST_SEQUENCE_TOKENS:
            raise RequestInvalid(
                f"{field}[{index}]",
                f"{len(tokens)} tokens",
                expected=f"1 to {MOST_SEQUENCE_TOKENS}",
            )
        found.append(tuple(tokens))
    return found


# ------------------------------------------------------------- when one is reached


class Pattern(Generic[T]):
    """One stop, walked an item at a time (Knuth, Morris and Pratt).

    Always: `matched` is the length of the longest end of what was fed that begins the stop.
    """

    def __init__(self, items: Sequence[T]) -> None:
        self._items = items
        self._shorter = [0] * len(items)  # the longest proper border of each beginning
        border = 0
        for index in range(1, len(items)):
            while border and items[index] != items[border]:
                border = self._shorter[border - 1]
            border += items[index] == items[border]
            self._shorter[index] = border
        self.matched = 0

    @property
    def length(self) -> int:
        """Items of the stop."""
        return len(self._items)

    @property
    def complete(self) -> bool:
        """Whether the stop ends with the last item fed."""
        return self.matched == len(self._items)

    def feed(self, item: T) -> None:
        """Walk on by an item.  # hot"""
        if self.complete:
            self.matched = self._shorter[-1]
        while self.matched and item != self._items[self.matched]:
            self.matched = self._shorter[self.matched - 1]
        if item == self._items[self.matched]:
            self.matched += 1


class Automaton(Generic[T]):
    """Several stops at once, over characters or over tokens; after a match it moves no more."""

    def __init__(self, stops: Sequence[Sequence[T]]) -> None:
        self._patterns = [Pattern(stop) for stop in stops]
        self.hidden = 0  # items at the end that belong to a complete stop, or came after it
        self.reached: int | None = None  # which stop is complete

    def feed(self, item: T) -> None:
        """Walk on by an item."""
        if self.hidden:
            self.hidden += 1
            return
        for index, pattern in enumerate(self._patterns):
            pattern.feed(item)
            if pattern.complete and pattern.length > self.hidden:
                self.hidden, self.reached = pattern.length, index

    @property
    def held(self) -> int:
        """Items at the end that are, or may yet become, part of a stop (SS-06, TO-23)."""
        return self.hidden or max((pattern.matched for pattern in self._patterns), default=0)


class StopMatcher:
    """The worker's: whether a lane's output has reached a stop."""

    def __init__(self, spec: StopSpec, decoder: PieceStream) -> None:
        self._strings = spec.strings
        self._characters = Automaton(spec.strings)
        self._tokens = Automaton(spec.sequences)
        self._decoder = decoder if spec.strings else None

    def feed(self, token: int) -> StopCut | None:
        """The cut, if this token reaches a stop; not to be fed an end of sequence.  # hot"""
        self._tokens.feed(token)
        if self._decoder is not None:
            for piece in self._decoder.feed(token):
                for character in piece.text:
                    self._characters.feed(character)
        if not self._tokens.hidden and not self._characters.hidden:
            return None
        reached = self._characters.reached
        return StopCut(
            characters=self._characters.hidden,
            tokens=self._tokens.hidden,
            string=None if reached is None else self._strings[reached],
        )


# ------------------------------------------------------------- what stays visible


class StopFilter:
    """The front's: an output's pieces, each as soon as no stop can take it away.

    A declared marker is never shown in parts: it waits until none of it can be taken.
    """

    def __init__(
        self, spec: StopSpec | None, decoder: PieceStream, *, markers: Container[int]
    ) -> None:
        self._holds = spec is not None
        spec = spec or StopSpec()
        self._characters = Automaton(spec.strings)
        self._tokens = Automaton(spec.sequences)
        self._matches_text = bool(spec.strings)
        self._decoder, self._markers = decoder, markers
        self._pieces: deque[tuple[int, Piece]] = deque()  # with the tokens fed so far
        self._fed = 0
        self._length = 0  # characters in `_pieces`

    def feed(self, token: int) -> list[Piece]:
        """Pieces that may be shown now that this token has come.  # hot"""
        if not self._holds:
            return self._decoder.feed(token)
        self._fed += 1
        self._tokens.feed(token)
        for piece in self._decoder.feed(token):
            self._pieces.append((self._fed, piece))
            self._length += len(piece.text)
            if self._matches_text:
                for character in piece.text:
                    self._characters.feed(character)
        return self._release()

    def stop(self, cut: StopCut) -> list[Piece]:
        """The end that a stop makes: what is left without what the cut takes (SS-05, TO-23)."""
        while cut.tokens and self._pieces and self._pieces[-1][0] > self._fed - cut.tokens:
            self._length -= len(self._pieces.pop()[1].text)
        room = self._length - cut.characters
        assert room >= 0, "a stop takes only what was held"
        shown = []
        for _, piece in self._pieces:
            kept = piece.text[:room]
            room -= len(kept)
            if kept:
                shown.append(msgspec.structs.replace(piece, text=kept))
        self._pieces.clear()
        return shown

    def close(self) -> list[Piece]:
        """An end without a stop: everything that was held (SS-07)."""
        shown = [piece for _, piece in self._pieces]
        self._pieces.clear()
        return shown + self._decoder.close()

    def _release(self) -> list[Piece]:
        shown = []
        decided = self._fed - self._tokens.held
        while self._pieces and self._pieces[0][0] <= decided:
            fed, piece = self._pieces[0]
            free = self._length - self._characters.held
            if len(piece.text) > free:
                if free and piece.token_id not in self._markers:
                    shown.append(Piece(piece.token_id, piece.text[:free]))
                    self._pieces[0] = (fed, Piece(piece.token_id, piece.text[free:]))
                    self._length -= free
                break
            self._pieces.popleft()
            self._length -= len(piece.text)
            shown.append(piece)
        return shown
