"""Packing writes the right cells, and no others: each source, counted in each way it may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from helios.execute.pack import FILLS
from helios.values import StartRefused
from prepared.contract import ElementType, Indexing, PageBase, ValueSource
from prepared.manifest import Delivery
from tests.execute.binding import LANES, ROWS, SENTINEL, Bound, bound

SUBMISSION, ACTIVE, PHYSICAL = (
    Indexing.SUBMISSION_ROW,
    Indexing.ACTIVE_ROW,
    Indexing.PHYSICAL_ROW,
)
PER_LANE: Final = (SUBMISSION, ACTIVE, PHYSICAL)

VALUES: Final[Mapping[ValueSource, Sequence[float]]] = {
    ValueSource.SLOT: (5, 0, 3),
    ValueSource.GENERATION: (7, 1, 4),
    ValueSource.QUERY_LENGTH: (3, 1, 2),
    ValueSource.SAMPLING_DECISION: (1, 0, 1),
    ValueSource.LIVE_STATE_ROW: (5, 0, 3),
    ValueSource.CONSUMED_ENDPOINT: (8, 0, 4),
    ValueSource.SEED_BITS: ((1 << 63) + 1, 2, 3),
    ValueSource.TEMPERATURE: (1.5, 2.5, 3.5),
    ValueSource.TOP_P: (0.25, 0.25, 0.25),
    ValueSource.TOP_K: (11, 12, 13),
    ValueSource.MIN_P: (0.125, 0.125, 0.125),
    ValueSource.REPETITION_PENALTY: (1.5, 1.25, 1.0),
    ValueSource.PRESENCE_PENALTY: (0.5, 0.25, 0.0),
    ValueSource.FREQUENCY_PENALTY: (-0.5, -0.25, 0.0),
    ValueSource.OUTPUT_LIMIT: (21, 22, 23),
    ValueSource.MINIMUM_OUTPUT: (31, 32, 33),
    ValueSource.CONSTANT: (66, 66, 66),
}
"""One number a lane, for the three lanes of the submission."""

PACKED: Final[Mapping[ValueSource, Sequence[int]]] = {
    ValueSource.PROMPT_TOKENS: (21, 22, 23, 31, 51, 52),
    ValueSource.PROMPT_POSITIONS: (8, 9, 10, 0, 4, 5),
    ValueSource.CONSTANT: (66,) * 6,
}
SCALARS: Final[Mapping[ValueSource, int]] = {
    ValueSource.LIVE_ROWS: 3,
    ValueSource.CONSTANT: 66,
}

Cells = dict[tuple[int, int], float]


def cells_of(source: ValueSource, indexing: Indexing) -> Cells:
    """Row and place of every number that the submission's three lanes send."""
    match indexing:
        case Indexing.SCALAR:
            return {(0, 0): SCALARS[source]}
        case Indexing.PACKED_TOKEN:
            return {(row, 0): value for row, value in enumerate(PACKED[source])}
        case Indexing.PHYSICAL_ROW:
            return {
                (lane.slot, 0): value for lane, value in zip(LANES, VALUES[source], strict=True)
            }
        case Indexing.ACTIVE_ROW:
            return {(row, 0): value for row, value in enumerate(VALUES[source])}
        case Indexing.SUBMISSION_ROW:
            return cells_of(source, ACTIVE) | {(row, 0): 77 for row in range(3, ROWS)}


SPECIAL: Final = frozenset(
    {
        ValueSource.EOS_IDS,
        ValueSource.PAGE_TABLE,
        ValueSource.PROMPT_HISTOGRAM,
        ValueSource.INACTIVE_PADDING,
    }
)
"""Sources with more than one number a row, or none of a lane's: a test each, below."""

ORDINARY: Final = [
    pytest.param(source, indexing, id=f"{source.name}-{indexing.name}")
    for source, (_, indexings) in sorted(FILLS.items())
    for indexing in sorted(indexings)
    if source not in SPECIAL
]


