"""Token for token what llama.cpp gave, on a real model's vocabulary and for every rule.

The golden files come from llama.cpp itself: see `scripts/tokenizer-goldens`.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from ignition.preparation.splits import RULES, Alphabet
from ignition.preparation.tokenizer import TokenizerAsset, tokenizer_of
from ignition.weights.checkpoint import open_checkpoint
from preparation.vocabularies import byte_level, opened

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "build/weights/SmolLM2-135M-Instruct.Q4_1.gguf"
HERE = Path(__file__).parent
# Bytes that this vocabulary has no token for: they are dropped, so they do not come back.
WITHOUT_TOKEN = "\x04\x06\x13\x14\x16\x1d"


def document(name: str) -> dict[str, Any]:
    found = json.loads((HERE / name).read_text("utf-8"))
    assert isinstance(found, dict)
    return found


TOKENS = document("tokenizer_goldens.json")
PIECES = document("split_goldens.json")


@cache
def asset() -> TokenizerAsset:
    if not MODEL.is_file():
        pytest.fail(f"{MODEL} is missing: `make core` fetches it")
    assert hashlib.sha256(MODEL.read_bytes()).hexdigest() == TOKENS["model_sha256"]
    return tokenizer_of(open_checkpoint(MODEL))


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_buffer(asset().json)


@cache
def plain_tokenizer() -> Tokenizer:
    plain = Tokenizer.from_buffer(asset().json)
    plain.encode_special_tokens = True
    return plain


@pytest.mark.parametrize("case", TOKENS["cases"], ids=lambda case: case["text"][:16])
def test_tokens_are_those_of_llama_cpp(case: dict[str, Any]) -> None:
    assert tokenizer().encode(case["text"]).ids == case["ids"]
    assert plain_tokenizer().encode(case["text"]).ids == case["plain_ids"]


@pytest.mark.parametrize("case", TOKENS["cases"], ids=lambda case: case["text"][:16])
def test_tokens_decode_to_their_text(case: dict[str, Any]) -> None:
    text = case["text"]
    if any(byte in text.encode() for byte in (0xF1, 0xF2)):
        return  # what is left of such a character is no text
    kept = "".join(character for character in text if character not in WITHOUT_TOKEN)
    assert tokenizer().decode(case["ids"], skip_special_tokens=False) == kept
    assert tokenizer().decode(case["plain_ids"], skip_special_tokens=False) == kept


def test_plain_text_never_becomes_a_special_token() -> None:
    added = tokenizer().get_added_tokens_decoder()
    special = {index for index, token in added.items() if token.special}
    assert len(special) == 17
    for index in special:
        text = added[index].content
        assert tokenizer().encode(text).ids == [index]
        assert not special & set(plain_tokenizer().encode(f"x{text} {text}").ids)


def test_the_models_special_tokens_are_those_of_its_publisher() -> None:
    found = asset()
    assert (found.bos and found.bos.text) == "<|im_start|>"
    assert (found.eos and found.eos.text) == "<|im_end|>"
    assert (found.unk and found.unk.text) == "<|endoftext|>"
    assert found.eos_token_ids == (2, 0)
    assert not found.adds_bos
    assert found.template is not None
    assert found.template.startswith("{% for message in messages %}")


def test_every_rule_of_bytes_has_its_goldens() -> None:
    named = {names.split()[0] for names, rule in RULES if rule.alphabet is Alphabet.BYTES}
    assert set(PIECES["pieces"]) == named


@pytest.mark.parametrize("rule", PIECES["pieces"])
def test_text_is_cut_as_llama_cpp_cuts_it(rule: str) -> None:
    pre_tokenizer = opened(byte_level(pre=rule, bos_token_id=0)).pre_tokenizer
    for text, pieces in zip(PIECES["texts"], PIECES["pieces"][rule], strict=True):
        cut = pre_tokenizer.pre_tokenize_str(text)
        assert [text[start:end] for _, (start, end) in cut] == pieces
