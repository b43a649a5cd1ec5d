"""Manifests that do not execute what their contract declares."""

from __future__ import annotations

import pytest

from prepared.agreement import check_agreement, check_manifest
from prepared.contract import ElementType, Operation
from prepared.fields import ContractError
from prepared.manifest import BufferRole, CompletionField, Program
from tests.treaty.carriers import COMPLETION_TOKENS, MANIFESTS
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused
from tests.treaty.specimens import CONTRACTS

EXTRA = Program(
    name="extra",
    operation=Operation.DECODE,
    batch_capacity=1,
    token_capacity=1,
    packed_token_capacity=1,
    draft_tokens=0,
    launches=(),
    tuned_buffers=(),
)


def buffer_at(specimen: str, name: str) -> str:
    """The path of a named buffer."""
    names = [item.name for item in MANIFESTS[specimen].buffers]
    return f"buffers[{names.index(name)}]"


def transport_at(specimen: str, name: str) -> str:
    """The path of a named transport."""
    names = [item.name for item in MANIFESTS[specimen].transports]
    return f"transports[{names.index(name)}]"


TOKENS = next(
    f"completion.slots[{i}]"
    for i, slot in enumerate(MANIFESTS["plain"].completion.slots)
    if slot.field is CompletionField.LANE_TOKENS
)

PROGRAMS = [
    attack(
        "a graph names no program",
        "plain",
        {"programs[4].name": "generate"},
        "c.graphs[4].name: found 'decode', expected a program of the manifest (HV-01)",
        clauses=("HV-01",),
    ),
    attack(
        "a graph names a tuning program",
        "plain",
        {
            "programs": MANIFESTS["plain"].programs[:4],
            "tuning": (*MANIFESTS["plain"].tuning, put(EXTRA, {"name": "decode"})),
        },
        "c.graphs[4].name: found 'decode', expected a program of the manifest (HV-01)",
        clauses=("HV-01", "HV-20"),
    ),
    attack(
        "a program is not declared",
        "plain",
        {"programs": (*MANIFESTS["plain"].programs, EXTRA)},
        "manifest.programs[5].name: found 'extra', expected a program that the contract declares",
    ),
    attack(
        "a program does something else",
        "plain",
        {"programs[4].operation": Operation.SPECULATIVE},
        "c.graphs[4].operation: found 6, expected the program's, 7",
        clauses=("HV-02",),
    ),
    attack(
        "a program holds fewer requests",
        "plain",
        {"programs[4].batch_capacity": 2},
        "c.graphs[4].batch_capacity: found 4, expected the program's, 2",
        clauses=("SG-07",),
    ),
    attack(
        "a program verifies fewer tokens",
        "speculating",
        {"programs[6].token_capacity": 3},
        "c.graphs[6].token_capacity: found 4, expected the program's, 3",
        clauses=("SG-09",),
    ),
    attack(
        "a program has fewer packed rows",
        "speculating",
        {"programs[7].packed_token_capacity": 9},
        "c.graphs[7].packed_token_capacity: found 10, expected the program's, 9",
        clauses=("SG-10",),
    ),
    attack(
        "a program draws fewer proposals",
        "speculating",
        {"programs[7].draft_tokens": 3},
        "c.graphs[7].speculation.draft_tokens: found 7, expected the program's, 3",
        clauses=("SG-08", "SG-11"),
    ),
    attack(
        "an ordinary program draws proposals",
        "plain",
        {"programs[4].draft_tokens": 1},
        "c.graphs[4].speculation.draft_tokens: found 0, expected the program's, 1",
        clauses=("SG-08",),
    ),
    attack(
        "a tuned buffer is not bound",
        "plain",
        {"programs[4].tuned_buffers": ("tiles",)},
        "c.graphs[4].tuned_bindings: found [], expected ['tiles'] (HV-19)",
        clauses=("HV-19",),
    ),
    attack(
        "a bound buffer is not tuned",
        "plain",
        {"programs[1].tuned_buffers": ()},
        "c.graphs[1].tuned_bindings: found ['tiles'], expected [] (HV-19)",
        clauses=("HV-18", "HV-19"),
    ),
    attack(
        "a producer is not in the tuning catalog",
        "plain",
        {"tuning[0].name": "tune_shapes"},
        "c.graphs[1].tuned_bindings[0].producer: "
        "found 'tune_tiles', expected a tuning program that fills 'tiles'",
        clauses=("HV-19", "HV-20"),
    ),
    attack(
        "a producer fills something else",
        "plain",
        {"tuning[0].tuned_buffers": ()},
        "c.graphs[1].tuned_bindings[0].producer: "
        "found 'tune_tiles', expected a tuning program that fills 'tiles'",
        clauses=("HV-18", "HV-19"),
    ),
    attack(
        "a record has too few rows",
        "plain",
        {"completion.rows": 3},
        "c.graphs[0].batch_capacity: found 4, expected at most the completion's 3 rows",
    ),
    attack(
        "a record has too few tokens",
        "speculating",
        {f"{TOKENS}.row_elements": COMPLETION_TOKENS - 1},
        "c.graphs[7].speculation.draft_tokens: "
        "found 7, expected at most 6: the completion holds 7 tokens",
    ),
]

