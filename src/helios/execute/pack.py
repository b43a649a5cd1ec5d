"""Host values into staging: the table of value sources, resolved once at start (HV-24).

A binding names a destination, a source and an indexing.  At start each becomes a fill over
typed views of the very bytes that programs read; a round then only runs its fills.  A source
or an indexing that cannot be filled fails the start by name.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from helios.device.api import Device
from helios.execute.destinations import (
    Destination,
    cells_of,
    check_destination,
    destination_of,
    put_packed,
)
from helios.execute.images import (
    IMAGE_TOKENS,
    delta_of,
    fill_contexts,
    fill_positions,
    fill_tensor,
)
from helios.rounds import (
    NO_TARGET,
    Admission,
    FromPage,
    FromSnapshot,
    LaneWork,
    Submission,
)
from helios.values import StartRefused
from prepared.contract import (
    ElementType,
    GraphContract,
    Indexing,
    ModelContract,
    ValueBinding,
    ValueSource,
)

NO_EOS: Final = -1
NOWHERE: Final = -1
ON_DEVICE: Final = -1  # stands for a row's token where only the device knows it
NO_BIAS: Final = -1
NO_LOGPROB: Final = -1

Fill = Callable[[Destination, Submission], None]

Number = int | float


def put_rows(to: Destination, values: Iterable[Number]) -> int:
    """One value a row, from the first; returns how many."""
    cells, step, offset, count = to.cells, to.row_cells, to.binding.offset, 0
    for value in values:
        cells[count * step] = value + offset
        count += 1
    return count


def put_lanes(to: Destination, submission: Submission, values: Iterable[Number]) -> None:
    """One value a lane, as the binding counts rows (HV-12, HV-13)."""
    if to.binding.indexing is Indexing.PHYSICAL_ROW:
        for lane, value in zip(submission.lanes, values, strict=True):
            to.cells[lane.slot * to.row_cells] = value + to.binding.offset
        return
    count = put_rows(to, values)
    if to.binding.indexing is Indexing.SUBMISSION_ROW:
        pad_rows(to, first=count)


def pad_rows(to: Destination, *, first: int) -> None:
    """Rows from `first` on hold the padding, which no offset changes (HV-15)."""
    assert to.binding.padding is not None
    for row in range(first, to.rows):
        to.cells[row * to.row_cells] = to.binding.padding


def admission_of(lane: LaneWork) -> Admission:
    """What the slot takes over; only admitting programs bind admission values."""
    assert lane.admission is not None
    return lane.admission


def restored_row(lane: LaneWork) -> int:
    """The continuation row that a partial page comes back from, or none."""
    return lane.restore.row if isinstance(lane.restore, FromSnapshot) else NOWHERE


def restored_page(lane: LaneWork) -> int:
    """The page whose leading records are copied, or none."""
    return lane.restore.page if isinstance(lane.restore, FromPage) else NOWHERE


def snapshot_row(lane: LaneWork) -> int:
    """The continuation row that a partial page goes to."""
    assert lane.snapshot is not None
    return lane.snapshot.row


def consumed_endpoint(lane: LaneWork) -> int:
    """Tokens of the history that the program is about."""
    return lane.start if lane.snapshot is None else lane.snapshot.tokens


def pending_token(lane: LaneWork) -> int:
    """The token that the host makes pending."""
    assert lane.pending is not None
    return lane.pending


def mixed_row(submission: Submission) -> int:
    """The lane that prefills."""
    assert submission.mixed_row is not None
    return submission.mixed_row


def row_tokens(lane: LaneWork) -> Sequence[int]:
    """A token for each of the lane's rows (HV-14): rows that decode have theirs on the device."""
    return lane.tokens or (ON_DEVICE,) * lane.rows


def logprob_count(logprobs: int | None) -> int:
    """Alternatives to report; -1 asks for no log-probability at all."""
    return NO_LOGPROB if logprobs is None else logprobs


def targets_of(lane: LaneWork) -> Sequence[int]:
    """What each row is scored against."""
    return lane.targets or [NO_TARGET] * lane.rows


SCALARS: Final[Mapping[ValueSource, Callable[[Submission], int]]] = {
    ValueSource.LIVE_ROWS: lambda submission: len(submission.lanes),
    ValueSource.MIXED_PREFILL_ROW: mixed_row,
}

