"""Declarations that recipes share: admission, sampling, state transfer, paged text (OB-01).

A recipe says sizes and syntax; everything that scheduling and packing need to know of a
paged-text model is assembled here, from the same storage table that programs are recorded
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ignition.preparation.storage import SLOT_FIELDS, SLOT_NBYTES, Storage, histogram_width
from prepared.contract import (
    ELEMENT_BYTES,
    Access,
    CacheContract,
    CachePlane,
    ElementType,
    GraphContract,
    HistoryKind,
    HistoryRegion,
    Indexing,
    InitialContent,
    InputVocabulary,
    Operation,
    PageBase,
    PageTableView,
    PendingToken,
    ResourceDependency,
    Retention,
    ReusePoint,
    StateAccess,
    StateView,
    ValueBinding,
    ValueSource,
    Vocabulary,
)

HISTORY: Final = "keys_values"

ADMISSION: Final[Mapping[str, ValueSource]] = {
    "generations": ValueSource.GENERATION,
    "consumed_endpoints": ValueSource.CONSUMED_ENDPOINT,
    "output_limits": ValueSource.OUTPUT_LIMIT,
    "minimum_outputs": ValueSource.MINIMUM_OUTPUT,
    "seeds": ValueSource.SEED_BITS,
    "temperatures": ValueSource.TEMPERATURE,
    "top_ps": ValueSource.TOP_P,
    "min_ps": ValueSource.MIN_P,
    "top_ks": ValueSource.TOP_K,
    "repetitions": ValueSource.REPETITION_PENALTY,
    "presences": ValueSource.PRESENCE_PENALTY,
    "frequencies": ValueSource.FREQUENCY_PENALTY,
    "eos_ids": ValueSource.EOS_IDS,
}

STATES: Final[Mapping[str, tuple[str, str]]] = {
    "generation": ("generation", "generation"),
    "pending_token": ("pending", "pending"),
    "consumed": ("consumed", "consumed"),
    "output": ("emitted", "minimum_output"),
    "sampling": ("seed", "frequency"),
    "finish": ("finished", "eos"),
}
"""State views by name: the first and the last slot field that each spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One program to record: its operation and capacities."""

    operation: Operation
    rows: int  # B
    row_tokens: int  # W
    packed_tokens: int  # P

    @property
    def name(self) -> str:
        """The program's name."""
        size = self.packed_tokens if self.operation is Operation.PREFILL else self.rows
        return f"{self.operation.name.lower()}_{size}"


def binding(
    destination: str, source: ValueSource, indexing: Indexing, *, page_table: int | None = None
) -> ValueBinding:
    """A plain value binding."""
    return ValueBinding(
        destination=destination,
        source=source,
        indexing=indexing,
        offset=0,
        padding=None,
        constant=None,
        image_tensor=None,
        page_table=page_table,
        engram_table=None,
    )


LANES: Final = (
    binding("live_rows", ValueSource.LIVE_ROWS, Indexing.SCALAR),
    binding("slots", ValueSource.SLOT, Indexing.ACTIVE_ROW),
)
PAGES: Final = (binding("page_table", ValueSource.PAGE_TABLE, Indexing.PHYSICAL_ROW, page_table=0),)
PROMPT: Final = (
    binding("query_lengths", ValueSource.QUERY_LENGTH, Indexing.ACTIVE_ROW),
    binding("sampling", ValueSource.SAMPLING_DECISION, Indexing.ACTIVE_ROW),
    binding("prompt_tokens", ValueSource.PROMPT_TOKENS, Indexing.PACKED_TOKEN),
    binding("prompt_positions", ValueSource.PROMPT_POSITIONS, Indexing.PACKED_TOKEN),
)
ADMITTED: Final = (
    *(binding(name, source, Indexing.ACTIVE_ROW) for name, source in ADMISSION.items()),
    binding("histograms", ValueSource.PROMPT_HISTOGRAM, Indexing.PHYSICAL_ROW),
)

VALUES: Final[Mapping[Operation, tuple[ValueBinding, ...]]] = {
    Operation.INITIALIZE: (*LANES, *ADMITTED),
    Operation.PREFILL: (*LANES, *PROMPT, *PAGES),
    Operation.DECODE: (*LANES, *PAGES),
}

