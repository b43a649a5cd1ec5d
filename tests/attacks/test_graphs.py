"""Programs whose capacities, values, states, pending tokens or speculation disagree.

Graphs of the specimens, by index: `plain` 0 initialize, 1 prefill, 2 scored, 3 resume,
4 decode; `speculating` continues with 5 width one, 6 rectangular, 7 ranked, 8 mixed,
9 mixed speculative; `hybrid` 0 initialize, 1 restore, 2 prefill, 3 decode, 4 publish.
Values begin with 0 slot, 1 live rows, 2 page table.
"""

from __future__ import annotations

import pytest

from prepared.consistency import check_contract
from prepared.contract import (
    Access,
    Indexing,
    Operation,
    PendingToken,
    RejectionRule,
    ResourceDependency,
    StateAccess,
    ValueSource,
)
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused
from tests.treaty.specimens import CEILING, CONTRACTS, LENGTH, PREFILL_ROW, SAMPLES, SLOT

GRAPHS = [f"model.graphs[{index}]" for index in range(10)]
PLAIN = CONTRACTS["plain"].model.graphs
DRAFTS = CONTRACTS["speculating"].model.graphs

EXTENTS = [
    attack(
        "fewer packed rows than requests",
        "plain",
        {f"{GRAPHS[1]}.packed_token_capacity": 3},
        f"contract.{GRAPHS[1]}.packed_token_capacity: found 3, expected 4 to 128",
        clauses=("SG-10", "OB-12"),
    ),
    attack(
        "more packed rows than requests could fill",
        "plain",
        {f"{GRAPHS[1]}.packed_token_capacity": 129},
        f"contract.{GRAPHS[1]}.packed_token_capacity: found 129, expected 4 to 128",
        clauses=("SG-10", "OB-12"),
    ),
    attack(
        "decode takes two tokens",
        "plain",
        {f"{GRAPHS[4]}.token_capacity": 2},
        f"contract.{GRAPHS[4]}.token_capacity: found 2, expected 1 (SG-03)",
        clauses=("SG-03", "OB-12"),
    ),
]

VALUES = [
    attack(
        "a page table is not numbered",
        "plain",
        {f"{GRAPHS[4]}.values[2].page_table": None},
        f"contract.{GRAPHS[4]}.values[2].page_table: found None, expected a value with PAGE_TABLE",
    ),
    attack(
        "a slot has a constant",
        "plain",
        {f"{GRAPHS[4]}.values[0].constant": 0},
        f"contract.{GRAPHS[4]}.values[0].constant: found 0, expected nothing with SLOT",
    ),
    attack(
        "a constant has no value",
        "plain",
        {f"{GRAPHS[3]}.values[4].constant": None},
        f"contract.{GRAPHS[3]}.values[4].constant: found None, expected a value with CONSTANT",
    ),
    attack(
        "an image tensor has no name",
        "seeing",
        {f"{GRAPHS[5]}.values[3].image_tensor": None},
        f"contract.{GRAPHS[5]}.values[3].image_tensor: "
        "found None, expected a value with IMAGE_TENSOR",
    ),
    attack(
        "row ids are of no table",
        "engram",
        {f"{GRAPHS[4]}.values[4].engram_table": None},
        f"contract.{GRAPHS[4]}.values[4].engram_table: "
        "found None, expected a value with ENGRAM_ROW_IDS",
    ),
    attack(
        "submission rows are not padded",
        "plain",
        {f"{GRAPHS[1]}.values[5].padding": None},
        f"contract.{GRAPHS[1]}.values[5].padding: found None, expected a value with SUBMISSION_ROW",
        clauses=("HV-13",),
    ),
    attack(
        "active rows are padded",
        "plain",
        {f"{GRAPHS[4]}.values[0].padding": 0},
        f"contract.{GRAPHS[4]}.values[0].padding: found 0, expected nothing with ACTIVE_ROW",
        clauses=("HV-13",),
    ),
    attack(
        "padding has no value",
        "plain",
        {
            f"{GRAPHS[0]}.values[19].padding": None,
            f"{GRAPHS[0]}.values[19].indexing": Indexing.ACTIVE_ROW,
        },
        f"contract.{GRAPHS[0]}.values[19].padding: "
        "found None, expected a value with INACTIVE_PADDING",
    ),
    attack(
        "a page table is not there",
        "plain",
        {f"{GRAPHS[4]}.values[2].page_table": 1},
        f"contract.{GRAPHS[4]}.values[2].page_table: found 1, expected an index below 1",
    ),
    attack(
        "an n-gram table is not there",
        "engram",
        {f"{GRAPHS[4]}.values[4].engram_table": 1},
        f"contract.{GRAPHS[4]}.values[4].engram_table: found 1, expected an index below 1",
    ),
    attack(
        "two values go to one place",
        "plain",
        {f"{GRAPHS[4]}.values": (*PLAIN[4].values, SLOT)},
        f"contract.{GRAPHS[4]}.values: found 'slot', expected each name once",
    ),
    attack(
        "a mixed program has no prefill row",
        "speculating",
        {f"{GRAPHS[8]}.values": tuple(v for v in DRAFTS[8].values if v != PREFILL_ROW)},
        f"contract.{GRAPHS[8]}.values: found no mixed prefill row, expected the opposite for MIXED",
    ),
    attack(
        "an ordinary program has a prefill row",
        "plain",
        {f"{GRAPHS[4]}.values": (*PLAIN[4].values, PREFILL_ROW)},
        f"contract.{GRAPHS[4]}.values: found a mixed prefill row, expected the opposite for DECODE",
    ),
]

