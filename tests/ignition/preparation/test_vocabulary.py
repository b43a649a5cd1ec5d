"""What a vocabulary's tokens are for, and vocabularies that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ignition.preparation.gguf_tokenizer import convert_tokenizer
from ignition.preparation.splits import RULES, SPLITTINGS
from ignition.weights.checkpoint import Settings
from preparation.vocabularies import (
    BLANK,
    BYTE,
    BYTE_TOKENS,
    CONTROL,
    LETTERS,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Typed,
    byte_level,
    opened,
    refusal_of,
    sentencepiece,
    vocabulary,
)

RECONVERT = "use another conversion of this model, or its Hugging Face folder"
USE_FOLDER = "use the model's Hugging Face folder, which has a tokenizer.json"


def ends_of(settings: Settings) -> list[str]:
    converted = convert_tokenizer(settings)
    return [converted.vocabulary.texts[index] for index in converted.special.ends]


def test_each_rule_has_one_meaning() -> None:
    names = [name for rule, _ in RULES for name in rule.split()]
    assert len(names) == len(set(names)) == len(SPLITTINGS)


@pytest.mark.parametrize("name", SPLITTINGS)
def test_each_rule_opens_in_the_tokenizers_library(name: str) -> None:
    more = [(f"<0x{byte:02X}>", NORMAL) for byte in range(256)]
    opened(byte_level(pre=name, more=more, bos_token_id=0)).encode("a b\n1")


def test_control_tokens_are_special_and_user_defined_ones_are_found_in_plain_text() -> None:
    more = [("<|c|>", CONTROL), ("<u>", USER_DEFINED), ("<n>", NORMAL), ("<x>", UNUSED)]
    tokenizer = opened(byte_level(more=more, pre="gpt-2"))
    text = "<|c|><u><n><x>"
    assert tokenizer.encode(text).tokens[:2] == ["<|c|>", "<u>"]
    tokenizer.encode_special_tokens = True
    plain = tokenizer.encode(text).tokens
    assert "<u>" in plain
    assert not {"<|c|>", "<n>", "<x>"} & set(plain)
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_the_unknown_token_is_special() -> None:
    tokenizer = opened(byte_level(more=[("<unk>", UNKNOWN)], pre="gpt-2"))
    assert tokenizer.encode("a<unk>").tokens == ["a", "<unk>"]
    tokenizer.encode_special_tokens = True
    assert tokenizer.encode("a<unk>").tokens == list("a<unk>")


def test_the_longest_of_added_tokens_that_begin_together_is_found() -> None:
    more = [("  ", USER_DEFINED), ("    ", USER_DEFINED)]
    tokenizer = opened(byte_level(more=more, pre="gpt-2"))
    assert tokenizer.encode("x" + " " * 7 + "y").tokens == ["x", "    ", "  ", LETTERS[32], "y"]


@pytest.mark.parametrize("text", ["<|im_end|>", "<|fim_prefix|>"])
def test_texts_known_as_control_tokens_are_special_whatever_the_file_says(text: str) -> None:
    tokenizer = opened(byte_level(more=[(text, NORMAL)], pre="gpt-2"))
    assert tokenizer.encode(f"a{text}").tokens == ["a", text]
    tokenizer.encode_special_tokens = True
    assert text not in tokenizer.encode(f"a{text}").tokens


def test_a_slashed_s_that_the_file_calls_normal_is_text() -> None:
    settings = byte_level(more=[("</s>", NORMAL)], pre="gpt-2", eos_token_id=0)
    assert opened(settings).encode("</s>").tokens == list("</s>")
    assert ends_of(settings) == [LETTERS[0]]


def test_generation_ends_at_the_named_tokens_and_at_those_known_by_text() -> None:
    more = [("<|eot_id|>", CONTROL), ("<|eom_id|>", CONTROL), ("<e>", CONTROL), ("<f>", CONTROL)]
    settings = byte_level(more=more, pre="gpt-2", eos_token_id=258, eot_token_id=259)
    assert ends_of(settings) == ["<e>", "<f>", "<|eot_id|>", "<|eom_id|>"]


def test_an_end_of_part_does_not_end_generation_where_calls_and_answers_end_otherwise() -> None:
    more = [("<|end|>", CONTROL), ("<|return|>", CONTROL), ("<|call|>", CONTROL)]
    assert ends_of(byte_level(more=more[:1], pre="gpt-4o")) == ["<|end|>"]
    assert ends_of(byte_level(more=more, pre="gpt-4o")) == ["<|return|>", "<|call|>"]


def test_sentencepiece_files_may_leave_out_the_usual_special_tokens() -> None:
    converted = convert_tokenizer(sentencepiece({"a": -1.0, BLANK: -2.0}))
    special = converted.special
    assert (special.unknown, special.bos, special.eos, special.padding) == (0, 1, 2, None)
    assert special.ends == (2,)
    assert converted.adds_bos


@pytest.mark.parametrize(
    ("says", "tokens"),
    [
        ({"add_bos_token": True}, ["<b>", "a"]),
        ({"add_bos_token": False}, ["a"]),
        ({"add_bos_token": True, "add_eos_token": True}, ["<b>", "a", "<e>"]),
        ({"add_eos_token": True}, ["a", "<e>"]),
        ({}, ["a"]),
    ],
)
def test_texts_are_surrounded_as_the_file_says(says: dict[str, Any], tokens: list[str]) -> None:
    more = [("<b>", CONTROL), ("<e>", CONTROL)]
    settings = byte_level(more=more, pre="gpt-2", bos_token_id=256, eos_token_id=257, **says)
    tokenizer = opened(settings)
    assert tokenizer.encode("a").tokens == tokens
    assert tokenizer.encode("a", add_special_tokens=False).tokens == ["a"]


def test_a_rule_may_ask_for_the_first_token() -> None:
    assert convert_tokenizer(byte_level(pre="llama-bpe", bos_token_id=0)).adds_bos
    assert not convert_tokenizer(byte_level(pre="qwen2", bos_token_id=0)).adds_bos


def test_a_whole_piece_that_is_a_token_is_taken_where_the_rule_says_so() -> None:
    more: Typed = [("abc", NORMAL)]
    assert opened(byte_level(more=more, pre="glm4")).encode("abc").tokens == ["abc"]
    assert opened(byte_level(more=more, pre="qwen2")).encode("abc").tokens == ["a", "b", "c"]


def test_added_tokens_of_models_named_phi_3_take_the_blanks_after_them_along() -> None:
    more = [("<|user|>", CONTROL)]
    scores = {"a": -1.0, BLANK: -2.0}
    settings = sentencepiece(scores, more=more, **{"general.name": "Phi-3 mini"})
    tokenizer = opened(settings)
    ids = tokenizer.encode("<|user|> \n a<s> a", add_special_tokens=False).ids
    tokens = [tokenizer.id_to_token(index) for index in ids]
    assert tokens == ["<|user|>", BLANK, "a", "<s>", BLANK, BLANK, "a"]


def test_added_tokens_that_read_like_spelt_bytes_decode_as_their_own_text() -> None:
    more = [("\u00f5\u00c1", USER_DEFINED)]
    tokenizer = opened(byte_level(more=more, pre="gpt-2"))
    encoding = tokenizer.encode("x\u00f5\u00c1\u00f5")
    assert encoding.tokens == ["x", "\u00f5\u00c1", "\u00c3", "\u00b5"]
    assert tokenizer.decode(encoding.ids) == "x\u00f5\u00c1\u00f5"


def test_a_token_without_text_gets_a_name() -> None:
    converted = convert_tokenizer(byte_level(more=[("", NORMAL)], pre="gpt-2"))
    assert converted.vocabulary.texts[256] == "[EMPTY_256]"


def test_the_same_settings_give_the_same_bytes() -> None:
    first, second = (
        convert_tokenizer(byte_level(merges=[("a", "b")], pre="qwen2")).json for _ in range(2)
    )
    assert first == second


SPECIAL = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
SPELLING = [(token, BYTE) for token in BYTE_TOKENS]
REFUSALS = {
    "another model": (
        vocabulary([("a", NORMAL)], model="t5"),
        f"tokenizer.ggml.model: found 't5', expected 'llama', 'gpt2' or 'gemma4'; {USE_FOLDER}",
    ),
    "no model": (
        vocabulary([("a", NORMAL)]),
        "tiny.gguf: tokenizer.ggml.model: found nothing, expected text; "
        "the checkpoint is damaged or needs a newer Ignition",
    ),
    "an unknown rule": (
        byte_level(pre="mmbert"),
        f"tokenizer.ggml.pre: found 'mmbert', expected one of {', '.join(sorted(SPLITTINGS))}; "
        f"{USE_FOLDER}",
    ),
    "a token twice": (
        byte_level(more=[("a", NORMAL)], pre="gpt-2"),
        f"tokenizer.ggml.tokens: found the token 'a' twice, expected each token once; {RECONVERT}",
    ),
    "too few types": (
        vocabulary([("a", NORMAL), ("b", NORMAL)], model="gpt2", token_type=(1,)),
        f"tokenizer.ggml.token_type: found 1 types, expected 2, one per token; {RECONVERT}",
    ),
    "a special token that is none": (
        byte_level(pre="gpt-2", eos_token_id=256),
        f"tokenizer.ggml.eos_token_id: found 256, expected 0 to 255; {RECONVERT}",
    ),
    "no first token to add": (
        byte_level(pre="llama-bpe"),
        "tokenizer.ggml.bos_token_id: found nothing, expected a token, because "
        f"tokenizer.ggml.add_bos_token asks for it; {RECONVERT}",
    ),
    "no merges": (
        vocabulary([(letter, NORMAL) for letter in LETTERS], model="gpt2", pre="gpt-2"),
        "tiny.gguf: tokenizer.ggml.merges: found nothing, expected a list, each text; "
        "the checkpoint is damaged or needs a newer Ignition",
    ),
    "a merge of what is no token": (
        vocabulary(
            [(letter, NORMAL) for letter in LETTERS], model="gpt2", pre="gpt-2", merges=("a b",)
        ),
        "tokenizer.ggml.merges[0]: found 'a b', expected two tokens that make up a third; "
        f"{RECONVERT}",
    ),
    "a merge of one": (
        vocabulary(
            [(letter, NORMAL) for letter in LETTERS], model="gpt2", pre="gpt-2", merges=("ab",)
        ),
        "tokenizer.ggml.merges[0]: found 'ab', expected two tokens that make up a third; "
        f"{RECONVERT}",
    ),
    "a byte missing within characters": (
        byte_level(without=[0x85], pre="gpt-2"),
        f"tokenizer.ggml.tokens: found no token for byte 0x85, expected one; {RECONVERT}",
    ),
    "an added token within spelt bytes": (
        byte_level(more=[("\u00f5", USER_DEFINED), ("\u00f5\u00c1", NORMAL)], without=[0xF5]),
        "tokenizer.ggml.tokens[255]: found the added token '\u00f5' within '\u00f5\u00c1', "
        f"expected an added token that no spelling of bytes contains; {RECONVERT}",
    ),
    "a byte token missing": (
        vocabulary(SPECIAL, model="llama", scores=(0.0,) * 3),
        "tokenizer.ggml.tokens: found no token <0x00>, expected a token for each of 256 bytes; "
        f"{RECONVERT}",
    ),
    "too few scores": (
        vocabulary([*SPECIAL, *SPELLING], model="llama", scores=(0.0,)),
        f"tokenizer.ggml.scores: found 1 scores, expected 259, one per token; {RECONVERT}",
    ),
    "a token whose characters are none": (
        sentencepiece({"a": -1.0, "ab": -2.0}),
        "tokenizer.ggml.tokens[260]: found 'ab' without a token for 'b', "
        f"expected a token for each of its characters; {RECONVERT}",
    ),
}


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_vocabulary_that_cannot_be_converted_is_refused(fault: str) -> None:
    settings, sentence = REFUSALS[fault]
    assert refusal_of(settings) == sentence