ACCESSES: Final[Mapping[Operation, Mapping[str, Access]]] = {
    Operation.INITIALIZE: dict.fromkeys(STATES, Access.WRITE),
    Operation.PREFILL: {
        "generation": Access.READ,
        "pending_token": Access.WRITE,
        "consumed": Access.READ_WRITE,
        "output": Access.READ_WRITE,
        "sampling": Access.READ,
        "finish": Access.READ_WRITE,
    },
    Operation.DECODE: {
        "generation": Access.READ,
        "pending_token": Access.READ_WRITE,
        "consumed": Access.READ_WRITE,
        "output": Access.READ_WRITE,
        "sampling": Access.READ,
        "finish": Access.READ_WRITE,
    },
}


def graph_of(variant: Variant) -> GraphContract:
    """What scheduling and packing must know of a program."""
    decodes = variant.operation is Operation.DECODE
    touches = variant.operation is not Operation.INITIALIZE
    return GraphContract(
        name=variant.name,
        operation=variant.operation,
        batch_capacity=variant.rows,
        token_capacity=variant.row_tokens,
        packed_token_capacity=variant.packed_tokens,
        values=VALUES[variant.operation],
        states=tuple(
            StateAccess(state=name, access=access)
            for name, access in ACCESSES[variant.operation].items()
        ),
        resources=(ResourceDependency(history=HISTORY, access=Access.READ_WRITE),)
        if touches
        else (),
        pending_token=PendingToken(state="pending_token", destination=None) if decodes else None,
        state_rows_per_request=1,
        tuned_bindings=(),
        speculation=None,
        cursor_lag_tokens=None,
        rows_past_endpoint=0,
        engram_frame_tokens=0,
    )


def states_of() -> tuple[StateView, ...]:
    """The slot's state views."""
    views = []
    for name, (first, last) in STATES.items():
        offset = SLOT_FIELDS[first][0]
        end, element, count = SLOT_FIELDS[last]
        views.append(
            StateView(
                name=name,
                buffer="slots",
                offset=offset,
                row_stride=SLOT_NBYTES,
                nbytes=end + ELEMENT_BYTES[element] * count - offset,
            )
        )
    return tuple(views)


def cache_of(storage: Storage) -> CacheContract:
    """One paged key/value history and its page table."""
    extents = storage.extents
    planes = tuple(
        CachePlane(
            buffer=name,
            record_bytes=extents.record_nbytes,
            records_per_page=extents.page_tokens,
            page_stride_bytes=extents.page_nbytes,
            alignment=64,
            storage=f"{extents.history.name.lower()} {name}",
            max_shards=extents.key_heads,
        )
        for name in ("keys", "values")
    )
    region = HistoryRegion(
        name=HISTORY,
        kind=HistoryKind.PAGED_KEY_VALUE,
        planes=planes,
        record_tokens=1,
        record_tokens_denominator=1,
        retention=Retention.RETAIN_FULL,
        window_tokens=None,
        fields=(),
        row_buffer=None,
        snapshot_buffer=None,
        extra_retained_tokens=0,
        lookahead_tokens=0,
        initial=InitialContent.CONTENT_UNDEFINED,
        reuse=ReusePoint.REUSE_ANY_ENDPOINT,
        replay_tokens=0,
        snapshot=True,
        draft_lag_tokens=0,
    )
    view = PageTableView(
        destination="page_table",
        page_offset=0,
        element=ElementType.UINT32,
        row_pages=extents.row_pages,
        serves=(0,),
        null_page=0,
        base=PageBase.PAGE_BASE_ABSOLUTE,
    )
    return CacheContract(page_tokens=extents.page_tokens, histories=(region,), page_tables=(view,))


def vocabularies_of(vocabulary: int) -> tuple[Vocabulary, InputVocabulary]:
    """Sampled and read ids of a text model: the same."""
    return (
        Vocabulary(
            tokens=vocabulary,
            histogram_width=histogram_width(vocabulary),
            mask_words=-(-vocabulary // 32),
        ),
        InputVocabulary(tokens=vocabulary, sentinels=()),
    )