LANES: Final[Mapping[ValueSource, Callable[[LaneWork], Number]]] = {
    ValueSource.SLOT: lambda lane: lane.slot,
    ValueSource.GENERATION: lambda lane: lane.generation,
    ValueSource.QUERY_LENGTH: lambda lane: lane.endpoint - lane.start,
    ValueSource.SAMPLING_DECISION: lambda lane: int(lane.samples),
    ValueSource.LIVE_STATE_ROW: lambda lane: lane.slot,
    ValueSource.CONSUMED_ENDPOINT: consumed_endpoint,
    ValueSource.RESTORE_SOURCE: restored_row,
    ValueSource.RESTORE_PAGE: restored_page,
    ValueSource.SNAPSHOT_DESTINATION: snapshot_row,
    ValueSource.COMPLETED_PENDING_TOKEN: pending_token,
    ValueSource.SEED_BITS: lambda lane: admission_of(lane).sampling.seed,
    ValueSource.TEMPERATURE: lambda lane: admission_of(lane).sampling.temperature,
    ValueSource.TOP_P: lambda lane: admission_of(lane).sampling.top_p,
    ValueSource.TOP_K: lambda lane: admission_of(lane).sampling.top_k,
    ValueSource.MIN_P: lambda lane: admission_of(lane).sampling.min_p,
    ValueSource.REPETITION_PENALTY: lambda lane: admission_of(lane).sampling.repetition_penalty,
    ValueSource.PRESENCE_PENALTY: lambda lane: admission_of(lane).sampling.presence_penalty,
    ValueSource.FREQUENCY_PENALTY: lambda lane: admission_of(lane).sampling.frequency_penalty,
    ValueSource.OUTPUT_LIMIT: lambda lane: admission_of(lane).output_limit,
    ValueSource.MINIMUM_OUTPUT: lambda lane: admission_of(lane).minimum_output,
    ValueSource.LOGPROB_COUNT: lambda lane: logprob_count(admission_of(lane).logprobs),
    ValueSource.POSITION_DELTA: delta_of,
}

TOKENS: Final[Mapping[ValueSource, Callable[[LaneWork], Sequence[int]]]] = {
    ValueSource.PROMPT_TOKENS: row_tokens,
    ValueSource.SCORED_TARGET_TOKENS: targets_of,
    **IMAGE_TOKENS,
}


def fill_eos(to: Destination, submission: Submission) -> None:
    """End-of-sequence ids, the rest of the row -1."""
    for row, lane in enumerate(submission.lanes):
        ids = admission_of(lane).eos_ids
        start = row * to.row_cells
        for place in range(to.row_elements):
            to.cells[start + place] = ids[place] if place < len(ids) else NO_EOS


def fill_pages(to: Destination, submission: Submission) -> None:
    """Only entries that are new since the lane's last submission (HV-25)."""
    for lane in submission.lanes:
        start = lane.slot * to.row_cells
        for entry in lane.new_pages:
            to.cells[start + entry.index] = entry.page + to.binding.offset


def fill_histogram(to: Destination, submission: Submission) -> None:
    """How often each token was seen, once, at admission; nobody reads it without penalties."""
    for lane in submission.lanes:
        admission = admission_of(lane)
        if not admission.sampling.penalises:
            continue
        start = lane.slot * to.row_cells
        row = to.cells[start : start + to.row_elements]
        row[:] = cells_of(memoryview(bytes(row.nbytes)), ElementType.UINT16)
        for token in admission.seen:
            if token < to.row_elements:  # an image's sentinels are never sampled
                row[token] += row[token] < MOST_COUNT


def fill_bias_ids(to: Destination, submission: Submission) -> None:
    """Biased tokens, ended by -1; nobody reads further."""
    for lane in submission.lanes:
        bias, start = admission_of(lane).logit_bias, lane.slot * to.row_cells
        assert len(bias) <= to.row_elements, "the front bounds biases"
        for place, (token, _) in enumerate(bias):
            to.cells[start + place] = token
        if len(bias) < to.row_elements:
            to.cells[start + len(bias)] = NO_BIAS


def fill_bias_values(to: Destination, submission: Submission) -> None:
    """What each biased token's logit gains."""
    for lane in submission.lanes:
        start = lane.slot * to.row_cells
        for place, (_, value) in enumerate(admission_of(lane).logit_bias):
            to.cells[start + place] = value


def fill_mask(to: Destination, submission: Submission) -> None:
    """The mask of a constrained lane; a slot that changes hands allows everything."""
    for lane in submission.lanes:
        if lane.mask is None and lane.admission is None:
            continue
        start = lane.slot * to.row_cells
        row = to.cells[start : start + to.row_elements].cast("B")
        row[:] = b"\xff" * row.nbytes if lane.mask is None else lane.mask


MOST_COUNT: Final = 0xFFFF


def scalar_fill(value: Callable[[Submission], int]) -> Fill:
    """One number a submission."""

    def fill(to: Destination, submission: Submission) -> None:
        to.cells[0] = value(submission) + to.binding.offset

    return fill


def lane_fill(value: Callable[[LaneWork], Number]) -> Fill:
    """One number a lane."""

    def fill(to: Destination, submission: Submission) -> None:
        put_lanes(to, submission, map(value, submission.lanes))

    return fill