@pytest.mark.clause("HV-12", "HV-13", "HV-14")
@pytest.mark.parametrize(("source", "indexing"), ORDINARY)
def test_a_source_fills_its_cells_and_touches_nothing_else(
    source: ValueSource, indexing: Indexing
) -> None:
    case = bound(source, indexing)
    case.pack(*LANES)
    assert bytes(case.memory()) == case.expected(cells_of(source, indexing))


@pytest.mark.clause("HV-15")
@pytest.mark.parametrize(("source", "indexing"), ORDINARY)
def test_a_declared_offset_is_added_to_integers_and_not_to_padding(
    source: ValueSource, indexing: Indexing
) -> None:
    case = bound(source, indexing, value={"offset": 100 if source != ValueSource.SEED_BITS else 3})
    if case.transport.element is ElementType.FLOAT32:
        with pytest.raises(StartRefused) as refusal:
            case.packing()
        expected = f"graphs[0].values[0].offset: found 100, expected 0 for {source.name}"
        assert str(refusal.value) == expected
        return
    case.pack(*LANES)
    added = {
        cell: value
        if cell[0] >= len(LANES) and indexing is SUBMISSION
        else value + case.value.offset
        for cell, value in cells_of(source, indexing).items()
    }
    assert bytes(case.memory()) == case.expected(added)


def test_every_way_of_counting_is_tried_somewhere() -> None:
    tried = {indexing for _, indexings in FILLS.values() for indexing in indexings}
    assert tried == set(Indexing)
    assert set(VALUES) | set(PACKED) | set(SCALARS) | SPECIAL == set(FILLS)


# ----------------------------------------------------------- special sources


def test_end_tokens_fill_their_row_and_the_rest_of_it_names_none() -> None:
    case = bound(ValueSource.EOS_IDS, ACTIVE)
    case.pack(*LANES)
    rows = ((2, 7, -1), (-1, -1, -1), (5, -1, -1))
    assert bytes(case.memory()) == case.expected(
        {(row, place): token for row, ids in enumerate(rows) for place, token in enumerate(ids)}
    )


@pytest.mark.clause("HV-25")
def test_only_new_page_table_entries_are_written() -> None:
    case = bound(ValueSource.PAGE_TABLE, PHYSICAL)
    case.pack(*LANES)
    assert bytes(case.memory()) == case.expected({(5, 2): 40, (0, 0): 9, (0, 1): 4})


@pytest.mark.clause("HV-15")
def test_an_offset_of_a_page_table_is_added_to_its_pages() -> None:
    case = bound(ValueSource.PAGE_TABLE, PHYSICAL, value={"offset": 100})
    case.pack(*LANES)
    assert bytes(case.memory()) == case.expected({(5, 2): 140, (0, 0): 109, (0, 1): 104})


@pytest.mark.clause("HV-25", "HV-08")
def test_a_histogram_counts_what_was_seen_where_somebody_penalises_it() -> None:
    case = bound(ValueSource.PROMPT_HISTOGRAM, PHYSICAL)
    case.pack(*LANES)  # the third lane penalises nothing
    counted: Cells = {(slot, token): 0 for slot in (5, 0) for token in range(128)}
    assert bytes(case.memory()) == case.expected(counted | {(5, 9): 2, (5, 3): 1})


def test_a_count_stops_at_what_its_cell_holds() -> None:
    case = bound(ValueSource.PROMPT_HISTOGRAM, PHYSICAL)
    assert LANES[0].admission is not None
    often = replace(LANES[0], admission=replace(LANES[0].admission, seen=(9,) * 70_000))
    case.pack(often)
    counted: Cells = {(5, token): 0 for token in range(128)}
    assert bytes(case.memory()) == case.expected(counted | {(5, 9): 65_535})


@pytest.mark.clause("HV-10", "HV-13")
def test_inactive_rows_hold_the_declared_padding() -> None:
    case = bound(ValueSource.INACTIVE_PADDING, SUBMISSION)
    case.pack(*LANES)
    padded = case.expected({(row, 0): 77 for row in range(3, ROWS)})
    start = case.transport.offset + 3 * case.transport.row_stride
    assert bytes(case.memory())[start:] == padded[start:]


