"""Packing writes the right cells, and no others: each source, counted in each way it may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from helios.execute.pack import FILLS
from helios.values import StartRefused
from prepared.contract import ElementType, Indexing, PageBase, ValueSource, Vision
from prepared.manifest import Delivery
from tests.execute.binding import LANES, ROWS, SENTINEL, TOKENS, Bound, bound

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
    ValueSource.RESTORE_SOURCE: (6, -1, -1),
    ValueSource.RESTORE_PAGE: (-1, -1, 17),
    ValueSource.SNAPSHOT_DESTINATION: (87, 81, 84),
    ValueSource.COMPLETED_PENDING_TOKEN: (97, 91, 94),
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
    ValueSource.LOGPROB_COUNT: (5, -1, 0),
    ValueSource.POSITION_DELTA: (-2, 0, 0),
    ValueSource.CONSTANT: (66, 66, 66),
}
"""One number a lane, for the three lanes of the submission."""

PACKED: Final[Mapping[ValueSource, Sequence[int]]] = {
    ValueSource.PROMPT_TOKENS: (21, 22, 23, 31, 51, 52),
    ValueSource.PROMPT_POSITIONS: (8, 9, 10, 0, 4, 5),
    ValueSource.SCORED_TARGET_TOKENS: (22, 23, -1, -1, 52, 60),
    ValueSource.IMAGE_FEATURE_INDICES: (-1, 0, 1, -1, -1, -1),
    ValueSource.IMAGE_CONTEXT_INDICES: (1, 2, -1, -1, -1, -1),
    ValueSource.IMAGE_TOKEN_MASK: (0, 1, 1, 0, 0, 0),
    ValueSource.CONSTANT: (66,) * 6,
}
SCALARS: Final[Mapping[ValueSource, int]] = {
    ValueSource.LIVE_ROWS: 3,
    ValueSource.MIXED_PREFILL_ROW: 2,
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
        ValueSource.LOGIT_BIAS_IDS,
        ValueSource.LOGIT_BIAS_VALUES,
        ValueSource.GRAMMAR_MASK,
        ValueSource.INACTIVE_PADDING,
        ValueSource.IMAGE_TENSOR,
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


@pytest.mark.clause("HV-08")
def test_biased_tokens_are_ended_by_none_and_nothing_else_of_their_rows_is_written() -> None:
    ids = bound(ValueSource.LOGIT_BIAS_IDS, PHYSICAL)
    ids.pack(*LANES)
    written: Cells = {(5, 0): 7, (5, 1): 9, (5, 2): -1, (0, 0): -1, (3, 0): 1, (3, 1): -1}
    assert bytes(ids.memory()) == ids.expected(written)
    values = bound(ValueSource.LOGIT_BIAS_VALUES, PHYSICAL)
    values.pack(*LANES)
    gains: Cells = {(5, 0): 1.5, (5, 1): -2.0, (3, 0): 0.25}
    assert bytes(values.memory()) == values.expected(gains)


def test_as_many_biases_as_a_row_has_room_for_need_no_end() -> None:
    assert LANES[0].admission is not None
    bias = tuple((token, 1.0) for token in range(301))
    lane = replace(LANES[0], admission=replace(LANES[0].admission, logit_bias=bias))
    case = bound(ValueSource.LOGIT_BIAS_IDS, PHYSICAL)
    case.pack(lane)
    assert bytes(case.memory()) == case.expected({(5, token): token for token in range(301)})


@pytest.mark.clause("HV-08")
def test_a_slot_that_changes_hands_allows_everything_unless_it_has_a_mask() -> None:
    case = bound(ValueSource.GRAMMAR_MASK, PHYSICAL)
    case.pack(*LANES)
    ones: Cells = {(slot, word): 0xFFFFFFFF for slot in (5, 3) for word in range(4)}
    mask = {(0, word): int.from_bytes(range(4 * word, 4 * word + 4), "little") for word in range(4)}
    assert bytes(case.memory()) == case.expected(ones | mask)


@pytest.mark.clause("HV-16")
def test_a_lane_without_a_new_mask_keeps_the_one_it_has() -> None:
    case = bound(ValueSource.GRAMMAR_MASK, PHYSICAL)
    case.pack(replace(LANES[0], admission=None))
    assert bytes(case.memory()) == case.expected({})


@pytest.mark.clause("HV-10", "HV-13")
def test_inactive_rows_hold_the_declared_padding() -> None:
    case = bound(ValueSource.INACTIVE_PADDING, SUBMISSION)
    case.pack(*LANES)
    padded = case.expected({(row, 0): 77 for row in range(3, ROWS)})
    start = case.transport.offset + 3 * case.transport.row_stride
    assert bytes(case.memory())[start:] == padded[start:]


@pytest.mark.clause("HV-14")
def test_a_row_whose_token_is_on_the_device_has_its_place_among_the_packed_ones() -> None:
    case = bound(ValueSource.PROMPT_TOKENS, Indexing.PACKED_TOKEN)
    decoding = replace(LANES[0], tokens=(), endpoint=LANES[0].start + 1)
    case.pack(decoding, LANES[2], decoding)
    assert bytes(case.memory()) == case.expected(
        {(row, 0): token for row, token in enumerate((-1, 51, 52, -1))}
    )


@pytest.mark.clause("AH-14", "HV-07")
def test_a_snapshot_s_own_endpoint_is_sent_whatever_its_lane_has_consumed_since() -> None:
    case = bound(ValueSource.CONSUMED_ENDPOINT, ACTIVE)
    assert LANES[0].snapshot is not None
    case.pack(replace(LANES[0], snapshot=replace(LANES[0].snapshot, tokens=6)))
    assert bytes(case.memory()) == case.expected({(0, 0): 6})


# -------------------------------------------------------------------- images

EYES: Final = Vision(
    feature_slots=1,
    window_features=TOKENS,
    patches_per_feature=4,
    patch_capacities=(4,),
    feature_row_bytes=4,
    feature_planes=1,
    position_axes=3,
)
AXES: Final[Mapping[str, object]] = {"row_elements": 3, "row_stride": 12}


def three(*rows: Sequence[int]) -> Cells:
    """Cells of rows of three numbers."""
    return {
        (row, axis): value for row, values in enumerate(rows) for axis, value in enumerate(values)
    }


@pytest.mark.clause("FI-14", "HV-06")
def test_positions_over_a_grid_are_those_of_the_rows_that_are_fed() -> None:
    case = bound(
        ValueSource.PROMPT_POSITIONS,
        Indexing.PACKED_TOKEN,
        destination=AXES,
        model={"vision": EYES},
    )
    case.pack(*LANES)
    image = [(place, 100 + place, 200 + place) for place in (8, 9, 10)]
    assert bytes(case.memory()) == case.expected(three(*image, (0,) * 3, (4,) * 3, (5,) * 3))


@pytest.mark.clause("FI-14", "HV-06")
def test_positions_behind_the_prompt_go_on_from_the_delta() -> None:
    case = bound(
        ValueSource.PROMPT_POSITIONS,
        Indexing.PACKED_TOKEN,
        destination=AXES,
        model={"vision": EYES},
    )
    case.pack(replace(LANES[0], start=14, endpoint=17))
    assert bytes(case.memory()) == case.expected(three((14, 114, 214), (13,) * 3, (14,) * 3))


@pytest.mark.clause("FI-14")
def test_rows_behind_the_prompt_are_text() -> None:
    case = bound(ValueSource.IMAGE_FEATURE_INDICES, Indexing.PACKED_TOKEN)
    case.pack(replace(LANES[0], start=12, endpoint=17))
    features = (3, -1, -1, -1, -1)
    assert bytes(case.memory()) == case.expected({(row, 0): f for row, f in enumerate(features)})


@pytest.mark.clause("HV-24")
def test_positions_of_one_axis_fail_the_start_where_the_model_has_three() -> None:
    case = bound(ValueSource.PROMPT_POSITIONS, Indexing.PACKED_TOKEN, model={"vision": EYES})
    with pytest.raises(StartRefused) as refusal:
        case.packing()
    assert str(refusal.value).endswith("rows of 1, expected 3 for PROMPT_POSITIONS")


@pytest.mark.clause("FI-14", "HV-11")
@pytest.mark.parametrize("apart", [4, 12])
def test_a_named_tensor_of_the_picture_that_a_program_looks_at_fills_its_rows(apart: int) -> None:
    case = bound(
        ValueSource.IMAGE_TENSOR, Indexing.SCALAR, destination={"rows": 5, "row_stride": apart}
    )
    case.pack(replace(LANES[0], picture=1))
    assert bytes(case.memory()) == case.expected({(0, 0): 7, (1, 0): 8, (2, 0): 9})


@pytest.mark.clause("HV-24", "OB-12")
def test_a_tensor_that_no_layout_makes_or_of_another_type_fails_the_start() -> None:
    unknown = bound(ValueSource.IMAGE_TENSOR, Indexing.SCALAR, value={"image_tensor": "smell"})
    with pytest.raises(StartRefused, match="image_tensor: found 'smell', expected one of"):
        unknown.packing()
    pixels = bound(ValueSource.IMAGE_TENSOR, Indexing.SCALAR, value={"image_tensor": "pixels"})
    with pytest.raises(StartRefused, match="destination: found INT32, expected one of"):
        pixels.packing()


def test_a_sentinel_that_stands_for_an_image_is_not_counted() -> None:
    case = bound(ValueSource.PROMPT_HISTOGRAM, PHYSICAL)
    assert LANES[0].admission is not None
    sentinel = replace(LANES[0], admission=replace(LANES[0].admission, seen=(128, 9, 500)))
    case.pack(sentinel)
    counted: Cells = {(5, token): 0 for token in range(128)}
    assert bytes(case.memory()) == case.expected(counted | {(5, 9): 1})


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
    ValueSource.IMAGE_FEATURE_SLOT: "vision programs",
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
        bound(ValueSource.LOGIT_BIAS_IDS, PHYSICAL, destination={"row_elements": 299}),
        "destination: rows of 299, expected 300 for LOGIT_BIAS_IDS",
        id="fewer_biases_than_clients_may_send",
    ),
    pytest.param(
        bound(ValueSource.GRAMMAR_MASK, PHYSICAL, destination={"row_elements": 3}),
        "destination: rows of 3, expected 4 for GRAMMAR_MASK",
        id="a_mask_that_is_too_narrow",
    ),
    pytest.param(
        bound(ValueSource.GRAMMAR_MASK, PHYSICAL, value={"offset": 1}),
        "offset: found 1, expected 0 for GRAMMAR_MASK",
        id="a_mask_that_is_shifted",
    ),
    pytest.param(
        bound(ValueSource.LOGPROB_COUNT, ACTIVE, destination={"element": ElementType.UINT32}),
        "destination: found UINT32, expected one of ['INT32', 'INT64'] for LOGPROB_COUNT",
        id="no_log_probability_to_unsigned",
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
