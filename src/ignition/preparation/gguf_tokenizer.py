"""A GGUF file's tokenizer as a tokenizer.json that gives the same tokens.

Three families are converted: byte-level merges (`gpt2`), SentencePiece merges by score
(`llama`), and merges of plain text (`gemma4`, or the rules that say so).  Others are
refused by name.  Token ids are those of llama.cpp with special tokens recognised; three
differences are wanted, each for the sake of what the model itself was trained with:

- Text that is declared plain never becomes a control token.  (llama.cpp can merge text
  into the control tokens of a SentencePiece vocabulary.)
- Where two added tokens overlap in a text, the one that begins first is found.
  (llama.cpp finds the longest first.)
- A "</s>" that the file calls a normal token is text.  (llama.cpp makes it a control token.)

Always: tokens spell the text, so that decoding gives it back; a byte that has no token is
dropped, here as there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ignition.preparation.byte_alphabet import CHARACTERS, is_spelling, spelt
from ignition.preparation.scores import check_bytes, merges_by_score
from ignition.preparation.splits import SPLITTINGS, Alphabet, Splitting
from ignition.preparation.tokenizer_json import (
    AddedToken,
    Json,
    Keeps,
    Merge,
    Merging,
    Strip,
    TokenizerParts,
    byte_level,
    byte_tokens,
    decoders,
    fuse,
    normalizers,
    pre_tokenizers,
    prepend,
    replace,
    split,
    strip_first_blank,
    write_tokenizer,
)
from ignition.preparation.vocabulary import (
    BLANK,
    TOKENS,
    SpecialIds,
    TokenKind,
    Vocabulary,
    damaged,
    read_special_ids,
    read_vocabulary,
)
from ignition.weights.checkpoint import CheckpointError, Settings

MODEL: Final = "tokenizer.ggml.model"
PRE: Final = "tokenizer.ggml.pre"
SPACE_PREFIX: Final = "tokenizer.ggml.add_space_prefix"
MERGES: Final = "tokenizer.ggml.merges"

# Added tokens of models so named take the blanks after them along, but for these.  The
# files do not say it; llama.cpp goes by `general.name`, and so must we.
STRIPPING_NAMES: Final = ("phi-3", "phi3")
NEVER_STRIPPING: Final = frozenset({"<unk>", "<s>", "<|endoftext|>"})

# Bytes that begin the UTF-8 of a character outside ASCII, and the characters they begin.
LEADING_BYTES: Final = range(0xC2, 0xF5)
CONTINUING_BYTES: Final = range(0x80, 0xC0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedTokenizer:
    """A tokenizer.json with what it does not say itself."""

    json: bytes
    vocabulary: Vocabulary
    special: SpecialIds
    adds_bos: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What distinguishes one family of tokenizers from the others."""

    normalizer: Json | None
    pre_tokenizer: Json | None
    merging: Merging
    decoder: Json
    adds_bos: bool  # unless the file says otherwise


def convert_tokenizer(settings: Settings) -> ConvertedTokenizer:
    """Read `tokenizer.ggml.*` and say the same as a tokenizer.json."""
    model = settings.take(MODEL, str)
    vocabulary = read_vocabulary(settings)
    special = read_special_ids(settings, vocabulary)
    family = family_of(model, settings, vocabulary)
    added = added_tokens(settings, vocabulary)
    adds_bos = settings.take("tokenizer.ggml.add_bos_token", bool, default=family.adds_bos)
    adds_eos = settings.take("tokenizer.ggml.add_eos_token", bool, default=False)
    parts = TokenizerParts(
        normalizer=family.normalizer,
        pre_tokenizer=family.pre_tokenizer,
        merging=family.merging,
        decoder=family.decoder,
        added=added,
        before=surrounding(special.bos, vocabulary, name="bos") if adds_bos else None,
        after=surrounding(special.eos, vocabulary, name="eos") if adds_eos else None,
    )
    return ConvertedTokenizer(
        json=write_tokenizer(parts), vocabulary=vocabulary, special=special, adds_bos=adds_bos
    )


def family_of(model: str, settings: Settings, vocabulary: Vocabulary) -> Family:
    """The family that a `tokenizer.ggml.model` belongs to."""
    match model:
        case "llama":
            settings.take(PRE, str, default=None)  # said by many files, without effect here
            return sentencepiece(settings, vocabulary)
        case "gemma4":
            settings.take(PRE, str, default=None)
            return plain_text(settings, vocabulary, SPLITTINGS["gemma4"])
        case "gpt2":
            settings.take(SPACE_PREFIX, bool, default=None)  # without effect here
            splitting = read_splitting(settings)
            if splitting.alphabet is Alphabet.TEXT:
                return plain_text(settings, vocabulary, splitting)
            return byte_pairs(settings, vocabulary, splitting)
        case _:
            raise CheckpointError(
                MODEL,
                repr(model),
                expected="'llama', 'gpt2' or 'gemma4'",
                remedy="use the model's Hugging Face folder, which has a tokenizer.json",
            )


def read_splitting(settings: Settings) -> Splitting:
    """The rule that `tokenizer.ggml.pre` names; files that name none mean "default"."""
    name = settings.take(PRE, str, default="default")
    if name not in SPLITTINGS:
        raise CheckpointError(
            PRE,
            repr(name),
            expected=f"one of {', '.join(sorted(SPLITTINGS))}",
            remedy="use the model's Hugging Face folder, which has a tokenizer.json",
        )
    return SPLITTINGS[name]