STATES = [
    attack(
        "a state is accessed twice",
        "plain",
        {f"{GRAPHS[4]}.states": PLAIN[4].states * 2},
        f"contract.{GRAPHS[4]}.states: found 'pending', expected each name once",
    ),
    attack(
        "a state is not declared",
        "plain",
        {f"{GRAPHS[4]}.states": (*PLAIN[4].states, StateAccess(state="x", access=Access.READ))},
        f"contract.{GRAPHS[4]}.states[1].state: found 'x', expected a declared state",
        clauses=("HV-29",),
    ),
    attack(
        "a history is not declared",
        "plain",
        {f"{GRAPHS[4]}.resources": (ResourceDependency(history="x", access=Access.READ),)},
        f"contract.{GRAPHS[4]}.resources[0].history: found 'x', expected a declared history",
        clauses=("SM-17",),
    ),
    attack(
        "decode consumes nothing",
        "plain",
        {f"{GRAPHS[4]}.pending_token": None},
        f"contract.{GRAPHS[4]}.pending_token: found nothing, expected the opposite for DECODE",
        clauses=("HV-30", "HV-32"),
    ),
    attack(
        "prefill consumes a pending token",
        "plain",
        {f"{GRAPHS[1]}.pending_token": PLAIN[4].pending_token},
        f"contract.{GRAPHS[1]}.pending_token: found an origin, expected the opposite for PREFILL",
    ),
    attack(
        "resume takes its token from the device",
        "plain",
        {f"{GRAPHS[3]}.pending_token": PLAIN[4].pending_token},
        f"contract.{GRAPHS[3]}.pending_token.state: "
        "found 'pending', expected a destination for RESUME: its token comes from the host (HV-32)",
        clauses=("HV-32",),
    ),
    attack(
        "a pending token has two origins",
        "plain",
        {f"{GRAPHS[4]}.pending_token": PendingToken(state="pending", destination="slot")},
        f"contract.{GRAPHS[4]}.pending_token: "
        "found both or neither of state and destination, expected exactly one",
        clauses=("HV-32",),
    ),
    attack(
        "a pending token has no origin",
        "plain",
        {f"{GRAPHS[4]}.pending_token": PendingToken(state=None, destination=None)},
        f"contract.{GRAPHS[4]}.pending_token: "
        "found both or neither of state and destination, expected exactly one",
        clauses=("HV-30", "HV-32"),
    ),
    attack(
        "a pending token's state is only written",
        "plain",
        {f"{GRAPHS[4]}.states[0].access": Access.WRITE},
        f"contract.{GRAPHS[4]}.pending_token.state: "
        "found 'pending', expected a state that the program reads",
        clauses=("HV-30",),
    ),
    attack(
        "a fed pending token is bound to nothing",
        "hybrid",
        {f"{GRAPHS[3]}.pending_token.destination": "x"},
        f"contract.{GRAPHS[3]}.pending_token.destination: "
        "found 'x', expected one of the program's values",
        clauses=("HV-32",),
    ),
    *(
        attack(
            f"{PLAIN[index].name} does not write the pending token",
            "plain",
            {f"{GRAPHS[index]}.states": states},
            f"contract.{GRAPHS[index]}.states: found no write of 'pending', "
            "expected a write of every pending token that the program produces",
            clauses=("HV-31",),
        )
        for index, states in (
            (1, ()),
            (2, ()),
            (3, ()),
            (4, (StateAccess(state="pending", access=Access.READ),)),
        )
    ),
    *(
        attack(
            f"{DRAFTS[index].name} does not write the pending token",
            "speculating",
            {f"{GRAPHS[index]}.states[0].access": Access.READ},
            f"contract.{GRAPHS[index]}.states: found no write of 'pending', "
            "expected a write of every pending token that the program produces",
            clauses=("HV-31",),
        )
        for index in (5, 6, 7, 8, 9)
    ),
    attack(
        "a sampling initialization does not write the pending token",
        "plain",
        {f"{GRAPHS[0]}.values": (*PLAIN[0].values, SAMPLES)},
        f"contract.{GRAPHS[0]}.states: found no write of 'pending', "
        "expected a write of every pending token that the program produces",
        clauses=("HV-31",),
    ),
]

