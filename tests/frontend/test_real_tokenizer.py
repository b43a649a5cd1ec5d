"""Grammars over the tokenizer of the core that the tests prepare."""

from __future__ import annotations

import json

import pytest

from helios.artifact.core_file import open_core
from helios.frontend.grammar.constraint import Constraint
from helios.frontend.grammar.matcher import GrammarTokenizer, Matcher
from helios.frontend.text import Tokenizer
from helios.options import home_folder
from helios.values import StartRefused
from prepared.trust import read_trust
from tests.end_to_end.model import CORE


def test_the_cores_tokenizer_writes_documents_under_masks_of_the_contracts_width() -> None:
    assert CORE.exists(), f"{CORE} is missing: run `make core`"
    core = open_core(CORE, read_trust(home_folder() / "trust.json"), acceptance=None)
    model = core.deployment.contract.model
    data = core.asset(model.frontend.tokenizer_asset)
    grammars = GrammarTokenizer(
        data,
        tokens=model.vocabulary.tokens,
        mask_words=model.vocabulary.mask_words,
        eos_ids=model.frontend.eos_token_ids,
        markers=(),
    )
    schema = '{"type": "object", "properties": {"é": {"type": "string"}}, "required": ["é"]}'
    made = grammars.compile(Constraint(grammar=f"start: %json {schema}\n")).result()
    assert isinstance(made, Matcher)
    ids = Tokenizer(data).encode('{"é": "a 🙂 b"}')
    for token in ids:
        (row,) = grammars.fill([made]).result().rows
        assert isinstance(row, bytes)
        assert len(row) == 4 * model.vocabulary.mask_words
        assert row[token // 8] >> token % 8 & 1
        assert made.advance(token) is None
    assert made.finished
    (row,) = grammars.fill([made]).result().rows
    assert isinstance(row, bytes)
    allowed = {index for index in range(8 * len(row)) if row[index // 8] >> index % 8 & 1}
    assert allowed == set(model.frontend.eos_token_ids)
    grammars.close()


def test_a_tokenizer_whose_bytes_cannot_be_told_is_refused_by_name() -> None:
    data = json.dumps(
        {
            "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
        }
    ).encode()  # fmt: skip
    with pytest.raises(StartRefused, match="tokenizer: found what grammars cannot use"):
        GrammarTokenizer(data, tokens=8, mask_words=1, eos_ids=(0,), markers=())