# ----------------------------------------------------------- frames and rounds


@pytest.mark.parametrize("frame", [0, 1])
def test_a_frame_is_packed_without_touching_the_other(frame: int) -> None:
    case = bound(ValueSource.SLOT, ACTIVE)
    case.pack(*LANES, frame=frame)
    written = case.expected(cells_of(ValueSource.SLOT, ACTIVE))
    assert bytes(case.memory(frame=frame)) == written
    assert set(case.memory(frame=1 - frame)) == {SENTINEL}


@pytest.mark.clause("HV-13", "HV-16")
def test_rows_that_are_no_longer_active_keep_what_they_had() -> None:
    case = bound(ValueSource.SLOT, ACTIVE)
    case.pack(*LANES)
    case.pack(LANES[2])
    assert bytes(case.memory()) == case.expected({(0, 0): 3, (1, 0): 0, (2, 0): 3})


@pytest.mark.clause("HV-13")
def test_rows_that_are_no_longer_submitted_are_padded_again() -> None:
    case = bound(ValueSource.SLOT, SUBMISSION)
    case.pack(*LANES)
    case.pack(LANES[2])
    padded: Cells = {(row, 0): 77 for row in range(1, ROWS)}
    assert bytes(case.memory()) == case.expected(padded | {(0, 0): 3})


@pytest.mark.clause("HV-14")
def test_packed_tokens_of_a_shorter_round_leave_the_rest_alone() -> None:
    case = bound(ValueSource.PROMPT_TOKENS, Indexing.PACKED_TOKEN)
    case.pack(*LANES)
    case.pack(LANES[1])
    left = (31, 22, 23, 31, 51, 52)
    assert bytes(case.memory()) == case.expected({(row, 0): t for row, t in enumerate(left)})


@pytest.mark.clause("OB-02")
def test_one_source_may_fill_several_destinations() -> None:
    case = bound(ValueSource.SLOT, ACTIVE)
    second = replace(case.transport, name="copy", offset=512)
    case.device.execution = replace(case.device.execution, transports=(case.transport, second))
    values = (case.value, replace(case.value, destination="copy", offset=50))
    both = dataclasses.replace(case, graph=replace(case.graph, values=values))
    both.pack(*LANES)
    copied = dataclasses.replace(case, transport=second).expected(
        {(0, 0): 55, (1, 0): 50, (2, 0): 53}
    )
    written = bytes(both.memory())
    assert written[:512] == case.expected(cells_of(ValueSource.SLOT, ACTIVE))[:512]
    assert written[512:] == copied[512:]


# ------------------------------------------------------------------- refusals

NOT_YET: Final[Mapping[ValueSource, str]] = {
    ValueSource.SPECULATIVE_PREFIX_LIMIT: "speculation",
    ValueSource.COPIED_CANDIDATES: "speculation",
    ValueSource.COPIED_COUNT: "speculation",
    ValueSource.COPIED_GENERATION: "speculation",
    ValueSource.COPIED_ENDPOINT: "speculation",
    ValueSource.COPIED_GRAMMAR_MASKS: "speculation",
    ValueSource.COPIED_CONFIDENCE: "speculation",
    ValueSource.MIXED_PREFILL_ROW: "mixed programs",
    ValueSource.SCORED_TARGET_TOKENS: "scored prefill",
    ValueSource.COMPLETED_PENDING_TOKEN: "host-fed pending tokens",
    ValueSource.IMAGE_FEATURE_INDICES: "images",
    ValueSource.IMAGE_CONTEXT_INDICES: "images",
    ValueSource.IMAGE_FEATURE_SLOT: "images",
    ValueSource.POSITION_DELTA: "images",
    ValueSource.IMAGE_TOKEN_MASK: "images",
    ValueSource.IMAGE_TENSOR: "images",
    ValueSource.RESTORE_SOURCE: "snapshots",
    ValueSource.SNAPSHOT_DESTINATION: "snapshots",
    ValueSource.LOGIT_BIAS_IDS: "logit bias",
    ValueSource.LOGIT_BIAS_VALUES: "logit bias",
    ValueSource.GRAMMAR_MASK: "grammars",
    ValueSource.LOGPROB_COUNT: "log-probabilities",
    ValueSource.ENGRAM_ROW_IDS: "n-gram tables",
}
"""Sources without a fill, and the feature that will bring it: whoever adds one, deletes a line."""


