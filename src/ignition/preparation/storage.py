"""What outlives a program: staging, slots, page tables, histories, completion records.

One table says which persistent operands a paged-text model has and where each lies; the
tape, the manifest's transports and the contract's state views are all made from it, so they
cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ignition.record.tape import Extent, Home, Operand, Planes
from prepared.contract import ELEMENT_BYTES, ElementType
from prepared.manifest import (
    Buffer,
    BufferRole,
    CompletionField,
    CompletionLayout,
    CompletionSlot,
    Delivery,
    SubmissionHeader,
    Transport,
)

ALIGNMENT: Final = 64
MOST_EOS: Final = 16  # build/cpu/slot.h
MOST_BIAS: Final = 512  # build/cpu/slot.h
MOST_TOP: Final = 20  # build/cpu/scores.h
MOST_SCORED: Final = 64
SCORED_LOGITS_NBYTES: Final = 16 << 20
"""A scored prefill keeps the logits of every row: few rows, and no more bytes than this."""

MIXED_STEPS: Final = (64, 256)
"""Prompt tokens that a mixed program takes beside one token of every other lane."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operand lies: a buffer, an offset, and the bytes between rows."""

    buffer: str
    offset: int
    row_stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExtents:
    """Capacities and sizes of a paged-text model."""

    lanes: int
    prefill_tokens: int
    context_tokens: int
    page_tokens: int
    vocabulary: int
    layers: int
    key_heads: int
    width: int
    history: ElementType  # BFLOAT16 on the CPU, FLOAT32 in the reference
    speculative_tokens: int = 1  # W of a speculative program; 1: there is none
    images: bool = False  # whether programs take what image layouts make
    position_axes: int = 1

    @property
    def mixed_chunks(self) -> tuple[int, ...]:
        """Prompt tokens of each mixed program; with one lane there is nothing to mix."""
        if self.lanes == 1:
            return ()
        return tuple(sorted({min(tokens, self.prefill_tokens) for tokens in MIXED_STEPS}))

    @property
    def packed_tokens(self) -> int:
        """The most token rows of any program."""
        mixed = max(self.mixed_chunks, default=0) + self.lanes - 1
        return max(self.prefill_tokens, mixed)

    @property
    def row_pages(self) -> int:
        """Pages of the longest request."""
        return -(-self.context_tokens // self.page_tokens)

    @property
    def scored_tokens(self) -> int:
        """Rows of a scored prefill."""
        most = min(MOST_SCORED, self.prefill_tokens)
        return max(1, min(most, SCORED_LOGITS_NBYTES // (4 * self.vocabulary)))

    @property
    def mask_words(self) -> int:
        """Words of a grammar mask."""
        return -(-self.vocabulary // 32)

    @property
    def record_nbytes(self) -> int:
        """Bytes of one token's keys (or values) in all layers."""
        return self.layers * self.key_heads * self.width * ELEMENT_BYTES[self.history]

    @property
    def page_nbytes(self) -> int:
        """Bytes of one page of keys (or values)."""
        return self.record_nbytes * self.page_tokens


SLOT_FIELDS: Final[Mapping[str, tuple[int, ElementType, int]]] = {
    "generation": (0, ElementType.UINT32, 1),
    "pending": (4, ElementType.INT32, 1),
    "consumed": (8, ElementType.UINT32, 1),
    "emitted": (12, ElementType.UINT32, 1),
    "output_limit": (16, ElementType.UINT32, 1),
    "minimum_output": (20, ElementType.UINT32, 1),
    "seed": (24, ElementType.UINT64, 1),
    "temperature": (32, ElementType.FLOAT32, 1),
    "top_p": (36, ElementType.FLOAT32, 1),
    "min_p": (40, ElementType.FLOAT32, 1),
    "top_k": (44, ElementType.UINT32, 1),
    "repetition": (48, ElementType.FLOAT32, 1),
    "presence": (52, ElementType.FLOAT32, 1),
    "frequency": (56, ElementType.FLOAT32, 1),
    "finished": (60, ElementType.UINT32, 1),
    "eos": (64, ElementType.INT32, MOST_EOS),
    "logprobs": (128, ElementType.INT32, 1),
}
"""Offset, type and count within a slot's row (build/cpu/slot.h says the same in C)."""

SLOT_NBYTES: Final = 192

ADMITTED_FIELDS: Final[Mapping[str, str]] = {
    "generations": "generation",
    "consumed_endpoints": "consumed",
    "output_limits": "output_limit",
    "minimum_outputs": "minimum_output",
    "seeds": "seed",
    "temperatures": "temperature",
    "top_ps": "top_p",
    "min_ps": "min_p",
    "top_ks": "top_k",
    "repetitions": "repetition",
    "presences": "presence",
    "frequencies": "frequency",
    "eos_ids": "eos",
    "logprob_counts": "logprobs",
}
"""Staged values that admission copies, and the slot field each becomes."""

LANE_FIELDS: Final[Mapping[str, tuple[CompletionField, ElementType]]] = {
    "lane_slot": (CompletionField.LANE_SLOT, ElementType.UINT32),
    "lane_generation": (CompletionField.LANE_GENERATION, ElementType.UINT32),
    "lane_consumed": (CompletionField.LANE_CONSUMED, ElementType.UINT32),
    "lane_emitted": (CompletionField.LANE_EMITTED, ElementType.UINT32),
    "lane_tokens": (CompletionField.LANE_TOKENS, ElementType.INT32),
    "lane_offered": (CompletionField.LANE_OFFERED, ElementType.UINT32),
    "lane_accepted": (CompletionField.LANE_ACCEPTED, ElementType.UINT32),
    "lane_cursor": (CompletionField.LANE_DRAFT_CURSOR, ElementType.INT32),
    "lane_reserved": (CompletionField.LANE_RESERVED, ElementType.INT32),
    "lane_finish": (CompletionField.LANE_FINISH, ElementType.UINT32),
}

RECORD_FIELDS: Final[Mapping[str, tuple[CompletionField, ElementType]]] = {
    "record_sequence": (CompletionField.RECORD_SEQUENCE, ElementType.UINT64),
    "record_frame": (CompletionField.RECORD_FRAME, ElementType.UINT32),
    "record_program": (CompletionField.RECORD_PROGRAM, ElementType.UINT32),
    "record_status": (CompletionField.RECORD_STATUS, ElementType.UINT32),
    "record_rows": (CompletionField.RECORD_ROWS, ElementType.UINT32),
}

LANE_SCORES: Final[Mapping[str, tuple[CompletionField, ElementType, int]]] = {
    "logprob": (CompletionField.LANE_LOGPROB, ElementType.FLOAT32, 1),
    "top_ids": (CompletionField.LANE_TOP_IDS, ElementType.INT32, MOST_TOP),
    "top_logprobs": (CompletionField.LANE_TOP_LOGPROBS, ElementType.FLOAT32, MOST_TOP),
}
"""Of a sampled token, and only when its slot asked; sampling writes them."""

TOKEN_SCORES: Final[Mapping[str, tuple[CompletionField, ElementType, int]]] = {
    "token_logprob": (CompletionField.TOKEN_LOGPROB, ElementType.FLOAT32, 1),
    "token_top_ids": (CompletionField.TOKEN_TOP_IDS, ElementType.INT32, MOST_TOP),
    "token_top_logprobs": (CompletionField.TOKEN_TOP_LOGPROBS, ElementType.FLOAT32, MOST_TOP),
}
"""Of each target of a scored prefill, by packed token."""


CONTINUATIONS: Final = "continuations"
"""The buffer of partial pages: a row is a page of keys, then a page of values (AH-05)."""


class Area:
    """A buffer being laid out: operands one after another, aligned."""

    def __init__(self, buffer: str) -> None:
        self.buffer = buffer
        self.nbytes = 0
        self.operands: dict[str, Operand] = {}
        self.places: dict[str, Place] = {}

    def put(
        self,
        name: str,
        home: Home,
        element: ElementType,
        *,
        rows: int,
        shape: tuple[int | Extent, ...],
    ) -> None:
        """Append an operand with room for `rows` rows; `shape` is what programs see."""
        row = ELEMENT_BYTES[element]
        for count in shape[1:]:
            row *= count
        self.operands[name] = Operand(name, home, element, shape)
        self.places[name] = Place(self.buffer, self.nbytes, row)
        self.nbytes += -(-rows * row // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Persistent operands, where they lie, and the manifest parts that say so."""

    extents: TextExtents
    operands: Mapping[str, Operand]
    places: Mapping[str, Place]
    buffers: tuple[Buffer, ...]
    transports: tuple[Transport, ...]
    completion: CompletionLayout
    header: SubmissionHeader

    @property
    def planes(self) -> Planes:
        """Keys and values."""
        return Planes(keys=self.operands["keys"], values=self.operands["values"])


def staging_of(extents: TextExtents) -> Area:
    """Host values of one submission."""
    area = Area("staging")
    lanes, tokens = extents.lanes, extents.packed_tokens
    area.put("sequence", Home.STAGED, ElementType.UINT64, rows=1, shape=(1,))
    for name in ("frame", "program", "live_rows", "mixed_row"):
        area.put(name, Home.STAGED, ElementType.UINT32, rows=1, shape=(1,))
    for name in ("slots", "query_lengths", "sampling"):
        area.put(name, Home.STAGED, ElementType.UINT32, rows=lanes, shape=(Extent.LANES,))
    for name in ("prompt_tokens", "prompt_positions", "scored_targets"):
        axes = extents.position_axes if name == "prompt_positions" else 1
        tall = (Extent.TOKENS,) if axes == 1 else (Extent.TOKENS, axes)
        area.put(name, Home.STAGED, ElementType.INT32, rows=tokens, shape=tall)
    for name in ("restore_rows", "restore_pages", "snapshot_rows", "pending_tokens"):
        area.put(name, Home.STAGED, ElementType.INT32, rows=lanes, shape=(Extent.LANES,))
    for name, slot_field in ADMITTED_FIELDS.items():
        _, element, count = SLOT_FIELDS[slot_field]
        shape = (Extent.LANES,) if count == 1 else (Extent.LANES, count)
        area.put(name, Home.STAGED, element, rows=lanes, shape=shape)
    if extents.images:
        put_images(area, extents)
    return area


def put_images(area: Area, extents: TextExtents) -> None:
    """Where image tokens are among the packed ones, and what positions gain behind images."""
    for name in ("image_features", "image_contexts", "image_masks"):
        area.put(
            name, Home.STAGED, ElementType.INT32, rows=extents.packed_tokens, shape=(Extent.TOKENS,)
        )
    area.put(
        "position_deltas",
        Home.STAGED,
        ElementType.INT32,
        rows=extents.lanes,
        shape=(Extent.LANES,),
    )


def completion_of(extents: TextExtents) -> Area:
    """One completion record."""
    area = Area("completion")
    for name, (_, element) in RECORD_FIELDS.items():
        area.put(name, Home.COMPLETION, element, rows=1, shape=(1,))
    for name, (_, element) in LANE_FIELDS.items():
        several = name == "lane_tokens" and extents.speculative_tokens > 1
        shape = (Extent.LANES, extents.speculative_tokens) if several else (Extent.LANES,)
        area.put(name, Home.COMPLETION, element, rows=extents.lanes, shape=shape)
    for scores, extent, rows in (
        (LANE_SCORES, Extent.LANES, extents.lanes),
        (TOKEN_SCORES, Extent.TOKENS, extents.scored_tokens),
    ):
        for name, (_, element, count) in scores.items():
            shape = (extent,) if count == 1 else (extent, count)
            area.put(name, Home.COMPLETION, element, rows=rows, shape=shape)
    return area


def slot_views() -> tuple[dict[str, Operand], dict[str, Place]]:
    """Each slot field, and whole rows, as operands over all slots."""
    operands, places = {}, {}
    for name, (offset, element, count) in SLOT_FIELDS.items():
        shape = (Extent.SLOTS,) if count == 1 else (Extent.SLOTS, count)
        operands[name] = Operand(name, Home.STATE, element, shape)
        places[name] = Place("slots", offset, SLOT_NBYTES)
    operands["slot_rows"] = Operand(
        "slot_rows", Home.STATE, ElementType.UINT8, (Extent.SLOTS, SLOT_NBYTES)
    )
    places["slot_rows"] = Place("slots", 0, SLOT_NBYTES)
    return operands, places


def text_storage(extents: TextExtents) -> Storage:
    """The persistent storage of a paged-text model."""
    staging, completion = staging_of(extents), completion_of(extents)
    operands, places = slot_views()
    operands |= staging.operands | completion.operands
    places |= staging.places | completion.places
    history = (Extent.PAGES, extents.layers, extents.key_heads, extents.page_tokens, extents.width)
    for name in ("keys", "values"):
        operands[name] = Operand(name, Home.PLANE, extents.history, history)
        places[name] = Place(name, 0, extents.page_nbytes)
    for index, name in enumerate(("saved_keys", "saved_values")):
        operands[name] = Operand(
            name, Home.SNAPSHOT, extents.history, (Extent.SNAPSHOTS, *history[1:])
        )
        places[name] = Place(CONTINUATIONS, index * extents.page_nbytes, 2 * extents.page_nbytes)
    for name, element, count in resident_rows(extents):
        operands[name] = Operand(name, Home.STATE, element, (Extent.SLOTS, count))
        places[name] = Place(name, 0, count * ELEMENT_BYTES[element])
    return Storage(
        extents=extents,
        operands=operands,
        places=places,
        buffers=buffers_of(extents, staging, completion),
        transports=transports_of(extents, staging),
        completion=CompletionLayout(
            buffer="completion",
            rows=extents.lanes,
            token_rows=extents.scored_tokens,
            slots=completion_slots(completion),
        ),
        header=SubmissionHeader(
            buffer="staging",
            sequence_offset=places["sequence"].offset,
            frame_offset=places["frame"].offset,
            program_offset=places["program"].offset,
        ),
    )


def resident_rows(extents: TextExtents) -> tuple[tuple[str, ElementType, int], ...]:
    """Buffers with one host-written row a slot."""
    return (
        ("page_table", ElementType.UINT32, extents.row_pages),
        ("histograms", ElementType.UINT16, histogram_width(extents.vocabulary)),
        ("bias_ids", ElementType.INT32, MOST_BIAS),
        ("bias_values", ElementType.FLOAT32, MOST_BIAS),
        ("masks", ElementType.UINT32, extents.mask_words),
    )


def histogram_width(vocabulary: int) -> int:
    """Counters of a row, a multiple of 32 so that rows stay aligned."""
    return -(-vocabulary // 32) * 32


def buffers_of(extents: TextExtents, staging: Area, completion: Area) -> tuple[Buffer, ...]:
    """The buffers that persistent operands lie in."""
    sizes = [
        ("staging", BufferRole.STAGING, staging.nbytes),
        ("completion", BufferRole.COMPLETION, completion.nbytes),
        ("slots", BufferRole.STATE, SLOT_NBYTES),
        ("keys", BufferRole.CACHE_PLANE, extents.page_nbytes),
        ("values", BufferRole.CACHE_PLANE, extents.page_nbytes),
        (CONTINUATIONS, BufferRole.SNAPSHOT, 2 * extents.page_nbytes),
    ]
    sizes += [
        (name, BufferRole.STATE, count * ELEMENT_BYTES[element])
        for name, element, count in resident_rows(extents)
    ]
    return tuple(
        Buffer(
            name=name,
            role=role,
            nbytes=nbytes,
            alignment=ALIGNMENT,
            resource=None,
            resource_offset=0,
        )
        for name, role, nbytes in sizes
    )


def transports_of(extents: TextExtents, staging: Area) -> tuple[Transport, ...]:
    """Destinations of host values; what identifies a submission is the transport's own."""
    found = []
    for name, operand in staging.operands.items():
        if name in ("sequence", "frame", "program"):
            continue
        place = staging.places[name]
        leading = operand.shape[0]
        rows = {Extent.LANES: extents.lanes, Extent.TOKENS: extents.packed_tokens}
        found.append(
            Transport(
                name=name,
                buffer="staging",
                delivery=Delivery.STAGED,
                offset=place.offset,
                element=operand.element,
                rows=rows[leading] if isinstance(leading, Extent) else leading,
                row_elements=operand.shape[1] if len(operand.shape) > 1 else 1,
                row_stride=place.row_stride,
            )
        )
    for name, element, count in resident_rows(extents):
        found.append(
            Transport(
                name=name,
                buffer=name,
                delivery=Delivery.RESIDENT,
                offset=0,
                element=element,
                rows=1,
                row_elements=count,
                row_stride=count * ELEMENT_BYTES[element],
            )
        )
    return tuple(found)


def completion_slots(completion: Area) -> tuple[CompletionSlot, ...]:
    """Where each completion field lies."""
    return tuple(
        CompletionSlot(
            field=completion_field,
            offset=completion.places[name].offset,
            element=element,
            row_elements=completion.places[name].row_stride // ELEMENT_BYTES[element],
            row_stride=completion.places[name].row_stride,
        )
        for name, (completion_field, element) in {
            **RECORD_FIELDS,
            **LANE_FIELDS,
            **{name: scored[:2] for name, scored in {**LANE_SCORES, **TOKEN_SCORES}.items()},
        }.items()
    )
