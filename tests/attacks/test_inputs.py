"""Images, proposals and n-gram tables that disagree with the programs that take them."""

from __future__ import annotations

import pytest

from prepared.consistency import check_contract
from prepared.contract import (
    ElementType,
    EngramIdSource,
    ImageLayout,
    ProposalKind,
    TokenRange,
    ValueBinding,
    ValueSource,
)
from tests.treaty.frontends import TOKENS
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused
from tests.treaty.specimens import CONTRACTS, value

RANKED = "model.graphs[7]"
LEARNED = "model.graphs[6]"
DRAFTS = CONTRACTS["speculating"].model.graphs
TABLE = "model.engram_tables[0]"
LAYOUT = "model.frontend.image_layouts[0]"
DELTA = value("delta", ValueSource.POSITION_DELTA)
MASK = value("mask", ValueSource.GRAMMAR_MASK)


def without(source: ValueSource) -> tuple[ValueBinding, ...]:
    """The ranked program's values, one source left out."""
    return tuple(item for item in DRAFTS[7].values if item.source is not source)


IMAGES = [
    attack(
        "feature rows have no bytes",
        "seeing",
        {"model.vision.feature_row_bytes": 0},
        "contract.model.vision.feature_row_bytes: found 0, expected at least 1",
    ),
    attack(
        "features have no plane",
        "seeing",
        {"model.vision.feature_planes": 0},
        "contract.model.vision.feature_planes: found 0, expected at least 1",
    ),
    *(
        attack(
            f"positions have {axes} axes",
            "seeing",
            {"model.vision.position_axes": axes},
            f"contract.model.vision.position_axes: found {axes}, expected 1 or 3",
        )
        for axes in (0, 2, 4)
    ),
    attack(
        "a grid lies on one axis",
        "seeing",
        {"model.vision.position_axes": 1},
        f"contract.{LAYOUT}.layout: "
        "found GRID_POSITIONS, expected it only with three position axes",
    ),
    attack(
        "positions of text shift",
        "plain",
        {"model.graphs[4].values[3]": DELTA},
        "contract.model.graphs[4].values[3].source: "
        "found POSITION_DELTA, expected it only with three position axes",
    ),
    attack(
        "an atomic span is longer than a window",
        "seeing",
        {f"{LAYOUT}.longest_span": 65},
        f"contract.{LAYOUT}.longest_span: "
        "found 65, expected at most window_features, 64, when atomic",
        clauses=("FI-13",),
    ),
]

PROPOSALS = [
    *(
        attack(
            f"one program reserves other {stream} draws",
            "speculating",
            {f"{RANKED}.speculation.{stream}_draws_per_position": 7},
            f"contract.{RANKED}.speculation.{stream}_draws_per_position: "
            f"found 7, expected {draws}, as in every program (SG-25)",
        )
        for stream, draws in (("draft", 1), ("accept", 1), ("residual", 2))
    ),
    attack(
        "copied tokens go to a learned proposal",
        "speculating",
        {f"{RANKED}.speculation.proposals": ProposalKind.LEARNED},
        f"contract.{RANKED}.values[4].source: "
        "found COPIED_CANDIDATES, expected no copied input with LEARNED proposals",
    ),
    attack(
        "a grammar meets learned proposals",
        "speculating",
        {f"{LEARNED}.values": (*DRAFTS[6].values, MASK)},
        f"contract.{LEARNED}.values[5].source: "
        "found GRAMMAR_MASK, expected no grammar where every proposal is learned",
    ),
    *(
        attack(
            f"{kind.name} proposals without {source.name}",
            "speculating",
            {f"{RANKED}.speculation.proposals": kind, f"{RANKED}.values": without(source)},
            f"contract.{RANKED}.values: found no {source.name}, expected it with {kind.name}",
        )
        for kind in (ProposalKind.COPIED, ProposalKind.LEARNED_OR_COPIED)
        for source in (ValueSource.COPIED_CANDIDATES, ValueSource.COPIED_COUNT)
    ),
    attack(
        "copied proposals cannot be ranked",
        "speculating",
        {f"{RANKED}.values": without(ValueSource.COPIED_CONFIDENCE)},
        f"contract.{RANKED}.values: found no COPIED_CONFIDENCE, "
        "expected it where copied proposals are ranked by confidence",
    ),
]