SPECULATION = [
    attack(
        "a speculative program has no length",
        "speculating",
        {f"{GRAPHS[6]}.values": tuple(v for v in DRAFTS[6].values if v != LENGTH)},
        f"contract.{GRAPHS[6]}.values: found 0 length sources, "
        "expected exactly one of QUERY_LENGTH and SPECULATIVE_PREFIX_LIMIT",
        clauses=("SG-14",),
    ),
    attack(
        "a speculative program has lengths and ceilings",
        "speculating",
        {f"{GRAPHS[9]}.values": (*DRAFTS[9].values, CEILING)},
        f"contract.{GRAPHS[9]}.values: found 2 length sources, "
        "expected exactly one of QUERY_LENGTH and SPECULATIVE_PREFIX_LIMIT",
        clauses=("SG-14",),
    ),
    attack(
        "decode has ceilings",
        "plain",
        {f"{GRAPHS[4]}.values": (*PLAIN[4].values, CEILING)},
        f"contract.{GRAPHS[4]}.values: found SPECULATIVE_PREFIX_LIMIT, "
        "expected it only in a speculative program",
    ),
    attack(
        "a speculative program has no extents",
        "speculating",
        {f"{GRAPHS[6]}.speculation": None},
        f"contract.{GRAPHS[6]}.speculation: found nothing, expected the opposite for SPECULATIVE",
        clauses=("SG-08",),
    ),
    attack(
        "decode has speculative extents",
        "speculating",
        {f"{GRAPHS[4]}.speculation": DRAFTS[6].speculation},
        f"contract.{GRAPHS[4]}.speculation: found extents, expected the opposite for DECODE",
        clauses=("SG-03",),
    ),
    attack(
        "width one draws proposals",
        "speculating",
        {f"{GRAPHS[5]}.speculation.draft_tokens": 1},
        f"contract.{GRAPHS[5]}.speculation.draft_tokens: found 1, expected 0 at width one (SG-04)",
        clauses=("SG-04",),
    ),
    attack(
        "confidence is narrower than the drafts",
        "speculating",
        {f"{GRAPHS[7]}.speculation.confidence_width": 3},
        f"contract.{GRAPHS[7]}.speculation.confidence_width: "
        "found 3, expected 0 or draft_tokens, 7 (SG-26)",
        clauses=("SG-26",),
    ),
    attack(
        "confidence has no buffer",
        "speculating",
        {f"{GRAPHS[7]}.speculation.confidence_buffer": None},
        f"contract.{GRAPHS[7]}.speculation.confidence_buffer: "
        "found None, expected a buffer exactly when there is confidence",
    ),
    attack(
        "a confidence buffer has no confidence",
        "speculating",
        {f"{GRAPHS[6]}.speculation.confidence_buffer": "confidence"},
        f"contract.{GRAPHS[6]}.speculation.confidence_buffer: "
        "found confidence, expected a buffer exactly when there is confidence",
    ),
    attack(
        "proposals are rejected by blocks",
        "speculating",
        {f"{GRAPHS[6]}.speculation.rejection": RejectionRule.BLOCK},
        f"contract.{GRAPHS[6]}.speculation.rejection: found BLOCK, expected a rule that runs",
    ),
    attack(
        "proposals form a tree",
        "speculating",
        {f"{GRAPHS[6]}.speculation.parent_table": "parents"},
        f"contract.{GRAPHS[6]}.speculation.parent_table: found a table, expected nothing: no trees",
    ),
]


