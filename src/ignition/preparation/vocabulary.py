"""A GGUF file's vocabulary: each token's text, kind and score, and the special ones.

Follows llama.cpp in what a kind means and in which tokens end a turn although the file
does not say so.  How text becomes tokens is another file's business.

Always: token texts are different from each other, and every id lies in the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ignition.weights.checkpoint import CheckpointError, Settings


class TokenKind(IntEnum):
    """The numbers of `tokenizer.ggml.token_type`."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


KINDS: Final[Mapping[int, TokenKind]] = {kind.value: kind for kind in TokenKind}

# Texts that end a turn: control tokens, and ends of generation, whatever the file says.
TURN_ENDS: Final = frozenset(
    {
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<end_of_turn>",
        "<end_of_utterance>",
        "</s>",
        "<eos>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "[e~[",
        "<turn|>",
        "<|tool_response>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    }
)
# Texts that mark code to fill in: control tokens, whatever the file says.
GAP_MARKS: Final = frozenset(
    {
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        "<|fim_pad|>",
        "<|fim_repo|>",
        "<fim-prefix>",
        "<fim-suffix>",
        "<fim-middle>",
        "<fim-pad>",
        "<fim-repo>",
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        "<fim_pad>",
        "<PRE>",
        "<SUF>",
        "<MID>",
        "<PAD>",
        "[PAD]",
        "<REPO>",
        "<reponame>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<|code_prefix|>",
        "<|code_suffix|>",
        "<|code_middle|>",
        "<|prefix|>",
        "<|suffix|>",
        "<|middle|>",
        "\u2581<PRE>",
        "\u2581<SUF>",
        "\u2581<MID>",
        "<\uff5cfim\u2581begin\uff5c>",
        "<\uff5cfim\u2581hole\uff5c>",
        "<\uff5cfim\u2581end\uff5c>",
    }
)
# "<|end|>" ends only a part of a turn where both a call and an answer end otherwise.
PART_END: Final = "<|end|>"
CALL_ENDS: Final = frozenset({"<|call|>", "<|calls|>"})
ANSWER_ENDS: Final = frozenset({"<|return|>", "<|flush|>"})
# Some vocabularies have this one because documents contain it: a file that calls it normal
# is believed.
OFTEN_PLAIN: Final = "</s>"

BLANK: Final = "\u2581"  # stands for a blank in vocabularies that spell in plain text
TOKENS: Final = "tokenizer.ggml.tokens"
TYPES: Final = "tokenizer.ggml.token_type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Tokens by id."""

    texts: tuple[str, ...]
    kinds: tuple[TokenKind, ...]  # as llama.cpp understands them
    ids: Mapping[str, int]

    def added(self) -> tuple[int, ...]:
        """Tokens that are found in the text before anything is merged."""
        found = (TokenKind.UNKNOWN, TokenKind.CONTROL, TokenKind.USER_DEFINED)
        return tuple(index for index, kind in enumerate(self.kinds) if kind in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialIds:
    """The tokens with a part to play; `ends` are those that end generation."""

    bos: int | None
    eos: int | None
    unknown: int | None
    padding: int | None
    ends: tuple[int, ...]


def read_vocabulary(settings: Settings) -> Vocabulary:
    """Token texts and kinds, as llama.cpp understands them."""
    texts = tuple(
        text or f"[EMPTY_{index}]" for index, text in enumerate(settings.take_list(TOKENS, str))
    )
    ids = {text: index for index, text in enumerate(texts)}
    if len(ids) < len(texts):
        twice = next(text for index, text in enumerate(texts) if ids[text] != index)
        raise damaged(TOKENS, f"the token {twice!r} twice", expected="each token once")
    stored = settings.take_list(TYPES, int, default=(TokenKind.NORMAL,) * len(texts))
    if len(stored) < len(texts):
        raise damaged(TYPES, f"{len(stored)} types", expected=f"{len(texts)}, one per token")
    kinds = [kind_of(number) for number in stored[: len(texts)]]
    for text in (TURN_ENDS | GAP_MARKS) & ids.keys():
        if text != OFTEN_PLAIN or kinds[ids[text]] is not TokenKind.NORMAL:
            kinds[ids[text]] = TokenKind.CONTROL
    return Vocabulary(texts=texts, kinds=tuple(kinds), ids=ids)


def kind_of(number: int) -> TokenKind:
    """A stored type; a number that means nothing yet makes a token that is only text."""
    return KINDS.get(number, TokenKind.UNDEFINED)


def read_special_ids(settings: Settings, vocabulary: Vocabulary) -> SpecialIds:
    """The special tokens that the file names, and those known by their text."""
    sentencepiece = settings.take("tokenizer.ggml.model", str) == "llama"

    def named(name: str, *, default: int | None = None) -> int | None:
        key = f"tokenizer.ggml.{name}_token_id"
        index = settings.take(key, int, default=default)
        if index is not None and not 0 <= index < len(vocabulary.texts):
            raise damaged(key, index, expected=f"0 to {len(vocabulary.texts) - 1}")
        return index

    eos = named("eos", default=2 if sentencepiece else None)
    named_ends = [index for index in (eos, named("eot"), named("eom")) if index is not None]
    return SpecialIds(
        bos=named("bos", default=1 if sentencepiece else None),
        eos=eos,
        unknown=named("unknown", default=0 if sentencepiece else None),
        padding=named("padding"),
        ends=tuple(dict.fromkeys([*named_ends, *generation_ends(vocabulary)])),
    )


def generation_ends(vocabulary: Vocabulary) -> tuple[int, ...]:
    """The tokens whose text says that generation ends here."""
    ids = vocabulary.ids
    parts = {PART_END} if CALL_ENDS & ids.keys() and ANSWER_ENDS & ids.keys() else set()
    ends = (ids[text] for text in (TURN_ENDS & ids.keys()) - parts)
    return tuple(sorted(end for end in ends if vocabulary.kinds[end] is TokenKind.CONTROL))


def damaged(at: str, found: object, *, expected: str) -> CheckpointError:
    """A vocabulary that contradicts itself."""
    return CheckpointError(
        at,
        found,
        expected=expected,
        remedy="use another conversion of this model, or its Hugging Face folder",
    )
