"""Tokens and text: encoding prompts, and decoding output a token at a time."""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers.decoders import DecodeStream

REPLACEMENT = "\ufffd"


class Tokenizer:
    """A core's tokenizer."""

    def __init__(self, data: bytes) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_buffer(data)

    def encode(self, text: str) -> list[int]:
        """Token ids of a rendered prompt; markers in it become their own tokens."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, special tokens left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def stream(self) -> TextStream:
        """A decoder for one output."""
        return TextStream(self._tokenizer)


class TextStream:
    """Decodes one output as its tokens come; characters split over tokens are held back.

    Always: the pieces joined are the text of all tokens decoded at once.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._held: list[int] = []

    def feed(self, token: int) -> str:
        """The text that this token completes; nothing while a character is incomplete."""
        piece: str | None = self._stream.step(self._tokenizer, token)
        if piece is None:
            self._held.append(token)
            return ""
        self._held.clear()
        return piece

    def close(self) -> str:
        """What is left of an incomplete character, as replacement characters."""
        if not self._held:
            return ""
        rest: str = self._tokenizer.decode(self._held, skip_special_tokens=True)
        self._held.clear()
        return rest
