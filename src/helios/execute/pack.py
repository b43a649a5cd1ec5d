"""Host values into staging: the table of value sources, resolved once at start (HV-24).

A binding names a destination, a source and an indexing.  At start each becomes a fill over
typed views of the very bytes that programs read; a round then only runs its fills.  A source
or an indexing that cannot be filled fails the start by name.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from helios.device.api import Device
from helios.rounds import Admission, LaneWork, Submission
from helios.values import StartRefused
from prepared.contract import (
    ELEMENT_BYTES,
    ElementType,
    GraphContract,
    Indexing,
    ModelContract,
    ValueBinding,
    ValueSource,
)
from prepared.manifest import Delivery, Transport

CODES: Final[Mapping[ElementType, str]] = {
    ElementType.UINT8: "B",
    ElementType.UINT16: "H",
    ElementType.INT32: "i",
    ElementType.UINT32: "I",
    ElementType.INT64: "q",
    ElementType.UINT64: "Q",
    ElementType.FLOAT32: "f",
}
"""Element types that the host writes, as memoryview spells them."""

NO_EOS: Final = -1


def cells_of(memory: memoryview, element: ElementType) -> memoryview[Any]:
    """Bytes as numbers of a type."""
    return memory.cast("B").cast(CODES[element])  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, slots=True)
class Destination:
    """Typed cells that a binding fills, and how its rows lie in them."""

    cells: memoryview[Any]
    row_cells: int  # between rows
    row_elements: int
    rows: int
    binding: ValueBinding


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
        assert to.binding.padding is not None
        for row in range(count, to.rows):
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
            to.cells[start + entry.index + to.binding.offset] = entry.page


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
    assert to.binding.padding is not None
    put_rows(to, [to.binding.padding] * to.rows)


def fill_constant(to: Destination, _submission: Submission) -> None:
    """Every row holds the declared constant."""
    assert to.binding.constant is not None
    put_rows(to, [to.binding.constant] * to.rows)


PER_LANE: Final = frozenset({Indexing.SUBMISSION_ROW, Indexing.ACTIVE_ROW, Indexing.PHYSICAL_ROW})
ROWS_ONLY: Final = frozenset({Indexing.ACTIVE_ROW})
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
    ValueSource.INACTIVE_PADDING: (fill_padding, frozenset(Indexing)),
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
            fill, indexings = FILLS.get(binding.source, (None, frozenset()))
            if fill is None:
                raise StartRefused(f"{where}.source: {binding.source.name} cannot be supplied")
            if binding.indexing not in indexings:
                raise StartRefused(
                    f"{where}.indexing: found {binding.indexing.name}, expected one of "
                    f"{sorted(indexing.name for indexing in indexings)} for {binding.source.name}"
                )
            transport = transports[binding.destination]
            check_extent(binding, transport, model, at=where)
            fills.append((fill, destination_of(binding, transport, device, frame)))
        frames.append(tuple(fills))
    return Packing(tuple(frames))


ROW_ELEMENTS: Final[Mapping[ValueSource, Callable[[ModelContract, ValueBinding], int]]] = {
    ValueSource.PAGE_TABLE: lambda model, binding: (
        model.cache.page_tables[binding.page_table or 0].row_pages
    ),
    ValueSource.PROMPT_HISTOGRAM: lambda model, _binding: model.vocabulary.histogram_width,
}
"""Sources whose rows have a declared width."""


def check_extent(
    binding: ValueBinding, transport: Transport, model: ModelContract, *, at: str
) -> None:
    """The destination's type and row width are the source's."""
    if transport.element not in CODES:
        raise StartRefused(f"{at}.destination: the host cannot write {transport.element.name}")
    resident = transport.delivery is Delivery.RESIDENT
    if resident != (binding.indexing is Indexing.PHYSICAL_ROW):
        raise StartRefused(
            f"{at}.indexing: found {binding.indexing.name} for a {transport.delivery.name} "
            "destination; physical rows are resident and nothing else is"
        )
    expected = ROW_ELEMENTS.get(binding.source)
    width = expected(model, binding) if expected else 1
    if binding.source is not ValueSource.EOS_IDS and transport.row_elements != width:
        raise StartRefused(
            f"{at}.destination: rows of {transport.row_elements}, expected {width} for "
            f"{binding.source.name}"
        )


def destination_of(
    binding: ValueBinding, transport: Transport, device: Device, frame: int
) -> Destination:
    """The typed cells of a transport."""
    size = ELEMENT_BYTES[transport.element]
    if transport.delivery is Delivery.RESIDENT:
        memory, rows = device.resident(transport.buffer), 0
        nbytes = len(memory)
    else:
        memory, rows = device.staging(transport.buffer, frame), transport.rows
        row = transport.row_elements * size
        nbytes = transport.offset + (rows - 1) * transport.row_stride + row
    return Destination(
        cells=cells_of(memory[transport.offset : nbytes], transport.element),
        row_cells=transport.row_stride // size,
        row_elements=transport.row_elements,
        rows=rows,
        binding=binding,
    )
