"""One value bound to one destination, over memory full of a sentinel."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from helios.device.api import Geometry
from helios.device.scripted import ScriptedDevice
from helios.execute.pack import Packing, resolve_packing
from helios.rounds import (
    Admission,
    FromPage,
    FromSnapshot,
    ImagePrompt,
    ImageTensor,
    LaneWork,
    NewPage,
    Publication,
    Restore,
    Sampling,
    Submission,
)
from helios.values import (
    Generation,
    MonotonicClock,
    PageId,
    ProgramId,
    Sequence,
    Slot,
    SnapshotRow,
)
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
from tests.worker.world import scripted_model, text_extents

ROWS: Final = 4  # capacity of the program
TOKENS: Final = 12
SLOTS: Final = 6
SENTINEL: Final = 0xA5
OFFSET: Final = 64
AT: Final = "graphs[0]"

FORMATS: Final = {
    ElementType.UINT8: "B",
    ElementType.UINT16: "H",
    ElementType.INT32: "i",
    ElementType.UINT32: "I",
    ElementType.INT64: "q",
    ElementType.UINT64: "Q",
    ElementType.FLOAT32: "f",
}

# -------------------------------------------------------------- submission


def admission(
    seed: int,
    *,
    penalty: float,
    eos_ids: tuple[int, ...],
    seen: tuple[int, ...],
    logit_bias: tuple[tuple[int, float], ...],
    logprobs: int | None,
) -> Admission:
    """What a slot takes over; every number says whose it is."""
    return Admission(
        sampling=Sampling(
            seed=seed,
            temperature=seed % 8 + 0.5,
            top_p=0.25,
            top_k=seed % 8 + 10,
            min_p=0.125,
            repetition_penalty=penalty,
            presence_penalty=penalty - 1.0,
            frequency_penalty=1.0 - penalty,
        ),
        output_limit=seed % 8 + 20,
        minimum_output=seed % 8 + 30,
        eos_ids=eos_ids,
        seen=seen,
        logit_bias=logit_bias,
        logprobs=logprobs,
    )


def lane(
    slot: int,
    generation: int,
    *,
    tokens: tuple[int, ...],
    start: int,
    samples: bool,
    pages: Mapping[int, int],
    admitted: Admission,
    restore: Restore | None = None,
    targets: tuple[int, ...] = (),
    mask: bytes | None = None,
    images: ImagePrompt | None = None,
) -> LaneWork:
    """One lane of the submission."""
    return LaneWork(
        slot=Slot(slot),
        generation=Generation(generation),
        tokens=tokens,
        start=start,
        endpoint=start + len(tokens),
        samples=samples,
        new_pages=tuple(NewPage(index=i, page=PageId(page)) for i, page in pages.items()),
        admission=admitted,
        restore=restore,
        snapshot=Publication(row=SnapshotRow(generation + 80), tokens=start),
        pending=generation + 90,
        logprobs=admitted.logprobs,
        targets=targets,
        mask=mask,
        images=images,
    )


def int32(*numbers: int) -> bytes:
    """Numbers as an image layout hands them over."""
    return struct.pack(f"<{len(numbers)}i", *numbers)


PLACES: Final = ImageTensor(
    name="patch_rows", element=ElementType.INT32, rows=3, row_elements=1, data=int32(7, 8, 9)
)
IMAGES: Final = ImagePrompt(
    features=int32(*[-1] * 9, *range(4), *[-1] * 2),
    positions=int32(*(axis * 100 + place for place in range(15) for axis in range(3))),
    delta=-2,
    pictures=((), (PLACES,)),
)
"""Of a prompt of fifteen tokens: four of an image from the ninth on."""


LANES: Final = (
    lane(
        5,
        7,
        tokens=(21, 22, 23),
        start=8,
        samples=True,
        pages={2: 40},
        restore=FromSnapshot(row=SnapshotRow(6)),
        admitted=admission(
            (1 << 63) + 1,
            penalty=1.5,
            eos_ids=(2, 7),
            seen=(9, 9, 3),
            logit_bias=((7, 1.5), (9, -2.0)),
            logprobs=5,
        ),
        targets=(22, 23, -1),
        images=IMAGES,
    ),
    lane(
        0,
        1,
        tokens=(31,),
        start=0,
        samples=False,
        pages={0: 9, 1: 4},
        admitted=admission(2, penalty=1.25, eos_ids=(), seen=(), logit_bias=(), logprobs=None),
        mask=bytes(range(16)),
    ),
    lane(
        3,
        4,
        tokens=(51, 52),
        start=4,
        samples=True,
        pages={},
        restore=FromPage(page=PageId(17)),
        admitted=admission(
            3, penalty=1.0, eos_ids=(5,), seen=(8,), logit_bias=((1, 0.25),), logprobs=0
        ),
        targets=(52, 60),
    ),
)


def submission(*lanes: LaneWork, frame: int = 0) -> Submission:
    """A round of these lanes, the third of which prefills if the program mixes."""
    return Submission(
        sequence=Sequence(1), frame=frame, program=ProgramId(0), lanes=lanes, mixed_row=2
    )


# ----------------------------------------------------------------- binding

ELEMENT_OF: Final[Mapping[ValueSource, ElementType]] = {
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
        ElementType.FLOAT32,
    ),
    ValueSource.SEED_BITS: ElementType.UINT64,
    ValueSource.EOS_IDS: ElementType.INT32,
    ValueSource.PROMPT_HISTOGRAM: ElementType.UINT16,
    ValueSource.PAGE_TABLE: ElementType.UINT32,
    ValueSource.GRAMMAR_MASK: ElementType.UINT32,
}
"""What each source is sent as here; INT32 where nothing is said."""

WIDTHS: Final[Mapping[ValueSource, int]] = {
    ValueSource.EOS_IDS: 3,
    ValueSource.PROMPT_HISTOGRAM: 128,
    ValueSource.PAGE_TABLE: 16,
    ValueSource.LOGIT_BIAS_IDS: 301,
    ValueSource.LOGIT_BIAS_VALUES: 301,
    ValueSource.GRAMMAR_MASK: 4,
}


def binding(source: ValueSource, indexing: Indexing) -> ValueBinding:
    """A binding that says what its source needs and nothing else."""
    padded = indexing is Indexing.SUBMISSION_ROW or source is ValueSource.INACTIVE_PADDING
    return ValueBinding(
        destination="value",
        source=source,
        indexing=indexing,
        offset=0,
        padding=77 if padded else None,
        constant=66 if source is ValueSource.CONSTANT else None,
        image_tensor="patch_rows" if source is ValueSource.IMAGE_TENSOR else None,
        page_table=0 if source is ValueSource.PAGE_TABLE else None,
        engram_table=None,
    )


def transport(value: ValueBinding) -> Transport:
    """Its destination: rows apart from one another, except where tokens are packed."""
    element = ELEMENT_OF.get(value.source, ElementType.INT32)
    width = WIDTHS.get(value.source, 1)
    resident = value.indexing is Indexing.PHYSICAL_ROW
    packed = value.indexing is Indexing.PACKED_TOKEN
    row = width * ELEMENT_BYTES[element]
    return Transport(
        name="value",
        buffer="rows" if resident else "staging",
        delivery=Delivery.RESIDENT if resident else Delivery.STAGED,
        offset=OFFSET,
        element=element,
        rows=1 if resident else TOKENS if packed else ROWS,
        row_elements=width,
        row_stride=row if packed else row + 8,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A program with one bound value, on a device whose memory is all sentinel."""

    value: ValueBinding
    transport: Transport
    graph: GraphContract
    model: ModelContract
    device: ScriptedDevice

    def packing(self) -> Packing:
        """The program's fills, or a refusal."""
        return resolve_packing(self.graph, self.model, self.device, at=AT)

    def pack(self, *lanes: LaneWork, frame: int = 0) -> None:
        """Pack a round of these lanes."""
        self.packing().pack(submission(*lanes, frame=frame))

    def memory(self, *, frame: int = 0) -> memoryview:
        """Where the value goes."""
        if self.transport.delivery is Delivery.RESIDENT:
            return self.device.resident(self.transport.buffer)
        return self.device.staging(self.transport.buffer, frame)

    def expected(self, cells: Mapping[tuple[int, int], float], *, frame: int = 0) -> bytes:
        """The sentinel, with values in some cells, named by row and place in the row."""
        memory = bytearray([SENTINEL]) * len(self.memory(frame=frame))
        to, size = self.transport, ELEMENT_BYTES[self.transport.element]
        for (row, place), value in cells.items():
            start = to.offset + row * to.row_stride + place * size
            struct.pack_into(f"<{FORMATS[to.element]}", memory, start, value)
        return bytes(memory)


