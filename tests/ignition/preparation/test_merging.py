"""Converted vocabularies merge as the plain tellings of merging say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ignition.weights.checkpoint import CheckpointError
from preparation.vocabularies import (
    BLANK,
    BYTE_TOKENS,
    LETTERS,
    NORMAL,
    USER_DEFINED,
    Merge,
    byte_level,
    listed_tokens,
    opened,
    refusal_of,
    scored_tokens,
    sentencepiece,
    vocabulary,
)

CHARACTERS = ("a", "b", BLANK)


@st.composite
def merge_lists(draw: st.DrawFn) -> list[Merge]:
    """Merges of tokens that earlier merges made, over three letters."""
    tokens, merges = ["a", "b", "c"], []
    for _ in range(draw(st.integers(0, 12))):
        merge = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        merges.append(merge)
        tokens.append("".join(merge))
    return merges


@st.composite
def scored_vocabularies(draw: st.DrawFn, *, scores: st.SearchStrategy[float]) -> dict[str, float]:
    """Characters, and longer tokens over them with better scores."""
    texts = st.text(alphabet=st.sampled_from(CHARACTERS), min_size=2, max_size=5)
    longer = draw(st.dictionaries(texts, scores, max_size=10))
    return {**dict.fromkeys(CHARACTERS, -1e6), **longer}


FEW_SCORES = st.integers(-3, -1).map(float)
MANY_SCORES = st.floats(-1e5, -1.0, width=32)


@given(merges=merge_lists(), text=st.text(alphabet="abc", max_size=20))
@settings(max_examples=150, deadline=None)
def test_listed_merges_apply_as_listed(merges: list[Merge], text: str) -> None:
    tokenizer = opened(byte_level(merges=merges, pre="gpt-2"))
    assert tokenizer.encode(text).tokens == listed_tokens(text, merges)


@given(
    scores=scored_vocabularies(scores=MANY_SCORES) | scored_vocabularies(scores=FEW_SCORES),
    text=st.text(alphabet="ab ", max_size=24),
)
@settings(max_examples=400, deadline=None)
def test_scored_merges_apply_best_and_leftmost_first_or_are_refused(
    scores: dict[str, float], text: str
) -> None:
    refused: str | None = None
    try:
        tokenizer = opened(sentencepiece(scores, add_space_prefix=False))
    except CheckpointError as error:
        refused = str(error)
    else:
        tokens = tokenizer.encode(text, add_special_tokens=False).tokens
        assert tokens == scored_tokens(text.replace(" ", BLANK), scores)
    longer = [score for token, score in scores.items() if len(token) > 1]
    if len(set(longer)) == len(longer):
        assert refused is None
    elif refused is not None:
        assert refused.startswith("tokenizer.ggml.scores: found -")


def test_runs_of_blanks_with_one_score_grow_from_the_left() -> None:
    runs = [BLANK * length for length in range(2, 8)]
    scores = {**dict.fromkeys(CHARACTERS, -2e9), **dict.fromkeys(runs, -1e9)}
    tokenizer = opened(sentencepiece(scores, add_space_prefix=False))
    for length in range(1, 40):
        tokens = tokenizer.encode("a" + " " * length, add_special_tokens=False).tokens
        assert tokens == scored_tokens("a" + BLANK * length, scores)
        assert tokens[1:-1] == [BLANK * 7] * (len(tokens) - 2)


def test_scores_that_no_list_of_merges_can_say_are_refused() -> None:
    scores = {"a": -9.0, "b": -9.0, "ab": -1.0, "ba": -1.0}
    assert refusal_of(sentencepiece(scores)) == (
        "tokenizer.ggml.scores: found -1.0 for 'ab' and for ['ba'], "
        "expected different scores for tokens that can share a part; "
        "use another conversion of this model, or its Hugging Face folder"
    )


def test_characters_without_a_token_are_spelt_in_bytes() -> None:
    tokenizer = opened(sentencepiece({"a": -1.0, BLANK: -2.0}))
    encoding = tokenizer.encode("a\u00e9\n", add_special_tokens=False)
    assert encoding.tokens == [BLANK, "a", "<0xC3>", "<0xA9>", "<0x0A>"]
    assert tokenizer.decode(encoding.ids) == "a\u00e9\n"


def test_a_blank_is_put_before_every_text_unless_the_file_says_otherwise() -> None:
    scores = {"a": -1.0, BLANK: -2.0, BLANK + "a": -0.5}
    prefixed = opened(sentencepiece(scores, more=[("<u>", USER_DEFINED)]))
    bare = opened(sentencepiece(scores, more=[("<u>", USER_DEFINED)], add_space_prefix=False))
    assert prefixed.encode("a<u>a", add_special_tokens=False).tokens == [
        BLANK + "a",
        "<u>",
        BLANK + "a",
    ]
    assert bare.encode("a<u>a", add_special_tokens=False).tokens == ["a", "<u>", "a"]
    for tokenizer in (prefixed, bare):
        ids = tokenizer.encode(" a a", add_special_tokens=False).ids
        assert tokenizer.decode(ids) == " a a"


@settings(deadline=None)
@given(text=st.text(max_size=40))
def test_byte_level_text_decodes_to_itself(text: str) -> None:
    tokenizer = opened(byte_level(merges=[("a", "b")], pre="llama-bpe", add_bos_token=False))
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@settings(deadline=None)
@given(text=st.text(max_size=40).filter(lambda text: BLANK not in text))
def test_sentencepiece_text_decodes_to_itself(text: str) -> None:
    tokenizer = opened(sentencepiece({"a": -1.0, BLANK: -2.0}))
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids) == text


def test_a_byte_without_a_token_is_dropped_and_nothing_merges_across_it() -> None:
    tokenizer = opened(byte_level(merges=[("!", "!")], without=[4, 0xF1], pre="gpt-2"))
    assert tokenizer.encode("!!").tokens == ["!!"]
    assert tokenizer.encode("!\x04!").tokens == ["!", "!"]
    far = "\U00040000"
    rest = [LETTERS[byte] for byte in far.encode()[1:]]
    assert tokenizer.encode(f"!{far}!").tokens == ["!", *rest, "!"]


@pytest.mark.parametrize("leading", range(0xC2, 0xF5))
def test_any_leading_byte_may_be_without_a_token(leading: int) -> None:
    tokenizer = opened(byte_level(without=[leading], pre="gpt-2"))
    for character in "\u0080\u07ff\u0800\u4e2d\ud7ff\ue000\U00010000\U0010ffff":
        spelt = [LETTERS[byte] for byte in character.encode() if byte != leading]
        assert tokenizer.encode(f"!{character}!").tokens == ["!", *spelt, "!"]


def test_lines_of_plain_text_merge_by_list() -> None:
    texts = [*BYTE_TOKENS, "a", "b", "\n", BLANK, "ab", BLANK + "ab", "\n\n", "b\n"]
    merges = [("a", "b"), (BLANK, "ab"), ("\n", "\n"), ("b", "\n")]
    tokenizer = opened(
        vocabulary(
            [(text, NORMAL) for text in texts],
            model="gpt2",
            pre="sarvam-moe",
            merges=tuple(" ".join(merge) for merge in merges),
        )
    )
    encoding = tokenizer.encode("ab ab\n\n\nb\n\u00e9")
    assert encoding.tokens == [
        *("ab", BLANK + "ab", "\n\n", "\n"),
        *("b", "\n", "<0xC3>", "<0xA9>"),  # a line break never joins what is before it
    ]
    assert tokenizer.decode(encoding.ids) == "ab ab\n\n\nb\n\u00e9"
