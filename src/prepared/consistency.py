"""Rules between fields of a contract: what each part says must agree with the others.

Decoding has checked every field alone.  Here a contract is checked as a whole, once, so
that neither packing, scheduling nor parsing has to ask again (OB-12).  Agreement with an
execution manifest is `agreement`'s.
"""

from __future__ import annotations

from typing import Final

from prepared.contract import (
    CacheContract,
    ElementType,
    GraphContract,
    HistoryKind,
    HistoryRegion,
    Indexing,
    ModelContract,
    Operation,
    RejectionRule,
    Retention,
    ServingContract,
    ValueBinding,
    ValueSource,
    Vocabulary,
)
from prepared.fields import ContractError, check_unique
from prepared.frontend import check_frontend
from prepared.inputs import check_inputs

PAGED: Final = frozenset(
    {HistoryKind.PAGED_KEY_VALUE, HistoryKind.PAGED_LATENT, HistoryKind.SLIDING_WINDOW}
)
SPECULATIVE: Final = frozenset({Operation.SPECULATIVE, Operation.MIXED_SPECULATIVE})
MIXED: Final = frozenset({Operation.MIXED, Operation.MIXED_SPECULATIVE})
CONSUMING: Final = SPECULATIVE | MIXED | {Operation.DECODE}
"""Operations that begin with a pending token."""

PRODUCING: Final = CONSUMING | {
    Operation.INITIALIZE,
    Operation.RESTORE,
    Operation.PREFILL,
    Operation.SCORED_PREFILL,
    Operation.RESUME,
}
"""Operations that may leave a pending token behind (HV-31)."""

LENGTH_SOURCES: Final = frozenset({ValueSource.QUERY_LENGTH, ValueSource.SPECULATIVE_PREFIX_LIMIT})


def check_contract(contract: ServingContract, *, at: str = "contract") -> None:
    """Refuse a serving contract whose parts disagree."""
    check_unique([contract.model_id, *contract.aliases], at=f"{at}.aliases")
    if contract.prefill_tokens > contract.context_tokens:
        raise ContractError(
            f"{at}.prefill_tokens",
            contract.prefill_tokens,
            expected=f"at most context_tokens, {contract.context_tokens}",
        )
    widths = contract.speculative_widths
    if list(widths) != sorted(set(widths)):
        raise ContractError(f"{at}.speculative_widths", list(widths), expected="ascending widths")
    if contract.defaults.output_tokens > contract.context_tokens:
        raise ContractError(
            f"{at}.defaults.output_tokens",
            contract.defaults.output_tokens,
            expected=f"at most context_tokens, {contract.context_tokens}",
        )
    check_model(contract.model, at=f"{at}.model")


def check_model(model: ModelContract, *, at: str) -> None:
    """Refuse a model contract whose parts disagree."""
    check_vocabularies(model, at=at)
    check_cache(model.cache, at=f"{at}.cache")
    check_unique((state.name for state in model.states), at=f"{at}.states")
    for index, state in enumerate(model.states):
        if state.offset + state.nbytes > state.row_stride:
            raise ContractError(
                f"{at}.states[{index}].nbytes",
                state.nbytes,
                expected=f"a view within its row of {state.row_stride} bytes",
            )
    check_unique((graph.name for graph in model.graphs), at=f"{at}.graphs")
    for index, graph in enumerate(model.graphs):
        check_graph(graph, model, at=f"{at}.graphs[{index}]")
    check_pending_writers(model, at=at)
    if model.vision and list(model.vision.patch_capacities) != sorted(
        set(model.vision.patch_capacities)
    ):
        raise ContractError(
            f"{at}.vision.patch_capacities",
            list(model.vision.patch_capacities),
            expected="ascending capacities",
        )
    check_frontend(model.frontend, model, at=f"{at}.frontend")
    check_inputs(model, at=at)