def test_every_source_is_filled_or_is_known_not_to_be() -> None:
    assert set(FILLS) | set(NOT_YET) == set(ValueSource)
    assert set(FILLS).isdisjoint(NOT_YET)


@pytest.mark.clause("HV-24", "OB-12")
@pytest.mark.parametrize("source", NOT_YET, ids=lambda source: source.name)
def test_a_source_without_a_fill_fails_the_start(source: ValueSource) -> None:
    with pytest.raises(StartRefused) as refusal:
        bound(source, ACTIVE).packing()
    assert str(refusal.value) == f"graphs[0].values[0].source: {source.name} cannot be supplied"


@pytest.mark.clause("HV-24", "OB-12")
@pytest.mark.parametrize(
    ("source", "indexing"),
    [
        pytest.param(source, indexing, id=f"{source.name}-{indexing.name}")
        for source, (_, indexings) in FILLS.items()
        for indexing in Indexing
        if indexing not in indexings
    ],
)
def test_a_source_that_cannot_be_counted_so_fails_the_start(
    source: ValueSource, indexing: Indexing
) -> None:
    with pytest.raises(StartRefused) as refusal:
        bound(source, indexing).packing()
    allowed = sorted(way.name for way in FILLS[source][1])
    assert str(refusal.value) == (
        f"graphs[0].values[0].indexing: found {indexing.name}, "
        f"expected one of {allowed} for {source.name}"
    )


REFUSALS = [
    pytest.param(
        bound(ValueSource.SLOT, ACTIVE, destination={"element": ElementType.FLOAT16}),
        "destination: found FLOAT16, expected one of ['INT32', 'INT64', 'UINT32', 'UINT64'] "
        "for SLOT",
        id="a_type_that_the_host_cannot_write",
    ),
    pytest.param(
        bound(ValueSource.TEMPERATURE, ACTIVE, destination={"element": ElementType.INT32}),
        "destination: found INT32, expected one of ['FLOAT32'] for TEMPERATURE",
        id="a_fraction_to_integers",
    ),
    pytest.param(
        bound(ValueSource.SEED_BITS, ACTIVE, destination={"element": ElementType.UINT32}),
        "destination: found UINT32, expected one of ['UINT64'] for SEED_BITS",
        id="a_seed_to_half_its_bits",
    ),
    pytest.param(
        bound(ValueSource.EOS_IDS, ACTIVE, destination={"element": ElementType.UINT32}),
        "destination: found UINT32, expected one of ['INT32', 'INT64'] for EOS_IDS",
        id="no_end_token_to_unsigned",
    ),
    pytest.param(
        bound(ValueSource.EOS_IDS, ACTIVE, destination={"row_elements": 1}),
        "destination: rows of 1, expected 2 for EOS_IDS",
        id="fewer_end_tokens_than_the_model_has",
    ),
    pytest.param(
        bound(ValueSource.EOS_IDS, ACTIVE, value={"offset": 1}),
        "offset: found 1, expected 0 for EOS_IDS",
        id="end_tokens_that_are_shifted",
    ),
    pytest.param(
        bound(ValueSource.SLOT, ACTIVE, destination={"row_elements": 2}),
        "destination: rows of 2, expected 1 for SLOT",
        id="rows_of_two_numbers",
    ),
    pytest.param(
        bound(ValueSource.PAGE_TABLE, PHYSICAL, destination={"row_elements": 15}),
        "destination: rows of 15, expected 16 for PAGE_TABLE",
        id="a_page_table_that_is_too_short",
    ),
    pytest.param(
        bound(ValueSource.PROMPT_HISTOGRAM, PHYSICAL, destination={"row_elements": 100}),
        "destination: rows of 100, expected 128 for PROMPT_HISTOGRAM",
        id="a_histogram_that_is_too_narrow",
    ),
    pytest.param(
        bound(ValueSource.SLOT, ACTIVE, destination={"rows": ROWS - 1}),
        "destination: found 3 rows, expected 4 for initialize_6",
        id="fewer_rows_than_the_program",
    ),
    pytest.param(
        bound(ValueSource.PROMPT_TOKENS, Indexing.PACKED_TOKEN, destination={"rows": 11}),
        "destination: found 11 rows, expected 12 for initialize_6",
        id="fewer_tokens_than_the_program",
    ),
    pytest.param(
        bound(ValueSource.PROMPT_TOKENS, Indexing.PACKED_TOKEN, destination={"row_stride": 8}),
        "destination: rows 8 bytes apart, expected 4",
        id="tokens_apart",
    ),
    pytest.param(
        bound(ValueSource.SLOT, ACTIVE, destination={"row_stride": 6}),
        "destination: rows 6 bytes apart, expected a multiple of 4",
        id="rows_between_numbers",
    ),
    pytest.param(
        bound(ValueSource.SLOT, SUBMISSION, value={"padding": 1 << 31}),
        "padding: found 2147483648, expected a number of INT32",
        id="padding_that_does_not_fit",
    ),
    pytest.param(
        bound(ValueSource.CONSTANT, ACTIVE, value={"constant": (1 << 31) - 1, "offset": 1}),
        "constant: found 2147483648, expected a number of INT32",
        id="a_constant_that_does_not_fit_with_its_offset",
    ),
    pytest.param(
        bound(
            ValueSource.CONSTANT,
            ACTIVE,
            value={"constant": -1},
            destination={"element": ElementType.UINT8},
        ),
        "constant: found -1, expected a number of UINT8",
        id="a_negative_constant_to_unsigned",
    ),
]