RECORDS = [
    attack(
        "a record has no tokens at all",
        "plain",
        {
            "completion.slots": tuple(
                slot
                for slot in MANIFESTS["plain"].completion.slots
                if slot.field is not CompletionField.LANE_TOKENS
            )
        },
        "c.graphs[0].speculation.draft_tokens: "
        "found 0, expected at most -1: the completion holds 0 tokens",
    ),
    attack(
        "a record is empty",
        "plain",
        {"completion.slots": ()},
        "c.graphs[0].speculation.draft_tokens: "
        "found 0, expected at most -1: the completion holds 0 tokens",
    ),
]

STORAGE = [
    attack(
        "a destination is not registered",
        "plain",
        {f"{transport_at('plain', 'samples')}.name": "choices"},
        "c.graphs[1].values[3].destination: found 'samples', expected a registered transport",
        clauses=("HV-03",),
    ),
    attack(
        "a page table has no destination",
        "speculating",
        {f"{transport_at('speculating', 'draft_table')}.name": "x"},
        "c.cache.page_tables[1].destination: "
        "found 'draft_table', expected a transport of 64 INT32 a row",
        clauses=("AH-06",),
    ),
    attack(
        "a page table has shorter rows",
        "plain",
        {f"{transport_at('plain', 'page_table')}.row_elements": 32},
        "c.cache.page_tables[0].destination: "
        "found 'page_table', expected a transport of 64 INT32 a row",
        clauses=("AH-06",),
    ),
    attack(
        "a page table has other elements",
        "plain",
        {f"{transport_at('plain', 'page_table')}.element": ElementType.UINT32},
        "c.cache.page_tables[0].destination: "
        "found 'page_table', expected a transport of 64 INT32 a row",
        clauses=("AH-06",),
    ),
    attack(
        "a plane has no buffer",
        "plain",
        {f"{buffer_at('plain', 'values')}.name": "x"},
        "c.cache.histories[0].planes[1].buffer: found 'values', expected a CACHE_PLANE buffer",
        clauses=("AH-03",),
    ),
    attack(
        "a plane is scratch",
        "plain",
        {f"{buffer_at('plain', 'keys')}.role": BufferRole.SCRATCH},
        "c.cache.histories[0].planes[0].buffer: found 'keys', expected a CACHE_PLANE buffer",
        clauses=("AH-03",),
    ),
    attack(
        "a plane is shorter than its pages",
        "plain",
        {f"{buffer_at('plain', 'keys')}.nbytes": 1023},
        "c.cache.histories[0].planes[0].buffer: found 1023 bytes, expected at least 1024",
        clauses=("AH-03",),
    ),
    attack(
        "a live row has no buffer",
        "hybrid",
        {f"{buffer_at('hybrid', 'rows')}.role": BufferRole.SNAPSHOT},
        "c.cache.histories[3].row_buffer: found 'rows', expected a STATE buffer",
        clauses=("AH-05",),
    ),
    attack(
        "a snapshot row is shorter than its fields",
        "hybrid",
        {f"{buffer_at('hybrid', 'saved_rows')}.nbytes": 351},
        "c.cache.histories[3].snapshot_buffer: found 351 bytes, expected at least 352",
        clauses=("AH-05",),
    ),
    attack(
        "a state has no buffer",
        "plain",
        {f"{buffer_at('plain', 'tokens')}.name": "x"},
        "c.states[0].buffer: found 'tokens', expected a STATE buffer",
        clauses=("HV-28",),
    ),
    attack(
        "a state is staged",
        "plain",
        {f"{buffer_at('plain', 'tokens')}.role": BufferRole.STAGING},
        "c.states[0].buffer: found 'tokens', expected a STATE buffer",
        clauses=("HV-28",),
    ),
    attack(
        "a state is shorter than its stride",
        "plain",
        {f"{buffer_at('plain', 'tokens')}.nbytes": 63},
        "c.states[0].buffer: found 63 bytes, expected at least 64",
        clauses=("HV-28",),
    ),
]