def check_vocabularies(model: ModelContract, *, at: str) -> None:
    """Sampled ids fit histogram and mask; sentinels are read but never sampled (SM-13, SM-14)."""
    words: Vocabulary = model.vocabulary
    if words.histogram_width < words.tokens:
        raise ContractError(
            f"{at}.vocabulary.histogram_width",
            words.histogram_width,
            expected=f"at least {words.tokens}",
        )
    if words.mask_words * 32 < words.tokens:
        raise ContractError(
            f"{at}.vocabulary.mask_words",
            words.mask_words,
            expected=f"at least {-(-words.tokens // 32)}",
        )
    if model.input_vocabulary.tokens < words.tokens:
        raise ContractError(
            f"{at}.input_vocabulary.tokens",
            model.input_vocabulary.tokens,
            expected=f"at least vocabulary.tokens, {words.tokens}",
        )
    for index, span in enumerate(model.input_vocabulary.sentinels):
        if span.first < words.tokens or span.first + span.count > model.input_vocabulary.tokens:
            raise ContractError(
                f"{at}.input_vocabulary.sentinels[{index}]",
                f"{span.first} to {span.first + span.count - 1}",
                expected=f"ids from {words.tokens} to {model.input_vocabulary.tokens - 1}",
            )


# ------------------------------------------------------------------ cache


def check_cache(cache: CacheContract, *, at: str) -> None:
    """Regions and page tables agree (AH-01 to AH-07)."""
    check_unique((region.name for region in cache.histories), at=f"{at}.histories")
    for index, region in enumerate(cache.histories):
        where = f"{at}.histories[{index}]"
        if region.kind in PAGED:
            check_paged_region(region, cache.page_tokens, at=where)
        else:
            check_row_region(region, at=where)
    for index, view in enumerate(cache.page_tables):
        where = f"{at}.page_tables[{index}]"
        if view.element not in (ElementType.INT32, ElementType.UINT32):
            raise ContractError(f"{where}.element", view.element.name, expected="INT32 or UINT32")
        for place, served in enumerate(view.serves):
            if served >= len(cache.histories) or cache.histories[served].kind not in PAGED:
                raise ContractError(
                    f"{where}.serves[{place}]", served, expected="the index of a paged region"
                )


def check_paged_region(region: HistoryRegion, page_tokens: int, *, at: str) -> None:
    """A paged region has planes whose records divide a page (AH-03, AH-04)."""
    if not region.planes:
        raise ContractError(f"{at}.planes", "none", expected="the planes of a paged region")
    for name in ("row_buffer", "snapshot_buffer"):
        if getattr(region, name) is not None:
            raise ContractError(f"{at}.{name}", "a name", expected="nothing in a paged region")
    if region.fields:
        raise ContractError(f"{at}.fields", len(region.fields), expected="none in a paged region")
    records, rest = divmod(page_tokens * region.record_tokens_denominator, region.record_tokens)
    if rest or not records:
        raise ContractError(
            f"{at}.record_tokens",
            region.record_tokens,
            expected=f"a divisor of page_tokens, {page_tokens}",
        )
    for index, plane in enumerate(region.planes):
        if plane.records_per_page != records:
            raise ContractError(
                f"{at}.planes[{index}].records_per_page",
                plane.records_per_page,
                expected=f"{records}",
            )
        least = plane.records_per_page * plane.record_bytes
        if plane.page_stride_bytes < least or plane.page_stride_bytes % plane.alignment:
            raise ContractError(
                f"{at}.planes[{index}].page_stride_bytes",
                plane.page_stride_bytes,
                expected=f"at least {least}, a multiple of {plane.alignment}",
            )
    check_retention(region, at=at)


def check_retention(region: HistoryRegion, *, at: str) -> None:
    """A window has an extent, and a sliding window is one (AH-04)."""
    if region.retention is Retention.RETAIN_CHUNKED:
        raise ContractError(f"{at}.retention", "RETAIN_CHUNKED", expected="a kind that runs")
    windowed = region.retention is Retention.RETAIN_WINDOW
    if windowed != (region.window_tokens is not None):
        raise ContractError(
            f"{at}.window_tokens",
            region.window_tokens,
            expected="an extent" if windowed else "nothing with RETAIN_FULL",
        )
    if region.kind is HistoryKind.SLIDING_WINDOW and not windowed:
        raise ContractError(
            f"{at}.retention", region.retention.name, expected="RETAIN_WINDOW (AH-04)"
        )


