"""Destinations of host values: typed cells of staging or of resident rows (HV-24).

Whether a transport can take a source's values is checked once, at start, by name.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from helios.device.api import Device
from helios.frontend.images.tensors import OUTPUTS
from helios.rounds import MOST_LOGIT_BIAS
from helios.values import StartRefused
from prepared.contract import (
    ELEMENT_BYTES,
    ElementType,
    GraphContract,
    Indexing,
    ModelContract,
    PageBase,
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

INTEGERS: Final = frozenset(
    {ElementType.INT32, ElementType.UINT32, ElementType.INT64, ElementType.UINT64}
)
FLAGS: Final = INTEGERS | {ElementType.UINT8, ElementType.UINT16}

SIGNED: Final = frozenset({ElementType.INT32, ElementType.INT64})

ELEMENTS: Final[Mapping[ValueSource, frozenset[ElementType]]] = {
    **dict.fromkeys(
        (
            ValueSource.TEMPERATURE,
            ValueSource.TOP_P,
            ValueSource.MIN_P,
            ValueSource.REPETITION_PENALTY,
            ValueSource.PRESENCE_PENALTY,
            ValueSource.FREQUENCY_PENALTY,
            ValueSource.LOGIT_BIAS_VALUES,
        ),
        frozenset({ElementType.FLOAT32}),
    ),
    ValueSource.SAMPLING_DECISION: FLAGS,
    ValueSource.SEED_BITS: frozenset({ElementType.UINT64}),
    **dict.fromkeys(
        (
            ValueSource.EOS_IDS,
            ValueSource.RESTORE_SOURCE,
            ValueSource.RESTORE_PAGE,
            ValueSource.LOGIT_BIAS_IDS,
            ValueSource.LOGPROB_COUNT,
            ValueSource.SCORED_TARGET_TOKENS,
            ValueSource.POSITION_DELTA,
            ValueSource.IMAGE_FEATURE_INDICES,
            ValueSource.IMAGE_CONTEXT_INDICES,
        ),
        SIGNED,
    ),
    ValueSource.IMAGE_TOKEN_MASK: FLAGS,
    ValueSource.GRAMMAR_MASK: frozenset({ElementType.UINT32}),
    ValueSource.PROMPT_HISTOGRAM: frozenset({ElementType.UINT16}),
    ValueSource.CONSTANT: FLAGS,
    ValueSource.INACTIVE_PADDING: FLAGS,
}
"""Types that hold every value of a source; `INTEGERS` where nothing is said."""

UNSHIFTED: Final = frozenset(
    {
        ValueSource.EOS_IDS,
        ValueSource.PROMPT_HISTOGRAM,
        ValueSource.INACTIVE_PADDING,
        ValueSource.LOGIT_BIAS_IDS,
        ValueSource.GRAMMAR_MASK,
        ValueSource.IMAGE_TENSOR,
    }
)
"""Sources that are not integers one by one, so that a declared offset means nothing."""


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


# hot
def put_packed(to: Destination, values: array[int]) -> None:
    """Packed token values, one after another (HV-14)."""
    if to.binding.offset:
        values = array(values.typecode, (value + to.binding.offset for value in values))
    to.cells[: len(values)] = memoryview(values)


def destination_of(
    binding: ValueBinding, transport: Transport, device: Device, frame: int
) -> Destination:
    """The typed cells of a transport."""
    size = ELEMENT_BYTES[transport.element]
    if transport.delivery is Delivery.RESIDENT:
        memory, rows = device.resident(transport.buffer), 0
        nbytes = len(memory) - (len(memory) - transport.offset) % size
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


def check_destination(
    binding: ValueBinding,
    transport: Transport,
    graph: GraphContract,
    model: ModelContract,
    *,
    at: str,
) -> None:
    """Refuse to start with a destination that cannot take the binding's values."""
    check_numbers(binding, transport, at=at)
    check_rows(binding, transport, graph, at=at)
    check_width(binding, transport, model, at=at)


