"""Declarations that recipes share: admission, sampling, state transfer, paged text (OB-01).

A recipe says sizes and syntax; everything that scheduling and packing need to know of a
paged-text model is assembled here, from the same storage table that programs are recorded
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ignition.preparation.storage import (
    CONTINUATIONS,
    SLOT_FIELDS,
    SLOT_NBYTES,
    Storage,
    histogram_width,
)
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
    ProposalKind,
    RejectionRule,
    ResourceDependency,
    Retention,
    ReusePoint,
    RowField,
    Speculation,
    StateAccess,
    StateView,
    ValueBinding,
    ValueSource,
    Vocabulary,
)

HISTORY: Final = "keys_values"
PARTIAL_PAGES: Final = "partial_pages"

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
    "logprob_counts": ValueSource.LOGPROB_COUNT,
}

STATES: Final[Mapping[str, tuple[str, str]]] = {
    "generation": ("generation", "generation"),
    "pending_token": ("pending", "pending"),
    "consumed": ("consumed", "consumed"),
    "output": ("emitted", "minimum_output"),
    "sampling": ("seed", "frequency"),
    "finish": ("finished", "eos"),
    "scoring": ("logprobs", "logprobs"),
}
"""State views by name: the first and the last slot field that each spans."""

PACKED: Final = frozenset({Operation.PREFILL, Operation.SCORED_PREFILL})
"""Operations whose capacity is counted in prompt tokens."""


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
        size = self.packed_tokens if self.operation in PACKED else self.rows
        size = self.row_tokens if self.operation is Operation.MIXED else size
        return f"{self.operation.name.lower()}_{size}"

    @property
    def draft_tokens(self) -> int:
        """D, for programs that propose."""
        return self.row_tokens - 1 if self.operation is Operation.SPECULATIVE else 0


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
MASKS: Final = (binding("masks", ValueSource.GRAMMAR_MASK, Indexing.PHYSICAL_ROW),)
"""Rewritten for constrained lanes before whatever samples; admission allows everything."""

CEILINGS: Final = binding("query_lengths", ValueSource.QUERY_LENGTH, Indexing.ACTIVE_ROW)
PROMPT: Final = (
    CEILINGS,
    binding("sampling", ValueSource.SAMPLING_DECISION, Indexing.ACTIVE_ROW),
    binding("prompt_tokens", ValueSource.PROMPT_TOKENS, Indexing.PACKED_TOKEN),
    binding("prompt_positions", ValueSource.PROMPT_POSITIONS, Indexing.PACKED_TOKEN),
)
TARGETS: Final = (
    binding("scored_targets", ValueSource.SCORED_TARGET_TOKENS, Indexing.PACKED_TOKEN),
)
ADMITTED: Final = (
    *(binding(name, source, Indexing.ACTIVE_ROW) for name, source in ADMISSION.items()),
    binding("histograms", ValueSource.PROMPT_HISTOGRAM, Indexing.PHYSICAL_ROW),
    binding("bias_ids", ValueSource.LOGIT_BIAS_IDS, Indexing.PHYSICAL_ROW),
    binding("bias_values", ValueSource.LOGIT_BIAS_VALUES, Indexing.PHYSICAL_ROW),
    *MASKS,
)

RESTORED: Final = (
    binding("restore_rows", ValueSource.RESTORE_SOURCE, Indexing.ACTIVE_ROW),
    binding("restore_pages", ValueSource.RESTORE_PAGE, Indexing.ACTIVE_ROW),
)
PUBLISHED: Final = (
    binding("consumed_endpoints", ValueSource.CONSUMED_ENDPOINT, Indexing.ACTIVE_ROW),
    binding("snapshot_rows", ValueSource.SNAPSHOT_DESTINATION, Indexing.ACTIVE_ROW),
)
PENDING: Final = binding("pending_tokens", ValueSource.COMPLETED_PENDING_TOKEN, Indexing.ACTIVE_ROW)
MIXED_ROW: Final = binding("mixed_row", ValueSource.MIXED_PREFILL_ROW, Indexing.SCALAR)

VALUES: Final[Mapping[Operation, tuple[ValueBinding, ...]]] = {
    Operation.INITIALIZE: (*LANES, *ADMITTED),
    Operation.RESTORE: (*LANES, *ADMITTED, *RESTORED, *PAGES),
    Operation.PREFILL: (*LANES, *PROMPT, *PAGES, *MASKS),
    Operation.SCORED_PREFILL: (*LANES, *PROMPT, *TARGETS, *PAGES, *MASKS),
    Operation.RESUME: (*LANES, PENDING),
    Operation.DECODE: (*LANES, *PAGES, *MASKS),
    Operation.SPECULATIVE: (*LANES, CEILINGS, *PAGES),
    Operation.MIXED: (*LANES, MIXED_ROW, *PROMPT, *PAGES, *MASKS),
    Operation.PUBLISH_SNAPSHOT: (*LANES, *PUBLISHED, *PAGES),
}

PROMPT_ACCESSES: Final[Mapping[str, Access]] = {
    "generation": Access.READ,
    "pending_token": Access.WRITE,
    "consumed": Access.READ_WRITE,
    "output": Access.READ_WRITE,
    "sampling": Access.READ,
    "finish": Access.READ_WRITE,
    "scoring": Access.READ,
}

ACCESSES: Final[Mapping[Operation, Mapping[str, Access]]] = {
    Operation.INITIALIZE: dict.fromkeys(STATES, Access.WRITE),
    Operation.RESTORE: dict.fromkeys(STATES, Access.WRITE),
    Operation.PREFILL: PROMPT_ACCESSES,
    Operation.SCORED_PREFILL: PROMPT_ACCESSES,
    Operation.RESUME: {
        "generation": Access.READ,
        "pending_token": Access.WRITE,
        "consumed": Access.READ,
        "finish": Access.READ,
    },
    **dict.fromkeys(
        (Operation.DECODE, Operation.SPECULATIVE, Operation.MIXED),
        {
            "generation": Access.READ,
            "pending_token": Access.READ_WRITE,
            "consumed": Access.READ_WRITE,
            "output": Access.READ_WRITE,
            "sampling": Access.READ,
            "finish": Access.READ_WRITE,
            "scoring": Access.READ,
        },
    ),
    Operation.PUBLISH_SNAPSHOT: dict.fromkeys(("generation", "consumed", "finish"), Access.READ),
}

RESOURCES: Final[Mapping[Operation, Mapping[str, Access]]] = {
    Operation.INITIALIZE: {},
    Operation.RESTORE: {HISTORY: Access.READ_WRITE, PARTIAL_PAGES: Access.READ},
    Operation.PREFILL: {HISTORY: Access.READ_WRITE},
    Operation.SCORED_PREFILL: {HISTORY: Access.READ_WRITE},
    Operation.RESUME: {},
    Operation.DECODE: {HISTORY: Access.READ_WRITE},
    Operation.SPECULATIVE: {HISTORY: Access.READ_WRITE},
    Operation.MIXED: {HISTORY: Access.READ_WRITE},
    Operation.PUBLISH_SNAPSHOT: {HISTORY: Access.READ, PARTIAL_PAGES: Access.WRITE},
}
"""Histories that each operation reads or writes."""

ON_DEVICE: Final = PendingToken(state="pending_token", destination=None)

PENDING_TOKENS: Final[Mapping[Operation, PendingToken]] = {
    Operation.RESUME: PendingToken(state=None, destination=PENDING.destination),
    Operation.DECODE: ON_DEVICE,
    Operation.SPECULATIVE: ON_DEVICE,
    Operation.MIXED: ON_DEVICE,
}
"""Where the pending token comes from: the host's value, or the slot's state (HV-30, HV-32)."""


def graph_of(variant: Variant) -> GraphContract:
    """What scheduling and packing must know of a program."""
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
        resources=tuple(
            ResourceDependency(history=history, access=access)
            for history, access in RESOURCES[variant.operation].items()
        ),
        pending_token=PENDING_TOKENS.get(variant.operation),
        state_rows_per_request=1,
        tuned_bindings=(),
        speculation=speculation_of(variant),
        cursor_lag_tokens=None,
        rows_past_endpoint=0,
        engram_frame_tokens=0,
    )


def speculation_of(variant: Variant) -> Speculation | None:
    """Proposals of a rectangular program: one for every row but the pending token's (SG-11)."""
    if variant.operation is not Operation.SPECULATIVE:
        return None
    return Speculation(
        draft_tokens=variant.draft_tokens,
        confidence_width=0,
        proposals=ProposalKind.LEARNED,
        rejection=RejectionRule.EXACT_MATCH,
        confidence_buffer=None,
        parent_table=None,
        draft_draws_per_position=0,
        accept_draws_per_position=0,
        residual_draws_per_position=0,
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
    """One paged key/value history and its page table, and rows that keep its partial pages."""
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
    return CacheContract(
        page_tokens=extents.page_tokens,
        histories=(region, partial_pages_of(storage)),
        page_tables=(view,),
    )


def partial_pages_of(storage: Storage) -> HistoryRegion:
    """Continuation rows: a page of every plane each (AH-05, AH-15)."""
    nbytes = storage.extents.page_nbytes
    return HistoryRegion(
        name=PARTIAL_PAGES,
        kind=HistoryKind.CONTINUATION,
        planes=(),
        record_tokens=1,
        record_tokens_denominator=1,
        retention=Retention.RETAIN_FULL,
        window_tokens=None,
        fields=tuple(
            RowField(
                name=name,
                offset=index * nbytes,
                nbytes=nbytes,
                rows=1,
                stride=nbytes,
                snapshot=True,
            )
            for index, name in enumerate(("keys", "values"))
        ),
        row_buffer=None,
        snapshot_buffer=CONTINUATIONS,
        extra_retained_tokens=0,
        lookahead_tokens=0,
        initial=InitialContent.CONTENT_UNDEFINED,
        reuse=ReusePoint.REUSE_ANY_ENDPOINT,
        replay_tokens=0,
        snapshot=True,
        draft_lag_tokens=0,
    )


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