def token_fill(values: Callable[[LaneWork], Sequence[int]]) -> Fill:
    """One number a packed token."""

    def fill(to: Destination, submission: Submission) -> None:
        packed = array(to.cells.format)
        for lane in submission.lanes:
            packed.extend(values(lane))
        put_packed(to, packed)

    return fill


def fill_padding(to: Destination, _submission: Submission) -> None:
    """Every row holds the padding."""
    pad_rows(to, first=0)


def fill_constant(to: Destination, submission: Submission) -> None:
    """The declared constant, wherever the binding counts a row."""
    constant, lanes = to.binding.constant, submission.lanes
    assert constant is not None
    match to.binding.indexing:
        case Indexing.SCALAR:
            put_rows(to, [constant])
        case Indexing.PACKED_TOKEN:
            tokens = sum(lane.endpoint - lane.start for lane in lanes)
            put_packed(to, array(to.cells.format, [constant]) * tokens)
        case _:
            put_lanes(to, submission, [constant] * len(lanes))


PER_LANE: Final = frozenset({Indexing.SUBMISSION_ROW, Indexing.ACTIVE_ROW, Indexing.PHYSICAL_ROW})
ONE_ONLY: Final = frozenset({Indexing.SCALAR})
TOKENS_ONLY: Final = frozenset({Indexing.PACKED_TOKEN})
ROWS_ONLY: Final = frozenset({Indexing.ACTIVE_ROW})
PADDED_ONLY: Final = frozenset({Indexing.SUBMISSION_ROW})
SLOTS_ONLY: Final = frozenset({Indexing.PHYSICAL_ROW})

FILLS: Final[Mapping[ValueSource, tuple[Fill, frozenset[Indexing]]]] = {
    **{source: (scalar_fill(value), ONE_ONLY) for source, value in SCALARS.items()},
    **{source: (lane_fill(value), PER_LANE) for source, value in LANES.items()},
    **{source: (token_fill(values), TOKENS_ONLY) for source, values in TOKENS.items()},
    ValueSource.PROMPT_POSITIONS: (fill_positions, TOKENS_ONLY),
    ValueSource.IMAGE_CONTEXT_INDICES: (fill_contexts, TOKENS_ONLY),
    ValueSource.IMAGE_TENSOR: (fill_tensor, ONE_ONLY),
    ValueSource.EOS_IDS: (fill_eos, ROWS_ONLY),
    ValueSource.LOGIT_BIAS_IDS: (fill_bias_ids, SLOTS_ONLY),
    ValueSource.LOGIT_BIAS_VALUES: (fill_bias_values, SLOTS_ONLY),
    ValueSource.GRAMMAR_MASK: (fill_mask, SLOTS_ONLY),
    ValueSource.PAGE_TABLE: (fill_pages, SLOTS_ONLY),
    ValueSource.PROMPT_HISTOGRAM: (fill_histogram, SLOTS_ONLY),
    ValueSource.CONSTANT: (fill_constant, frozenset(Indexing)),
    ValueSource.INACTIVE_PADDING: (fill_padding, PADDED_ONLY),
}
"""Every source that can be filled, and how its rows may be counted."""


@dataclass(frozen=True, slots=True)
class Packing:
    """One program's fills, a list for each frame."""

    frames: tuple[tuple[tuple[Fill, Destination], ...], ...]

    # hot
    def pack(self, submission: Submission) -> None:
        """Write everything that the submission's program reads from the host."""
        for fill, destination in self.frames[submission.frame]:
            fill(destination, submission)


def resolve_packing(
    graph: GraphContract, model: ModelContract, device: Device, *, at: str
) -> Packing:
    """Turn a program's bindings into fills, or refuse to start."""
    transports = {transport.name: transport for transport in device.manifest.transports}
    frames = []
    for frame in range(device.manifest.frames):
        fills = []
        for index, binding in enumerate(graph.values):
            where = f"{at}.values[{index}]"
            fill, transport = fill_of(binding, at=where), transports[binding.destination]
            check_destination(binding, transport, graph, model, at=where)
            fills.append((fill, destination_of(binding, transport, device, frame)))
        frames.append(tuple(fills))
    return Packing(tuple(frames))


def fill_of(binding: ValueBinding, *, at: str) -> Fill:
    """What supplies a binding's values, counted as it says."""
    name = binding.source.name
    fill, indexings = FILLS.get(binding.source, (None, frozenset()))
    if fill is None:
        raise StartRefused(f"{at}.source: {name} cannot be supplied")
    if binding.indexing not in indexings:
        raise StartRefused(
            f"{at}.indexing: found {binding.indexing.name}, expected one of "
            f"{sorted(indexing.name for indexing in indexings)} for {name}"
        )
    return fill
