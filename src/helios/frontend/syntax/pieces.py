"""Pieces: generated tokens as the syntax sees them, added tokens' own text included.

Knows the tokenizer; knows no syntax.  Always: the texts of the pieces joined are the text of all
tokens decoded with nothing skipped, but that an added token never joins its neighbours' bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import tokenizers
from tokenizers.decoders import DecodeStream


class Piece(msgspec.Struct, frozen=True):
    """A token and the text that it completes; nothing while a character is incomplete."""

    token_id: int
    text: str


class AddedToken(msgspec.Struct, frozen=True):
    """A token that the tokenizer knows as a whole; a special one is control, never text."""

    text: str
    special: bool


class Vocabulary:
    """A tokenizer's added tokens, and the means to make pieces."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self.tokenizer: Final = tokenizer
        self.added: Final[Mapping[int, AddedToken]] = {
            number: AddedToken(text=token.content, special=token.special)
            for number, token in tokenizer.get_added_tokens_decoder().items()
        }
        self.ids: Final[Mapping[str, int]] = {
            token.text: number for number, token in self.added.items()
        }

    def pieces(self) -> PieceStream:
        """A stream for one output."""
        return PieceStream(self)


class PieceStream:
    """Makes the pieces of one output; characters split over tokens are held back."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokenizer, self._added = vocabulary.tokenizer, vocabulary.added
        self._stream = DecodeStream(skip_special_tokens=False)
        self._held: list[int] = []

    def feed(self, token: int) -> list[Piece]:
        """The pieces that this token completes; an added token first ends what is incomplete."""
        added = self._added.get(token)
        if added is not None:
            pieces = self.close()
            if pieces:
                self._stream = DecodeStream(skip_special_tokens=False)
            self._stream.step(self._tokenizer, token)  # what follows is decoded as following it
            return [*pieces, Piece(token, added.text)]
        text: str | None = self._stream.step(self._tokenizer, token)
        if text is None:
            self._held.append(token)
            return []
        self._held.clear()
        return [Piece(token, text)]

    def close(self) -> list[Piece]:
        """What is left of an incomplete character, as replacement characters."""
        if not self._held:
            return []
        last, text = self._held[-1], self._tokenizer.decode(self._held, skip_special_tokens=False)
        self._held.clear()
        return [Piece(last, text)] if text else []