def check_row_region(region: HistoryRegion, *, at: str) -> None:
    """A row region has a buffer of rows and named fields in it (AH-05)."""
    if region.planes:
        raise ContractError(f"{at}.planes", len(region.planes), expected="none in a row region")
    if region.row_buffer is None and region.snapshot_buffer is None:
        raise ContractError(f"{at}.row_buffer", "nothing", expected="a buffer of rows")
    if region.window_tokens is not None:
        raise ContractError(
            f"{at}.window_tokens", region.window_tokens, expected="nothing in a row region"
        )
    check_unique((field.name for field in region.fields), at=f"{at}.fields")
    for index, field in enumerate(region.fields):
        if field.rows > 1 and field.stride < field.nbytes:
            raise ContractError(
                f"{at}.fields[{index}].stride", field.stride, expected=f"at least {field.nbytes}"
            )


# ----------------------------------------------------------------- graphs


def check_graph(graph: GraphContract, model: ModelContract, *, at: str) -> None:
    """A program's capacities, values, states and speculation agree."""
    most = graph.batch_capacity * graph.token_capacity
    if not graph.batch_capacity <= graph.packed_token_capacity <= most:
        raise ContractError(
            f"{at}.packed_token_capacity",
            graph.packed_token_capacity,
            expected=f"{graph.batch_capacity} to {most}",
        )
    if graph.operation is Operation.DECODE and graph.token_capacity != 1:
        raise ContractError(f"{at}.token_capacity", graph.token_capacity, expected="1 (SG-03)")
    for index, value in enumerate(graph.values):
        check_value(value, model, at=f"{at}.values[{index}]")
    check_unique((value.destination for value in graph.values), at=f"{at}.values")
    names = {state.name for state in model.states}
    check_unique((access.state for access in graph.states), at=f"{at}.states")
    for index, access in enumerate(graph.states):
        if access.state not in names:
            raise ContractError(
                f"{at}.states[{index}].state", repr(access.state), expected="a declared state"
            )
    regions = {region.name for region in model.cache.histories}
    for index, resource in enumerate(graph.resources):
        if resource.history not in regions:
            raise ContractError(
                f"{at}.resources[{index}].history",
                repr(resource.history),
                expected="a declared history",
            )
    check_pending_token(graph, at=at)
    check_length_sources(graph, at=at)
    check_speculation(graph, at=at)
    has_row = any(value.source is ValueSource.MIXED_PREFILL_ROW for value in graph.values)
    if has_row != (graph.operation in MIXED):
        raise ContractError(
            f"{at}.values",
            "a mixed prefill row" if has_row else "no mixed prefill row",
            expected=f"the opposite for {graph.operation.name}",
        )


ONLY_WITH: Final[dict[str, ValueSource]] = {
    "constant": ValueSource.CONSTANT,
    "image_tensor": ValueSource.IMAGE_TENSOR,
    "page_table": ValueSource.PAGE_TABLE,
    "engram_table": ValueSource.ENGRAM_ROW_IDS,
}


def check_value(value: ValueBinding, model: ModelContract, *, at: str) -> None:
    """A binding says what its source needs, and nothing else (HV-12 to HV-15)."""
    for name, source in ONLY_WITH.items():
        given = getattr(value, name) is not None
        if given != (value.source is source):
            raise ContractError(
                f"{at}.{name}",
                getattr(value, name),
                expected=f"{'nothing' if given else 'a value'} with {value.source.name}",
            )
    is_padding = value.source is ValueSource.INACTIVE_PADDING
    needs_padding = is_padding or value.indexing is Indexing.SUBMISSION_ROW
    reason = value.source.name if is_padding else value.indexing.name
    if needs_padding != (value.padding is not None):
        raise ContractError(
            f"{at}.padding",
            value.padding,
            expected=f"{'a value' if needs_padding else 'nothing'} with {reason}",
        )
    for name, count in (
        ("page_table", len(model.cache.page_tables)),
        ("engram_table", len(model.engram_tables)),
    ):
        index = getattr(value, name)
        if index is not None and index >= count:
            raise ContractError(f"{at}.{name}", index, expected=f"an index below {count}")