@pytest.mark.clause("HV-24", "OB-12")
@pytest.mark.parametrize(("case", "sentence"), REFUSALS)
def test_a_destination_that_cannot_take_its_source_fails_the_start(
    case: Bound, sentence: str
) -> None:
    with pytest.raises(StartRefused) as refusal:
        case.packing()
    assert str(refusal.value) == f"graphs[0].values[0].{sentence}"


@pytest.mark.clause("HV-12", "OB-12")
@pytest.mark.parametrize(
    ("indexing", "delivery"), [(ACTIVE, Delivery.RESIDENT), (PHYSICAL, Delivery.STAGED)]
)
def test_physical_rows_are_resident_and_nothing_else_is(
    indexing: Indexing, delivery: Delivery
) -> None:
    with pytest.raises(StartRefused) as refusal:
        bound(ValueSource.SLOT, indexing, destination={"delivery": delivery}).packing()
    assert str(refusal.value) == (
        f"graphs[0].values[0].indexing: found {indexing.name} for a {delivery.name} destination; "
        "physical rows are resident and nothing else is"
    )


@pytest.mark.clause("AH-06")
@pytest.mark.parametrize(
    "shift", [{"page_offset": 1}, {"base": PageBase.PAGE_BASE_WINDOW}], ids=["offset", "window"]
)
def test_a_page_table_that_does_not_begin_at_its_first_page_fails_the_start(
    shift: dict[str, object],
) -> None:
    cache = bound(ValueSource.PAGE_TABLE, PHYSICAL).model.cache
    view = replace(cache.page_tables[0], **shift)  # type: ignore[arg-type]
    case = bound(
        ValueSource.PAGE_TABLE,
        PHYSICAL,
        model={"cache": replace(cache, page_tables=(view,))},
    )
    with pytest.raises(StartRefused) as refusal:
        case.packing()
    sentence = "graphs[0].values[0].page_table: a shifted page table cannot be supplied"
    assert str(refusal.value) == sentence
