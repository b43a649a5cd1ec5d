"""Pieces of real byte-level tokens: characters split over tokens, added tokens, every answer."""

from __future__ import annotations

from functools import cache

import pytest
import tokenizers
from msgspec.structs import replace
from tokenizers import decoders, models, pre_tokenizers, trainers

from helios.frontend.syntax.pieces import Piece, Vocabulary
from helios.frontend.syntax.resolve import resolve_syntax
from ignition.preparation.syntaxes import syntax_named
from tests.frontend.syntax.answers import ANSWERS, Answer
from tests.frontend.syntax.bench import ENVELOPES, TOOLS, Bench, joined
from tests.treaty.frontends import text_frontend


@cache
def byte_pairs(added: tuple[str, ...], special: tuple[str, ...]) -> tokenizers.Tokenizer:
    """A small byte-level tokenizer that learnt from the answers themselves."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([answer.text for answer in ANSWERS], trainer)
    made.add_tokens(list(added))
    made.add_special_tokens(list(special))
    return made


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.tools)
def test_an_answer_means_the_same_in_real_tokens(answer: Answer) -> None:
    tokenizer = byte_pairs(answer.added, (*answer.special, *answer.ends))
    vocabulary = Vocabulary(tokenizer)
    tools, reasoning = syntax_named(answer.tools, answer.reasoning, vocabulary.ids)
    frontend = replace(
        text_frontend(),
        tools=tools,
        reasoning=reasoning,
        assistant=ENVELOPES.get(answer.reasoning),
        eos_token_ids=tuple(vocabulary.ids[end] for end in answer.ends),
    )
    syntax = resolve_syntax(frontend, tokenizer)
    stream, machine = syntax.pieces(), syntax.machine(tools=TOOLS, opened=syntax.opening(()))
    ids = tokenizer.encode(answer.text, add_special_tokens=False).ids
    pieces = [piece for token in ids for piece in stream.feed(token)]
    assert "".join(piece.text for piece in pieces) == answer.text
    assert stream.close() == []
    events = [event for piece in pieces for event in machine.feed(piece)]
    assert joined([*events, *machine.close(truncated=False)]) == list(answer.events)


def test_a_split_character_comes_whole_and_the_stream_goes_on() -> None:
    tokenizer = byte_pairs((), ())
    ids = tokenizer.encode("a🙂b한", add_special_tokens=False).ids
    stream = Vocabulary(tokenizer).pieces()
    texts = [piece.text for token in ids for piece in stream.feed(token)]
    assert len(ids) > len(texts)
    assert "".join(texts) == "a🙂b한"


def test_an_added_token_ends_an_incomplete_character() -> None:
    tokenizer = byte_pairs(("<tool_call>",), ())
    vocabulary = Vocabulary(tokenizer)
    first = tokenizer.encode("🙂", add_special_tokens=False).ids[0]
    marker = vocabulary.ids["<tool_call>"]
    stream = vocabulary.pieces()
    assert stream.feed(first) == []
    assert stream.feed(marker) == [Piece(first, "\ufffd"), Piece(marker, "<tool_call>")]
    assert stream.feed(first) == []
    assert stream.close() == [Piece(first, "\ufffd")]


def test_a_prompt_of_ids_opens_reasoning_by_its_tokens_only() -> None:
    bench = Bench(
        "none", "think", added=["<think>", "</think>"], special=["<|im_start|>", "<|im_end|>"]
    )
    spelt = bench.syntax.opening("<|im_start|>assistant\n<think>")
    tokens = [bench.ids["<|im_start|>"], bench.ids["<think>"]]
    assert spelt.place.name == "REASONING"
    assert bench.syntax.opening(tokens).place.name == "ANSWER"


def test_a_space_behind_an_added_token_is_kept() -> None:
    words = {"<unk>": 0, "▁a": 1, "▁b": 2}
    made = tokenizers.Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_tokens(["[X]"])
    stream = Vocabulary(made).pieces()
    pieces = [piece.text for token in (1, 3, 2, 3, 1) for piece in stream.feed(token)]
    assert pieces == ["a", "[X]", " b", "[X]", " a"]