@pytest.mark.clause("OB-12", "OB-16")
@pytest.mark.parametrize(("name", "changes", "sentence"), [*PROGRAMS, *RECORDS, *STORAGE])
def test_a_manifest_that_does_something_else_is_refused(
    name: str, changes: dict[str, object], sentence: str
) -> None:
    with refused(sentence):
        check_agreement(CONTRACTS[name].model, put(MANIFESTS[name], changes), at="c")


def test_rows_without_fields_need_any_buffer_at_all() -> None:
    contract = put(CONTRACTS["hybrid"], {"model.cache.histories[3].fields": ()})
    manifest = put(MANIFESTS["hybrid"], {f"{buffer_at('hybrid', 'rows')}.nbytes": 1})
    check_agreement(contract.model, manifest, at="c")


def test_rows_that_only_live_need_no_snapshot() -> None:
    contract = put(CONTRACTS["hybrid"], {"model.cache.histories[3].snapshot_buffer": None})
    check_agreement(contract.model, MANIFESTS["hybrid"], at="c")


def test_one_token_a_record_is_enough_for_ordinary_decode() -> None:
    manifest = put(MANIFESTS["plain"], {f"{TOKENS}.row_elements": 1})
    check_agreement(CONTRACTS["plain"].model, manifest, at="c")


@pytest.mark.clause("OB-02")
def test_two_destinations_may_take_one_source() -> None:
    values = CONTRACTS["plain"].model.graphs[4].values
    twice = put(values[0], {"destination": "samples_too"})
    contract = put(CONTRACTS["plain"], {"model.graphs[4].values": (*values, twice)})
    manifest = put(MANIFESTS["plain"], {f"{transport_at('plain', 'targets')}.name": "samples_too"})
    scored = tuple(v for v in contract.model.graphs[2].values if v.destination != "targets")
    check_agreement(put(contract, {"model.graphs[2].values": scored}).model, manifest, at="c")


@pytest.mark.parametrize("name", CONTRACTS)
def test_what_agrees_is_accepted(name: str) -> None:
    check_manifest(MANIFESTS[name], at="m")
    check_agreement(CONTRACTS[name].model, MANIFESTS[name], at="c")


SCORED = [
    (
        CompletionField.TOKEN_LOGPROB,
        "SCORED_TARGET_TOKENS",
        "a completion that has TOKEN_LOGPROB",
    ),
    (
        CompletionField.TOKEN_TOP_IDS,
        "SCORED_TARGET_TOKENS",
        "a completion that has TOKEN_TOP_IDS",
    ),
]


@pytest.mark.clause("AH-13")
@pytest.mark.parametrize(("field", "source", "expected"), SCORED)
def test_a_scored_prefill_needs_a_record_of_its_scores(
    field: CompletionField, source: str, expected: str
) -> None:
    manifest = MANIFESTS["plain"]
    slots = tuple(slot for slot in manifest.completion.slots if slot.field is not field)
    with pytest.raises(ContractError) as refusal:
        check_agreement(
            CONTRACTS["plain"].model, put(manifest, {"completion.slots": slots}), at="c"
        )
    assert source in str(refusal.value)
    assert expected in str(refusal.value)


@pytest.mark.clause("AH-13")
def test_a_record_holds_every_token_that_a_scored_prefill_scores() -> None:
    manifest = put(MANIFESTS["plain"], {"completion.token_rows": 1})
    with pytest.raises(ContractError, match="at most the completion's 1 token rows"):
        check_agreement(CONTRACTS["plain"].model, manifest, at="c")