def sentencepiece(settings: Settings, vocabulary: Vocabulary) -> Family:
    """Merges by score over the whole text, blanks spelt as U+2581."""
    check_bytes(vocabulary)
    prefixed = settings.take(SPACE_PREFIX, bool, default=True)
    blanks = replace(" ", new=BLANK)
    reading = [replace(BLANK, new=" "), byte_tokens(), fuse()]
    return Family(
        normalizer=normalizers(prepend(BLANK), blanks) if prefixed else blanks,
        pre_tokenizer=None,
        merging=Merging(
            texts=vocabulary.texts,
            merges=merges_by_score(settings, vocabulary),
            spells_bytes=True,
        ),
        decoder=decoders(*reading, strip_first_blank()) if prefixed else decoders(*reading),
        adds_bos=True,
    )


def plain_text(settings: Settings, vocabulary: Vocabulary, splitting: Splitting) -> Family:
    """Listed merges over pieces of the text itself, blanks spelt as U+2581."""
    check_bytes(vocabulary)
    return Family(
        normalizer=replace(" ", new=BLANK),
        pre_tokenizer=pre_tokenizers(*(split(pattern) for pattern in splitting.patterns)),
        merging=Merging(
            texts=vocabulary.texts, merges=read_merges(settings, vocabulary), spells_bytes=True
        ),
        decoder=decoders(replace(BLANK, new=" "), byte_tokens(), fuse()),
        adds_bos=splitting.adds_bos,
    )


def byte_pairs(settings: Settings, vocabulary: Vocabulary, splitting: Splitting) -> Family:
    """Listed merges over pieces of the text's bytes, in the printable alphabet."""
    return Family(
        normalizer=None,
        pre_tokenizer=pre_tokenizers(
            *(split(pattern) for pattern in splitting.patterns),
            *splits_at_missing_bytes(vocabulary),
            byte_level(),
        ),
        merging=Merging(
            texts=vocabulary.texts,
            merges=read_merges(settings, vocabulary),
            takes_whole_pieces=splitting.takes_whole_pieces,
        ),
        decoder=decoders(*spellings_of_added(vocabulary), byte_level()),
        adds_bos=splitting.adds_bos,
    )


def read_merges(settings: Settings, vocabulary: Vocabulary) -> list[Merge]:
    """The listed merges, each once, in the order in which they apply."""
    merges: dict[Merge, None] = {}
    for index, line in enumerate(settings.take_list(MERGES, str)):
        cut = line.find(" ", 1)
        merge = (line[:cut], line[cut + 1 :])
        if cut < 0 or not vocabulary.ids.keys() >= {*merge, "".join(merge)}:
            raise damaged(
                f"{MERGES}[{index}]", repr(line), expected="two tokens that make up a third"
            )
        merges.setdefault(merge)
    return list(merges)


def splits_at_missing_bytes(vocabulary: Vocabulary) -> Iterator[Json]:
    """Cut where a byte has no token: it is dropped, but nothing merges across it."""
    missing = [byte for byte, letter in CHARACTERS.items() if letter not in vocabulary.ids]
    ascii_bytes = [byte for byte in missing if byte < 0x80]
    leading = [byte for byte in missing if byte in LEADING_BYTES]
    for byte in missing:
        if byte in CONTINUING_BYTES:
            raise damaged(TOKENS, f"no token for byte {byte:#04x}", expected="one")
    if ascii_bytes:
        yield split(character_class(map(chr, sorted(ascii_bytes))), Keeps.NOTHING)
    if leading:
        yield split(f"(?=[{''.join(characters_led_by(byte) for byte in sorted(leading))}])")


def character_class(members: Iterable[str]) -> str:
    """A regular expression for any of these characters."""
    return "[" + "".join(rf"\x{{{ord(member):X}}}" for member in members) + "]"


def characters_led_by(byte: int) -> str:
    """The range of characters whose UTF-8 begins with this byte."""
    nbytes = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    bits = 6 * (nbytes - 1)
    first = (byte & (0x7F >> nbytes)) << bits
    last = first | ((1 << bits) - 1)
    least = {2: 0x80, 3: 0x800, 4: 0x10000}[nbytes]
    return rf"\x{{{max(first, least):X}}}-\x{{{min(last, sys.maxunicode):X}}}"


def spellings_of_added(vocabulary: Vocabulary) -> Iterator[Json]:
    """Decode added tokens as their own text, also where they read like spelt bytes."""
    misread = [
        text
        for text in (vocabulary.texts[index] for index in vocabulary.added())
        if is_spelling(text) and not text.isascii()
    ]
    others = [*(vocabulary.ids.keys() - set(misread)), *map(spelt, misread)]
    for text in misread:
        clash = next((other for other in others if text in other), None)
        if clash is not None:
            raise damaged(
                f"{TOKENS}[{vocabulary.ids[text]}]",
                f"the added token {text!r} within {clash!r}",
                expected="an added token that no spelling of bytes contains",
            )
        yield replace(text, new=spelt(text))


def added_tokens(settings: Settings, vocabulary: Vocabulary) -> list[AddedToken]:
    """Control tokens are special; user-defined ones are found in plain text too."""
    name = settings.take("general.name", str, default="").lower()
    strips = any(part in name for part in STRIPPING_NAMES)
    return [
        AddedToken(
            id=index,
            text=vocabulary.texts[index],
            special=vocabulary.kinds[index] is not TokenKind.USER_DEFINED,
            strip=Strip.RIGHT
            if strips and vocabulary.texts[index] not in NEVER_STRIPPING
            else Strip.NONE,
        )
        for index in vocabulary.added()
    ]


def surrounding(index: int | None, vocabulary: Vocabulary, *, name: str) -> AddedToken:
    """The token that is put around encoded texts, which must be known."""
    if index is None:
        raise damaged(
            f"tokenizer.ggml.{name}_token_id",
            "nothing",
            expected=f"a token, because tokenizer.ggml.add_{name}_token asks for it",
        )
    return AddedToken(id=index, text=vocabulary.texts[index], special=True)