def check_numbers(binding: ValueBinding, transport: Transport, *, at: str) -> None:
    """The destination's type holds every value of the source."""
    name, element = binding.source.name, transport.element
    elements = elements_of(binding, at=at)
    if element not in elements:
        raise StartRefused(
            f"{at}.destination: found {element.name}, expected one of "
            f"{sorted(element.name for element in elements)} for {name}"
        )
    integers = element is not ElementType.FLOAT32 and binding.source not in UNSHIFTED
    if binding.offset and not integers:
        raise StartRefused(f"{at}.offset: found {binding.offset}, expected 0 for {name}")
    for field, number in (
        ("padding", binding.padding),
        ("constant", None if binding.constant is None else binding.constant + binding.offset),
    ):
        if number is None:
            continue
        try:
            array(CODES[element], [number])
        except OverflowError:
            raise StartRefused(
                f"{at}.{field}: found {number}, expected a number of {element.name}"
            ) from None


def elements_of(binding: ValueBinding, *, at: str) -> frozenset[ElementType]:
    """Types that hold every value of a binding's source."""
    if binding.image_tensor is None:
        return ELEMENTS.get(binding.source, INTEGERS)
    output = OUTPUTS.get(binding.image_tensor)
    if output is None:
        raise StartRefused(
            f"{at}.image_tensor: found {binding.image_tensor!r}, expected one of {sorted(OUTPUTS)}"
        )
    return frozenset({output.element})


def check_rows(
    binding: ValueBinding, transport: Transport, graph: GraphContract, *, at: str
) -> None:
    """The destination has a row for whatever the indexing counts."""
    resident = transport.delivery is Delivery.RESIDENT
    if resident != (binding.indexing is Indexing.PHYSICAL_ROW):
        raise StartRefused(
            f"{at}.indexing: found {binding.indexing.name} for a {transport.delivery.name} "
            "destination; physical rows are resident and nothing else is"
        )
    size, stride = ELEMENT_BYTES[transport.element], transport.row_stride
    row = size * transport.row_elements
    if binding.indexing is Indexing.PACKED_TOKEN and stride != row:
        raise StartRefused(f"{at}.destination: rows {stride} bytes apart, expected {row}")
    if stride % size:
        raise StartRefused(
            f"{at}.destination: rows {stride} bytes apart, expected a multiple of {size}"
        )
    rows = {
        Indexing.SCALAR: 1,
        Indexing.SUBMISSION_ROW: graph.batch_capacity,
        Indexing.ACTIVE_ROW: graph.batch_capacity,
        Indexing.PACKED_TOKEN: graph.packed_token_capacity,
    }.get(binding.indexing, 0)
    if transport.rows < rows:
        raise StartRefused(
            f"{at}.destination: found {transport.rows} rows, expected {rows} for {graph.name}"
        )


def check_width(
    binding: ValueBinding, transport: Transport, model: ModelContract, *, at: str
) -> None:
    """The destination's rows are as wide as the source's."""
    source, width = binding.source, 1
    geometry = model.frontend.images.geometry
    if source is ValueSource.EOS_IDS:
        width = max(transport.row_elements, len(model.frontend.eos_token_ids))
    elif source in (ValueSource.LOGIT_BIAS_IDS, ValueSource.LOGIT_BIAS_VALUES):
        width = max(transport.row_elements, MOST_LOGIT_BIAS)
    elif source is ValueSource.GRAMMAR_MASK:
        width = model.vocabulary.mask_words
    elif source is ValueSource.PROMPT_HISTOGRAM:
        width = model.vocabulary.histogram_width
    elif source is ValueSource.PROMPT_POSITIONS and model.vision is not None:
        width = model.vision.position_axes
    elif binding.image_tensor is not None and geometry is not None:
        width = OUTPUTS[binding.image_tensor].row_elements(geometry)
    elif source is ValueSource.PAGE_TABLE:
        assert binding.page_table is not None
        view = model.cache.page_tables[binding.page_table]
        width = view.row_pages
        if view.page_offset or view.base is not PageBase.PAGE_BASE_ABSOLUTE:
            raise StartRefused(f"{at}.page_table: a shifted page table cannot be supplied")
    if transport.row_elements != width:
        raise StartRefused(
            f"{at}.destination: rows of {transport.row_elements}, expected {width} for "
            f"{source.name}"
        )