TABLES = [
    attack(
        "two tables have one name",
        "engram",
        {"model.engram_tables": CONTRACTS["engram"].model.engram_tables * 2},
        "contract.model.engram_tables[1].name: found 'words', expected each name once",
    ),
    attack(
        "row ids are floats",
        "engram",
        {f"{TABLE}.row_id": ElementType.FLOAT32},
        f"contract.{TABLE}.row_id: found FLOAT32, expected INT32 or INT64",
    ),
    attack(
        "a rank has two shards",
        "engram",
        {f"{TABLE}.shards[1].rank": 0},
        f"contract.{TABLE}.shards[1].rank: found 0, expected each rank once",
    ),
    attack(
        "a shard has columns that no token has",
        "engram",
        {f"{TABLE}.shards[1].columns": 9},
        f"contract.{TABLE}.shards[1].columns: found 9, expected columns below 24",
    ),
    attack(
        "the host is to compute without a hash",
        "engram",
        {f"{TABLE}.ids": EngramIdSource.HOST_COMPUTED, f"{TABLE}.hash": None},
        f"contract.{TABLE}.hash: found nothing, expected a hash with HOST_COMPUTED",
    ),
    attack(
        "a column has no hash",
        "engram",
        {f"{TABLE}.columns_per_token": 25},
        f"contract.{TABLE}.hash.columns: found 24, expected 25 columns",
    ),
    attack(
        "an n-gram is longer than its multipliers",
        "engram",
        {f"{TABLE}.hash.columns[3].order": 5},
        f"contract.{TABLE}.hash.columns[3].order: "
        "found 5, expected at most 4: one multiplier a token",
    ),
    attack(
        "a column leaves the table",
        "engram",
        {f"{TABLE}.hash.columns[0].modulus": (1 << 20) + 1},
        f"contract.{TABLE}.hash.columns[0].modulus: found 1048577, expected rows below 1048576",
    ),
    attack(
        "the padding is no number",
        "engram",
        {f"{TABLE}.hash.padding": 64},
        f"contract.{TABLE}.hash.padding: found 64, expected below 64",
    ),
    attack(
        "ids without a map have no number",
        "engram",
        {f"{TABLE}.hash.token_map": None},
        f"contract.{TABLE}.hash.numbers: found 64, expected at least {TOKENS}, unmapped",
    ),
    attack(
        "a dead token is no token",
        "engram",
        {f"{TABLE}.hash.dead_tokens[0]": TokenRange(first=99, count=9)},
        f"contract.{TABLE}.hash.dead_tokens[0]: found 99 to 107, expected ids below {TOKENS}",
    ),
]


@pytest.mark.clause("OB-12")
@pytest.mark.parametrize(("name", "changes", "sentence"), [*IMAGES, *PROPOSALS, *TABLES])
def test_a_broken_input_is_refused(name: str, changes: dict[str, object], sentence: str) -> None:
    with refused(sentence):
        check_contract(put(CONTRACTS[name], changes))


SOUND = [
    attack("one axis and plain positions", "seeing", {"model.vision.position_axes": 1}, True),
    attack("three axes and a delta", "seeing", {"model.graphs[4].values[3]": DELTA}, False),
    attack(
        "a grammar where nothing is proposed",
        "speculating",
        {"model.graphs[5].values": (*DRAFTS[5].values, MASK)},
        False,
    ),
    attack(
        "a loose span longer than a window", "seeing", {f"{LAYOUT[:-3]}[1].longest_span": 99}, False
    ),
    attack("a device that knows its own hash", "engram", {f"{TABLE}.hash": None}, False),
    attack(
        "ids that are their own numbers",
        "engram",
        {f"{TABLE}.hash.token_map": None, f"{TABLE}.hash.numbers": 1000},
        False,
    ),
    attack(
        "copied proposals nobody ranks",
        "speculating",
        {
            f"{RANKED}.values": without(ValueSource.COPIED_CONFIDENCE),
            f"{RANKED}.speculation.confidence_width": 0,
            f"{RANKED}.speculation.confidence_buffer": None,
        },
        False,
    ),
]


@pytest.mark.parametrize(("name", "changes", "plain_positions"), SOUND)
def test_a_sound_input_is_accepted(
    name: str, changes: dict[str, object], plain_positions: bool
) -> None:
    contract = put(CONTRACTS[name], changes)
    if plain_positions:
        layouts = [f"model.frontend.image_layouts[{index}].layout" for index in (0, 1)]
        contract = put(contract, dict.fromkeys(layouts, ImageLayout.SEQUENTIAL_FEATURES))
    check_contract(contract)


@pytest.mark.clause("SM-12", "OB-17")
def test_what_an_older_contract_could_not_say_is_not_asked_of_it() -> None:
    contract = put(CONTRACTS["seeing"], {"model.version": 2, "model.vision.feature_row_bytes": 0})
    check_contract(contract)
