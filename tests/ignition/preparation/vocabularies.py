"""Small GGUF vocabularies for tests, and two plain tellings of how they are meant.

`listed_tokens` and `scored_tokens` say in the simplest way what merging by list and by
score means; they know nothing of the `tokenizers` library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer

from ignition.preparation.gguf_tokenizer import convert_tokenizer
from ignition.weights.checkpoint import CheckpointError, Settings

BLANK = "\u2581"
PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
LETTERS = [
    chr(byte) if byte in PRINTABLE else chr(0x100 + OTHERS.index(byte)) for byte in range(256)
]
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

Merge = tuple[str, str]
Typed = Sequence[tuple[str, int]]


def byte_level(
    *,
    merges: Sequence[Merge] = (),
    more: Typed = (),
    without: Sequence[int] = (),
    **settings: object,
) -> Settings:
    """A byte-level vocabulary: all bytes but some, the merges' wholes, and `more`."""
    tokens = [(letter, NORMAL) for byte, letter in enumerate(LETTERS) if byte not in without]
    tokens += [(whole, NORMAL) for whole in dict.fromkeys("".join(merge) for merge in merges)]
    values = {"model": "gpt2", "merges": tuple(" ".join(merge) for merge in merges)}
    return vocabulary([*tokens, *more], **{**values, **settings})


def sentencepiece(scores: Mapping[str, float], *, more: Typed = (), **settings: object) -> Settings:
    """A SentencePiece vocabulary: special tokens, all bytes, scored tokens, and `more`."""
    special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    tokens = [*special, *((token, BYTE) for token in BYTE_TOKENS)]
    tokens += [(token, NORMAL) for token in scores]
    values = {
        "model": "llama",
        "scores": (*(0.0,) * 259, *scores.values(), *(-1000.0,) * len(more)),
    }
    return vocabulary([*tokens, *more], **{**values, **settings})


def vocabulary(tokens: Typed, **settings: object) -> Settings:
    """Settings as a GGUF file has them; keys are given without their prefix."""
    values = {
        "tokens": tuple(text for text, _ in tokens),
        "token_type": tuple(kind for _, kind in tokens),
        **settings,
    }
    return Settings(
        {
            key if "." in key else f"tokenizer.ggml.{key}": value
            for key, value in values.items()
            if value is not None
        },
        origin="tiny.gguf",
    )


def opened(settings: Settings) -> Tokenizer:
    """The tokenizer that the settings are converted to."""
    return Tokenizer.from_buffer(convert_tokenizer(settings).json)


def refusal_of(settings: Settings) -> str:
    """The sentence with which a vocabulary is refused."""
    try:
        convert_tokenizer(settings)
    except CheckpointError as error:
        return str(error)
    raise AssertionError("the vocabulary was not refused")


def listed_tokens(piece: Sequence[str], merges: Sequence[Merge]) -> list[str]:
    """Merge by list: the earliest merge first, the leftmost of it first."""
    symbols = list(piece)
    ranks = {merge: rank for rank, merge in reversed(list(enumerate(merges)))}
    while True:
        pairs = list(zip(symbols, symbols[1:], strict=False))
        known = [(ranks[pair], place) for place, pair in enumerate(pairs) if pair in ranks]
        if not known:
            return symbols
        _, place = min(known)
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]


def scored_tokens(text: str, scores: Mapping[str, float]) -> list[str]:
    """Merge by score: the best-scored whole first, the leftmost of those first."""
    symbols = list(text)
    while True:
        wholes = ["".join(pair) for pair in zip(symbols, symbols[1:], strict=False)]
        known = [(-scores[whole], place) for place, whole in enumerate(wholes) if whole in scores]
        if not known:
            return symbols
        _, place = min(known)
        symbols[place : place + 2] = [wholes[place]]
