"""Tokens and text: encoding prompts, and decoding output a token at a time.

A prompt is encoded in stretches: added tokens that lie wholly in the template's own text, and
what is between, in which no added token is recognised however it is spelled.  A text is cut
only where an added token was found, so merges across the borders of template and client are
those that the library makes of the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import tokenizers
from tokenizers.decoders import DecodeStream

from helios.frontend.added import AddedToken, AddedTokens
from helios.frontend.provenance import PromptText

REPLACEMENT = "\ufffd"
META_SPACE: Final = "\u2581"
BYTE_TOKEN: Final = re.compile("<0x([0-9A-F]{2})>")
PRINTED: Final = (*range(33, 127), *range(161, 173), *range(174, 256))
"""Bytes that the byte-level alphabet writes as themselves; the others follow from 256 on."""
HIDDEN: Final = tuple(byte for byte in range(256) if byte not in PRINTED)
BYTES: Final = {chr(byte): byte for byte in PRINTED} | {
    chr(256 + place): byte for place, byte in enumerate(HIDDEN)
}
EMPTY_MODEL: Final = {"type": "BPE", "vocab": {}, "merges": []}


class TokenizerFile(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a tokenizer.json that say how texts are cut."""

    added_tokens: tuple[AddedToken, ...] = ()
    pre_tokenizer: dict[str, Any] | None = None
    decoder: dict[str, Any] | None = None


class Tokenizer:
    """A core's tokenizer."""

    def __init__(self, data: bytes) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_buffer(data)
        try:
            file = msgspec.json.decode(data, type=TokenizerFile)
        except msgspec.MsgspecError as error:
            raise ValueError(f"tokenizer: {error}") from None
        self._added = AddedTokens(file.added_tokens)
        self._byte_level = any(
            part.get("type") == "ByteLevel" for part in parts_of(file.decoder, "decoders")
        )
        self._first = without_added(self._tokenizer, self._tokenizer.pre_tokenizer)
        self._later = without_added(self._tokenizer, later_pre_tokenizer(file, self._tokenizer))

    @property
    def library(self) -> tokenizers.Tokenizer:
        """The tokenizers library's own object."""
        return self._tokenizer

    @property
    def markers(self) -> dict[str, int]:
        """Added tokens that are structure: spellings and ids."""
        return dict(self._added.markers)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text whose markers, whoever wrote them, become their own tokens.

        With `special`, also what the tokenizer's file puts around every text.
        """
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=special).ids
        return ids

    def encode_plain(self, text: str) -> list[int]:
        """Token ids of a text in which no marker becomes its token."""
        return self.encode_prompt(PromptText(text=text, template_spans=()))

    def encode_prompt(self, prompt: PromptText) -> list[int]:
        """Token ids of a prompt: markers are tokens where the template wrote them."""
        ids: list[int] = []
        for part in self._added.cut(prompt.text, prompt.template_spans):
            if part.token is not None:
                ids.append(part.token.id)
            else:
                ids += self._between(prompt.text[part.start : part.stop], first=part.start == 0)
        return ids

    def _between(self, text: str, *, first: bool) -> list[int]:
        """Token ids of text between added tokens.

        A model's own vocabulary may hold a marker's token and find it in plain text; there
        the text is cut behind the first character of the marker.
        """
        encoding = (self._first if first else self._later).encode(text, add_special_tokens=False)
        ids: list[int] = encoding.ids
        if self._added.marker_ids.isdisjoint(ids):
            return ids
        for token, (start, stop) in zip(ids, encoding.offsets, strict=True):
            if token in self._added.marker_ids and stop - start > 1:
                head = self._between(text[: start + 1], first=first)
                return head + self._between(text[start + 1 :], first=False)
        return ids

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of ids, special tokens left out unless they are wanted."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=not special)
        return text

    def spell(self, token: int) -> bytes:
        """The bytes of one token, part of a character or not."""
        if (added := self._added.texts.get(token)) is not None:
            return added.encode()
        written: str | None = self._tokenizer.id_to_token(token)
        if written is None:
            return b""
        if self._byte_level:
            return bytes(BYTES[character] for character in written)
        if found := BYTE_TOKEN.fullmatch(written):
            return bytes((int(found[1], 16),))
        return written.replace(META_SPACE, " ").encode()

    def stream(self) -> TextStream:
        """A decoder for one output."""
        return TextStream(self._tokenizer)


def without_added(
    whole: tokenizers.Tokenizer, pre_tokenizer: tokenizers.pre_tokenizers.PreTokenizer | None
) -> tokenizers.Tokenizer:
    """A tokenizer that shares the model of another and knows no added tokens."""
    made = tokenizers.Tokenizer(whole.model)
    if whole.normalizer is not None:
        made.normalizer = whole.normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    return made


def later_pre_tokenizer(
    file: TokenizerFile, whole: tokenizers.Tokenizer
) -> tokenizers.pre_tokenizers.PreTokenizer | None:
    """The pre-tokenizer for stretches that do not begin the text.

    SentencePiece's blank before the first word is put before the first stretch alone, where
    the file says so.
    """
    first = [
        p
        for p in parts_of(file.pre_tokenizer, "pretokenizers")
        if p.get("prepend_scheme") == "first"
    ]
    for part in first:
        part["prepend_scheme"] = "never"
    document = {"version": "1.0", "model": EMPTY_MODEL, "pre_tokenizer": file.pre_tokenizer}
    made = tokenizers.Tokenizer.from_buffer(msgspec.json.encode(document)) if first else whole
    found: tokenizers.pre_tokenizers.PreTokenizer | None = made.pre_tokenizer
    return found


def parts_of(step: dict[str, Any] | None, members: str) -> Iterator[dict[str, Any]]:
    """A step of the tokenizer, or the members of a sequence of them, however deep."""
    if step is None:
        return
    yield step
    for member in step.get(members, ()):
        yield from parts_of(member, members)


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