@pytest.mark.parametrize(
    ("name", "changes", "sentence"), [*EXTENTS, *VALUES, *STATES, *SPECULATION]
)
def test_a_broken_program_is_refused(name: str, changes: dict[str, object], sentence: str) -> None:
    with refused(sentence):
        check_contract(put(CONTRACTS[name], changes))


@pytest.mark.clause("SG-02")
def test_proposing_and_verifying_are_no_operations() -> None:
    assert {operation.name for operation in Operation if "PROPOS" in operation.name} == set()
    assert {operation.name for operation in Operation if "VERIF" in operation.name} == set()


@pytest.mark.clause("SG-11", "SG-26")
@pytest.mark.parametrize(("drafts", "tokens"), [(3, 4), (7, 4), (1, 4), (0, 4), (0, 1)])
def test_the_drafts_are_not_inferred_from_the_width(drafts: int, tokens: int) -> None:
    extents = {
        f"{GRAPHS[7]}.token_capacity": tokens,
        f"{GRAPHS[7]}.packed_token_capacity": 4 * tokens,
        f"{GRAPHS[7]}.speculation.draft_tokens": drafts,
        f"{GRAPHS[7]}.speculation.confidence_width": drafts,
        f"{GRAPHS[7]}.speculation.confidence_buffer": "confidence" if drafts else None,
    }
    check_contract(put(CONTRACTS["speculating"], extents))


@pytest.mark.clause("SG-17")
def test_ceilings_may_sum_to_more_than_the_packed_rows() -> None:
    ranked = CONTRACTS["speculating"].model.graphs[7]
    assert [v.source for v in ranked.values][-1] is ValueSource.SPECULATIVE_PREFIX_LIMIT
    assert ranked.batch_capacity * ranked.token_capacity > ranked.packed_token_capacity
    check_contract(CONTRACTS["speculating"])


@pytest.mark.clause("HV-15")
@pytest.mark.parametrize(("offset", "padding"), [(5, 0), (0, 5), (-5, -1), (-1, 1 << 40)])
def test_offset_and_padding_are_independent(offset: int, padding: int) -> None:
    changes = {f"{GRAPHS[1]}.values[5].offset": offset, f"{GRAPHS[1]}.values[5].padding": padding}
    check_contract(put(CONTRACTS["plain"], changes))


@pytest.mark.clause("HV-12")
@pytest.mark.parametrize("indexing", list(Indexing))
def test_indexing_is_said_and_free_of_the_source(indexing: Indexing) -> None:
    changes = {
        f"{GRAPHS[4]}.values[3].indexing": indexing,
        f"{GRAPHS[4]}.values[3].padding": 0 if indexing is Indexing.SUBMISSION_ROW else None,
    }
    check_contract(put(CONTRACTS["plain"], changes))
