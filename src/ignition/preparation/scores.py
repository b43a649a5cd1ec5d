"""SentencePiece scores as an ordered list of merges.

A SentencePiece vocabulary merges whichever neighbours form the token of the highest
score, leftmost first.  `tokenizers` merges by the place in a list, so every way to put a
token together from two becomes an entry, best score first; `ties` orders equal scores.

Always: both halves and the whole of an entry are tokens, and none of them is a control
token, so text can never be merged into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from ignition.preparation.ties import Tied, order_tied
from ignition.preparation.tokenizer_json import Merge
from ignition.preparation.vocabulary import BLANK, TOKENS, TokenKind, Vocabulary, damaged
from ignition.weights.checkpoint import Settings

SCORES: Final = "tokenizer.ggml.scores"
BYTE_COUNT: Final = 256
PLAIN_KINDS: Final = frozenset({TokenKind.NORMAL, TokenKind.UNUSED, TokenKind.UNDEFINED})


def merges_by_score(settings: Settings, vocabulary: Vocabulary) -> list[Merge]:
    """Every merge that the vocabulary allows, in the order in which they apply."""
    scores = settings.take_list(SCORES, float)
    if len(scores) < len(vocabulary.texts):
        raise damaged(
            SCORES, f"{len(scores)} scores", expected=f"{len(vocabulary.texts)}, one per token"
        )
    merged = {text: index for text, index in vocabulary.ids.items() if merges(vocabulary, index)}
    check_characters(merged)
    merges_of = {text: tuple(ways_to_halve(text, merged)) for text in merged}

    def score(text: str) -> float:
        return scores[merged[text]]

    ordered: dict[Merge, None] = {}
    wholes = sorted((text for text in merged if merges_of[text]), key=score, reverse=True)
    for best, texts in groupby(wholes, key=score):
        tied = Tied(score=best, merges={text: merges_of[text] for text in texts})
        ordered.update(dict.fromkeys(order_tied(tied, earlier=ordered.keys())))
    return list(ordered)


def merges(vocabulary: Vocabulary, index: int) -> bool:
    """Whether text can be merged into this token.

    User-defined tokens are found before, unless blanks hide them: those are not spelt
    with U+2581 until the text is prepared for merging.
    """
    kind = vocabulary.kinds[index]
    hidden = kind is TokenKind.USER_DEFINED and BLANK in vocabulary.texts[index]
    return kind in PLAIN_KINDS or hidden


def ways_to_halve(whole: str, merged: Mapping[str, int]) -> Iterator[Merge]:
    """The pairs of tokens that make up a token, longest left half first."""
    for cut in range(len(whole) - 1, 0, -1):
        if whole[:cut] in merged and whole[cut:] in merged:
            yield whole[:cut], whole[cut:]


def check_characters(merged: Mapping[str, int]) -> None:
    """Refuse a token whose characters are no tokens: it could not be put together."""
    for text, index in merged.items():
        for character in text:
            if character not in merged:
                raise damaged(
                    f"{TOKENS}[{index}]",
                    f"{text!r} without a token for {character!r}",
                    expected="a token for each of its characters",
                )


def check_bytes(vocabulary: Vocabulary) -> None:
    """Refuse a vocabulary that cannot spell what it has no token for."""
    for byte in range(BYTE_COUNT):
        if f"<0x{byte:02X}>" not in vocabulary.ids:
            raise damaged(
                TOKENS, f"no token <0x{byte:02X}>", expected="a token for each of 256 bytes"
            )
