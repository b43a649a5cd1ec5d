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
)
from helios.rounds import Admission, LaneWork, Submission
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


# hot
def put_packed(to: Destination, values: array[int]) -> None:
    """Packed token values, one after another (HV-14)."""
    if to.binding.offset:
        values = array(values.typecode, (value + to.binding.offset for value in values))
    to.cells[: len(values)] = memoryview(values)


def admission_of(lane: LaneWork) -> Admission:
    """What the slot takes over; only admitting programs bind admission values."""
    assert lane.admission is not None
    return lane.admission


SCALARS: Final[Mapping[ValueSource, Callable[[Submission], int]]] = {
    ValueSource.LIVE_ROWS: lambda submission: len(submission.lanes),
}

LANES: Final[Mapping[ValueSource, Callable[[LaneWork], Number]]] = {
    ValueSource.SLOT: lambda lane: lane.slot,
    ValueSource.GENERATION: lambda lane: lane.generation,
    ValueSource.QUERY_LENGTH: lambda lane: lane.endpoint - lane.start,
    ValueSource.SAMPLING_DECISION: lambda lane: int(lane.samples),
    ValueSource.LIVE_STATE_ROW: lambda lane: lane.slot,
    ValueSource.CONSUMED_ENDPOINT: lambda lane: lane.start,
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
}

TOKENS: Final[Mapping[ValueSource, Callable[[LaneWork], Sequence[int]]]] = {
    ValueSource.PROMPT_TOKENS: lambda lane: lane.tokens,
    ValueSource.PROMPT_POSITIONS: lambda lane: range(lane.start, lane.endpoint),
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
            row[token] += row[token] < MOST_COUNT


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
ROWS_ONLY: Final = frozenset({Indexing.ACTIVE_ROW})
PADDED_ONLY: Final = frozenset({Indexing.SUBMISSION_ROW})
SLOTS_ONLY: Final = frozenset({Indexing.PHYSICAL_ROW})

FILLS: Final[Mapping[ValueSource, tuple[Fill, frozenset[Indexing]]]] = {
    **{
        source: (scalar_fill(value), frozenset({Indexing.SCALAR}))
        for source, value in SCALARS.items()
    },
    **{source: (lane_fill(value), PER_LANE) for source, value in LANES.items()},
    **{
        source: (token_fill(values), frozenset({Indexing.PACKED_TOKEN}))
        for source, values in TOKENS.items()
    },
    ValueSource.EOS_IDS: (fill_eos, ROWS_ONLY),
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
