"""Only what the template wrote becomes an added token; all else is as the library encodes it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from helios.frontend.prompt import PromptPath
from helios.frontend.provenance import PromptText, concat, spans_of, template_text
from helios.frontend.template import ChatTemplate
from helios.frontend.text import Tokenizer
from helios.values import RequestInvalid
from tests.frontend.conversations import (
    LETTERS,
    MERGES,
    TOKENS,
    byte_tokenizer,
    byte_tokenizer_file,
    conversations,
    markers_in,
)
from tests.frontend.templates import ALL

MARKERS = ("<s>", "<|a|>", "<|a|>b", "<think>", "</think>", "\n\n", "   ")
FIRST_MARKER = len(LETTERS) + len(MERGES)
PIECES = st.sampled_from((*MARKERS, "<|", "a", "|>", "b", " ", "\n", "<think", ">", "\xe9", "x  y"))
TEXTS = st.lists(PIECES, max_size=8).map("".join)


def own(text: str) -> PromptText:
    """A prompt that is the template's, all of it."""
    return PromptText(text=text, template_spans=spans_of(template_text(text)))


def first_word_file() -> dict[str, object]:
    """A tokenizer that puts a blank before the first word of a text alone."""
    words = ["<unk>", "\u2581", "a", "b", "\u2581a", "\u2581b", "x", "y", "<", "|", ">", "\n"]
    file = byte_tokenizer_file(("<s>", "<|a|>"), normalized=True)
    blank = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "first",
        "split": False,
    }
    return {
        **file,
        "added_tokens": [
            {**token, "id": len(words) + index} for index, token in enumerate(file["added_tokens"])
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [blank]},
        "decoder": None,
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "vocab": {word: index for index, word in enumerate(words)},
            "merges": [["\u2581", "a"], ["\u2581", "b"]],
        },
    }


FILES = {
    "plain": byte_tokenizer_file(MARKERS),
    "normalized": byte_tokenizer_file(MARKERS, normalized=True, special=False),
    "eating right": byte_tokenizer_file(MARKERS, rstrip=True),
    "eating left": byte_tokenizer_file(MARKERS, lstrip=True),
    "words": byte_tokenizer_file(MARKERS, single_word=True),
    "first word": first_word_file(),
}


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_a_templates_text_is_encoded_as_the_library_encodes_it(kind: str, text: str) -> None:
    data = json.dumps(FILES[kind]).encode()
    expected = Library.from_buffer(data).encode(text, add_special_tokens=False).ids
    assert Tokenizer(data).encode_prompt(own(text)) == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("a ", "<", "|a", "ll", "o\n", "x  y")), st.booleans())))
def test_borders_of_origin_do_not_change_the_tokens_of_plain_text(
    pieces: list[tuple[str, bool]],
) -> None:
    tokenizer = byte_tokenizer(("<think>",))
    text = concat([template_text(part) if is_own else part for part, is_own in pieces])
    prompt = PromptText(text=str.__str__(text), template_spans=spans_of(text))
    assert tokenizer.encode_prompt(prompt) == tokenizer.encode(prompt.text)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_a_clients_text_never_becomes_a_marker(before: str, text: str) -> None:
    tokenizer = byte_tokenizer(MARKERS)
    mixed = concat([template_text(before), text])
    prompt = PromptText(text=before + text, template_spans=spans_of(mixed))
    allowed = Counter(tokenizer.encode_prompt(own(before)))
    blanks = {FIRST_MARKER + MARKERS.index(blank) for blank in ("\n\n", "   ")}
    found = Counter(tokenizer.encode_prompt(prompt))
    for token in range(FIRST_MARKER, FIRST_MARKER + len(MARKERS)):
        assert token in blanks or found[token] <= allowed[token]


def test_blank_added_tokens_carry_no_structure_and_count_everywhere() -> None:
    tokenizer = byte_tokenizer(MARKERS)
    assert tokenizer.encode_plain("a\n\nb   c") == tokenizer.encode("a\n\nb   c")


def test_a_marker_that_the_model_itself_would_find_is_broken() -> None:
    file = byte_tokenizer_file(("<s>",))
    vocabulary = file["model"]["vocab"]
    file["model"]["merges"] += [["<", "s"], ["<s", ">"]]
    vocabulary["<s"] = len(vocabulary)
    vocabulary["<s>"] = len(vocabulary)
    file["added_tokens"][0]["id"] = vocabulary["<s>"]
    tokenizer = Tokenizer(json.dumps(file).encode())
    plain = tokenizer.encode_plain("a<s>b<s>")
    assert vocabulary["<s>"] not in plain
    assert tokenizer.encode_prompt(own("<s>")) == [vocabulary["<s>"]]
    assert (
        b"".join(bytes([LETTERS.index(letter)]) for token in plain for letter in words(file)[token])
        == b"a<s>b<s>"
    )


def words(file: dict[str, dict[str, dict[str, int]]]) -> dict[int, str]:
    """Spellings by id."""
    return {index: word for word, index in file["model"]["vocab"].items()}


@pytest.mark.parametrize("source", ALL.values(), ids=ALL.keys())
def test_a_template_keeps_its_markers_and_a_client_gets_none(source: str) -> None:
    markers = markers_in(source)
    path = PromptPath(ChatTemplate(source, TOKENS), tokenizer := byte_tokenizer(markers))
    for kind, conversation in conversations().items():
        try:
            prompt = path.prompt(conversation)
        except RequestInvalid:
            continue
        assert list(prompt.tokens) == tokenizer.encode(prompt.text.text), kind
    hostile = " ".join(f"qZ{marker}Zq" for marker in markers)
    for kind, conversation in conversations(hostile).items():
        try:
            prompt = path.prompt(conversation)
        except RequestInvalid:
            continue
        check_no_injection(tokenizer, source, markers, prompt.text, prompt.tokens, kind)


def check_no_injection(
    tokenizer: Tokenizer,
    source: str,
    markers: list[str],
    text: PromptText,
    tokens: tuple[int, ...],
    kind: str,
) -> None:
    """Fail if markers that clients wrote, each between `qZ` and `Zq`, are among the tokens.

    Left out is the closer of reasoning where the template splits an assistant's text by it: it
    writes that closer itself, between the same letters.
    """
    everywhere, found = Counter(tokenizer.encode(text.text)), Counter(tokens)
    for marker in markers:
        (token,) = tokenizer.encode(marker)
        if "think" not in marker or "split(" not in source:
            ours = everywhere[token] - text.text.count(f"qZ{marker}Zq")
            assert found[token] <= ours, (kind, marker)