def check_pending_token(graph: GraphContract, *, at: str) -> None:
    """A consuming program names exactly one origin of its pending token (HV-30, HV-32).

    RESUME consumes nothing; it may name the host value that it makes pending.
    """
    pending = graph.pending_token
    needed = graph.operation in CONSUMING
    if needed != (pending is not None) and graph.operation is not Operation.RESUME:
        raise ContractError(
            f"{at}.pending_token",
            "nothing" if pending is None else "an origin",
            expected=f"the opposite for {graph.operation.name}",
        )
    if pending is None:
        return
    if (pending.state is None) == (pending.destination is None):
        raise ContractError(
            f"{at}.pending_token",
            "both or neither of state and destination",
            expected="exactly one",
        )
    if graph.operation is Operation.RESUME and pending.state is not None:
        raise ContractError(
            f"{at}.pending_token.state",
            repr(pending.state),
            expected="a destination for RESUME: its token comes from the host (HV-32)",
        )
    if pending.state is not None:
        readable = {access.state for access in graph.states if access.access.reads}
        if pending.state not in readable:
            raise ContractError(
                f"{at}.pending_token.state",
                repr(pending.state),
                expected="a state that the program reads",
            )
    elif pending.destination not in {value.destination for value in graph.values}:
        raise ContractError(
            f"{at}.pending_token.destination",
            repr(pending.destination),
            expected="one of the program's values",
        )


def check_pending_writers(model: ModelContract, *, at: str) -> None:
    """Whoever produces a device-owned pending token declares the write (HV-31)."""
    owned = {
        graph.pending_token.state
        for graph in model.graphs
        if graph.pending_token and graph.pending_token.state
    }
    for index, graph in enumerate(model.graphs):
        samples = any(value.source is ValueSource.SAMPLING_DECISION for value in graph.values)
        produces = graph.operation in PRODUCING and (samples or graph.pending_token is not None)
        if graph.operation not in CONSUMING and not produces:
            continue
        written = {access.state for access in graph.states if access.access.writes}
        missing = owned - written
        if missing:
            raise ContractError(
                f"{at}.graphs[{index}].states",
                f"no write of {sorted(missing)[0]!r}",
                expected="a write of every pending token that the program produces",
            )


def check_length_sources(graph: GraphContract, *, at: str) -> None:
    """A speculative program has one length source; only it may have ceilings (SG-14)."""
    lengths = [value.source for value in graph.values if value.source in LENGTH_SOURCES]
    if graph.operation in SPECULATIVE:
        if len(lengths) != 1:
            raise ContractError(
                f"{at}.values",
                f"{len(lengths)} length sources",
                expected="exactly one of QUERY_LENGTH and SPECULATIVE_PREFIX_LIMIT",
            )
    elif ValueSource.SPECULATIVE_PREFIX_LIMIT in lengths:
        raise ContractError(
            f"{at}.values",
            "SPECULATIVE_PREFIX_LIMIT",
            expected="it only in a speculative program",
        )


def check_speculation(graph: GraphContract, *, at: str) -> None:
    """Extents of proposals agree with the program's (SG-04, SG-11, SG-26)."""
    spec = graph.speculation
    if (spec is None) == (graph.operation in SPECULATIVE):
        raise ContractError(
            f"{at}.speculation",
            "nothing" if spec is None else "extents",
            expected=f"the opposite for {graph.operation.name}",
        )
    if spec is None:
        return
    if graph.token_capacity == 1 and spec.draft_tokens:
        raise ContractError(
            f"{at}.speculation.draft_tokens", spec.draft_tokens, expected="0 at width one (SG-04)"
        )
    if spec.confidence_width not in (0, spec.draft_tokens):
        raise ContractError(
            f"{at}.speculation.confidence_width",
            spec.confidence_width,
            expected=f"0 or draft_tokens, {spec.draft_tokens} (SG-26)",
        )
    if (spec.confidence_width > 0) != (spec.confidence_buffer is not None):
        raise ContractError(
            f"{at}.speculation.confidence_buffer",
            spec.confidence_buffer,
            expected="a buffer exactly when there is confidence",
        )
    if spec.rejection is RejectionRule.BLOCK:
        raise ContractError(f"{at}.speculation.rejection", "BLOCK", expected="a rule that runs")
    if spec.parent_table is not None:
        raise ContractError(
            f"{at}.speculation.parent_table", "a table", expected="nothing: no trees"
        )
