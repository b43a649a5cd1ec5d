"""Writing a tokenizer.json, the file format of the `tokenizers` library.

Knows the format and nothing of where a vocabulary comes from.

Always: the same parts give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

Json = dict[str, object]
Merge = tuple[str, str]

VERSION: Final = "1.0"


class Keeps(Enum):
    """What a split does with the text that it matched."""

    MATCHES = "Isolated"  # as pieces of their own
    NOTHING = "Removed"


class Strip(Enum):
    """The blanks that an added token takes with it."""

    NONE = "none"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A token found in the text before anything is merged; special ones only on request."""

    id: int
    text: str
    special: bool
    strip: Strip = Strip.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """How pieces of text become tokens: the vocabulary and its ordered merges."""

    texts: Sequence[str]  # by id
    merges: Sequence[Merge]
    spells_bytes: bool = False  # characters without a token become <0xXX> tokens
    takes_whole_pieces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerParts:
    """Everything that a tokenizer.json says."""

    normalizer: Json | None
    pre_tokenizer: Json | None
    merging: Merging
    decoder: Json
    added: Sequence[AddedToken]
    before: AddedToken | None  # put before and after every encoded text, on request
    after: AddedToken | None


def write_tokenizer(parts: TokenizerParts) -> bytes:
    """The file's bytes."""
    document = {
        "version": VERSION,
        "truncation": None,
        "padding": None,
        "added_tokens": [added_entry(token) for token in parts.added],
        "normalizer": parts.normalizer,
        "pre_tokenizer": parts.pre_tokenizer,
        "post_processor": surround(before=parts.before, after=parts.after),
        "decoder": parts.decoder,
        "model": merging_entry(parts.merging),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def added_entry(token: AddedToken) -> Json:
    """One entry of the list of added tokens; they are found in the text as it was given."""
    return {
        "id": token.id,
        "content": token.text,
        "single_word": False,
        "lstrip": False,
        "rstrip": token.strip is Strip.RIGHT,
        "normalized": False,
        "special": token.special,
    }


def merging_entry(merging: Merging) -> Json:
    """The model of the file."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": merging.spells_bytes,
        "ignore_merges": merging.takes_whole_pieces,
        "vocab": {text: index for index, text in enumerate(merging.texts)},
        "merges": [list(merge) for merge in merging.merges],
    }


def surround(*, before: AddedToken | None, after: AddedToken | None) -> Json | None:
    """Put special tokens around what was encoded."""
    around = [token for token in (before, after) if token is not None]
    if not around:
        return None

    def template(*names: str) -> list[Json]:
        first = [special_place(before)] if before else []
        last = [special_place(after)] if after else []
        middle: list[Json] = [{"Sequence": {"id": name, "type_id": 0}} for name in names]
        return [*first, *middle, *last]

    return {
        "type": "TemplateProcessing",
        "single": template("A"),
        "pair": template("A", "B"),
        "special_tokens": {
            token.text: {"id": token.text, "ids": [token.id], "tokens": [token.text]}
            for token in around
        },
    }


def special_place(token: AddedToken) -> Json:
    """A special token's place in a template."""
    return {"SpecialToken": {"id": token.text, "type_id": 0}}


def steps(*entries: Json, list_name: str) -> Json:
    """Several entries in turn, or the only one."""
    return entries[0] if len(entries) == 1 else {"type": "Sequence", list_name: list(entries)}


def normalizers(*entries: Json) -> Json:
    """Normalizers in turn."""
    return steps(*entries, list_name="normalizers")


def pre_tokenizers(*entries: Json) -> Json:
    """Pre-tokenizers in turn."""
    return steps(*entries, list_name="pretokenizers")


def decoders(*entries: Json) -> Json:
    """Decoders in turn."""
    return steps(*entries, list_name="decoders")


def prepend(text: str) -> Json:
    """Normalizer: put a text before the whole."""
    return {"type": "Prepend", "prepend": text}


def replace(old: str, *, new: str) -> Json:
    """Normalizer or decoder: replace a text everywhere."""
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def split(pattern: str, keeps: Keeps = Keeps.MATCHES) -> Json:
    """Pre-tokenizer: cut around what a regular expression matches."""
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": keeps.value,
        "invert": False,
    }


def byte_level() -> Json:
    """Pre-tokenizer or decoder: spell bytes in the printable alphabet, or read them back."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }


def byte_tokens() -> Json:
    """Decoder: <0xXX> tokens are bytes."""
    return {"type": "ByteFallback"}


def fuse() -> Json:
    """Decoder: join what there is so far."""
    return {"type": "Fuse"}


def strip_first_blank() -> Json:
    """Decoder: drop one blank at the start."""
    return {"type": "Strip", "content": " ", "start": 1, "stop": 0}