def bound(
    source: ValueSource,
    indexing: Indexing,
    *,
    value: Mapping[str, object] | None = None,
    destination: Mapping[str, object] | None = None,
    model: Mapping[str, object] | None = None,
) -> Bound:
    """A program that binds one source, with parts of its binding or destination changed."""
    bound_value = replace(binding(source, indexing), **(value or {}))  # type: ignore[arg-type]
    place = replace(transport(bound_value), **(destination or {}))  # type: ignore[arg-type]
    whole, manifest = scripted_model(text_extents(lanes=SLOTS))
    graph = replace(
        whole.graphs[0],
        batch_capacity=ROWS,
        packed_token_capacity=TOKENS,
        values=(bound_value,),
    )
    stride = place.row_stride if place.delivery is Delivery.RESIDENT else 8
    rows = replace(manifest.buffers[2], name="rows", nbytes=OFFSET + stride)
    device = ScriptedDevice(
        execution=replace(
            manifest,
            buffers=(replace(manifest.buffers[0], nbytes=1024), *manifest.buffers[1:], rows),
            transports=(place,),
        ),
        model=whole,
        geometry=Geometry(slots=SLOTS, pages=1, snapshots=0),
        script=(),
        clock=MonotonicClock(0),
        sleep=lambda _seconds: None,
        request_in=lambda slot: slot,
    )
    for name in ("staging", "rows"):
        memory = device.resident(name)
        memory[:] = bytes([SENTINEL]) * len(memory)
    frontend = replace(whole.frontend, eos_token_ids=(2, 7))
    return Bound(
        value=bound_value,
        transport=place,
        graph=graph,
        model=replace(whole, frontend=frontend, **(model or {})),  # type: ignore[arg-type]
        device=device,
    )
