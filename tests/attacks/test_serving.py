"""Contracts whose extents, vocabularies, states or capacities disagree."""

from __future__ import annotations

import pytest

from prepared.consistency import check_contract
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused
from tests.treaty.specimens import CONTRACTS

ATTACKS = [
    attack(
        "an alias is the identifier",
        "plain",
        {"aliases": ("plain", "acme/plain")},
        "contract.aliases: found 'acme/plain', expected each name once",
    ),
    attack(
        "an alias stands twice",
        "plain",
        {"aliases": ("plain", "plain")},
        "contract.aliases: found 'plain', expected each name once",
    ),
    attack(
        "one prefill is longer than the context",
        "plain",
        {"prefill_tokens": 1025},
        "contract.prefill_tokens: found 1025, expected at most context_tokens, 1024",
        clauses=("OB-12",),
    ),
    attack(
        "speculative widths descend",
        "speculating",
        {"speculative_widths": (4, 1)},
        "contract.speculative_widths: found [4, 1], expected ascending widths",
    ),
    attack(
        "a speculative width stands twice",
        "speculating",
        {"speculative_widths": (1, 4, 4)},
        "contract.speculative_widths: found [1, 4, 4], expected ascending widths",
    ),
    attack(
        "the default output is longer than the context",
        "plain",
        {"defaults.output_tokens": 1025},
        "contract.defaults.output_tokens: found 1025, expected at most context_tokens, 1024",
        clauses=("OB-12",),
    ),
    attack(
        "the histogram is narrower than the vocabulary",
        "plain",
        {"model.vocabulary.histogram_width": 99},
        "contract.model.vocabulary.histogram_width: found 99, expected at least 100",
        clauses=("SM-13", "OB-12"),
    ),
    attack(
        "the mask is narrower than the vocabulary",
        "plain",
        {"model.vocabulary.mask_words": 3},
        "contract.model.vocabulary.mask_words: found 3, expected at least 4",
        clauses=("SM-13", "OB-12"),
    ),
    attack(
        "one id has no bit in the mask",
        "plain",
        {"model.vocabulary.tokens": 97, "model.vocabulary.mask_words": 3},
        "contract.model.vocabulary.mask_words: found 3, expected at least 4",
        clauses=("SM-13", "OB-12"),
    ),
    attack(
        "fewer ids are read than sampled",
        "plain",
        {"model.input_vocabulary.tokens": 99},
        "contract.model.input_vocabulary.tokens: "
        "found 99, expected at least vocabulary.tokens, 100",
        clauses=("SM-14", "OB-12"),
    ),
    attack(
        "a sentinel can be sampled",
        "seeing",
        {"model.input_vocabulary.sentinels[0].first": 99},
        "contract.model.input_vocabulary.sentinels[0]: "
        "found 99 to 102, expected ids from 100 to 103",
        clauses=("SM-14", "OB-12"),
    ),
    attack(
        "a sentinel cannot be read",
        "seeing",
        {"model.input_vocabulary.sentinels[0].count": 5},
        "contract.model.input_vocabulary.sentinels[0]: "
        "found 100 to 104, expected ids from 100 to 103",
        clauses=("SM-14", "OB-12"),
    ),
    attack(
        "two states have one name",
        "plain",
        {"model.states": CONTRACTS["plain"].model.states * 2},
        "contract.model.states: found 'pending', expected each name once",
    ),
    attack(
        "a state view leaves its row",
        "plain",
        {"model.states[0].offset": 61},
        "contract.model.states[0].nbytes: found 4, expected a view within its row of 64 bytes",
        clauses=("HV-28", "OB-12"),
    ),
    attack(
        "two graphs have one name",
        "plain",
        {"model.graphs[0].name": "decode"},
        "contract.model.graphs: found 'decode', expected each name once",
        clauses=("HV-01",),
    ),
    attack(
        "patch capacities descend",
        "seeing",
        {"model.vision.patch_capacities": (1024, 256)},
        "contract.model.vision.patch_capacities: found [1024, 256], expected ascending capacities",
        clauses=("SM-15",),
    ),
]


@pytest.mark.parametrize(("name", "changes", "sentence"), ATTACKS)
def test_a_broken_contract_is_refused(name: str, changes: dict[str, object], sentence: str) -> None:
    with refused(sentence):
        check_contract(put(CONTRACTS[name], changes))


EDGES = [
    attack("a prefill as long as the context", "plain", {"prefill_tokens": 1024}),
    attack("an output as long as the context", "plain", {"defaults.output_tokens": 1024}),
    attack(
        "a histogram as wide as the vocabulary", "plain", {"model.vocabulary.histogram_width": 100}
    ),
    attack(
        "a mask of whole words",
        "plain",
        {"model.vocabulary.tokens": 128, "model.input_vocabulary.tokens": 128},
    ),
    attack("a state that fills its row", "plain", {"model.states[0].offset": 60}),
    attack("one width", "speculating", {"speculative_widths": (4,)}),
]


@pytest.mark.parametrize(("name", "changes"), EDGES)
def test_the_edge_itself_is_accepted(name: str, changes: dict[str, object]) -> None:
    check_contract(put(CONTRACTS[name], changes))


def test_the_path_begins_where_the_caller_says() -> None:
    broken = put(CONTRACTS["plain"], {"prefill_tokens": 1025})
    with refused(
        "deployments[1].contract.prefill_tokens: found 1025, expected at most context_tokens, 1024"
    ):
        check_contract(broken, at="deployments[1].contract")
