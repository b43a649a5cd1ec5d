"""Rules between fields of a contract: what each part says must agree with the others.

Decoding has checked every field alone.  Here a contract is checked as a whole, once, so
that neither packing, scheduling nor parsing has to ask again (OB-12).  Agreement with an
execution manifest is `agreement`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from prepared.contract import (
    ArgumentTyping,
    CacheContract,
    ElementType,
    FrontendContract,
    GraphContract,
    HistoryKind,
    HistoryRegion,
    ImageLayout,
    ImagePreparation,
    Indexing,
    Marker,
    ModelContract,
    Operation,
    ReasoningParser,
    ReasoningSyntax,
    RejectionRule,
    Retention,
    ServingContract,
    ToolParser,
    ToolSyntax,
    ValueBinding,
    ValueSource,
    Vocabulary,
)
from prepared.fields import ContractError
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


def check_unique(names: Iterable[str], *, at: str) -> None:
    """Refuse a name that stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ContractError(at, repr(name), expected="each name once")
        seen.add(name)


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
    """A consuming program names exactly one origin of its pending token (HV-30, HV-32)."""
    pending = graph.pending_token
    if (pending is None) == (graph.operation in CONSUMING):
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
        if graph.operation not in CONSUMING and not (graph.operation in PRODUCING and samples):
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


# --------------------------------------------------------------- frontend


def check_frontend(frontend: FrontendContract, model: ModelContract, *, at: str) -> None:
    """Parsers pair as the specification allows, and every id exists."""
    for index, token in enumerate(frontend.eos_token_ids):
        if token >= model.vocabulary.tokens:
            raise ContractError(
                f"{at}.eos_token_ids[{index}]",
                token,
                expected=f"an id below {model.vocabulary.tokens}",
            )
    check_tools(frontend.tools, at=f"{at}.tools")
    check_reasoning(frontend.reasoning, frontend.tools, at=f"{at}.reasoning")
    for path, marker in markers_of(frontend):
        if marker.token_id is not None and marker.token_id >= model.input_vocabulary.tokens:
            raise ContractError(
                f"{at}.{path}.token_id",
                marker.token_id,
                expected=f"an id below {model.input_vocabulary.tokens}",
            )
    check_images(frontend, model, at=at)
    check_unique((token.name for token in frontend.template_tokens), at=f"{at}.template_tokens")
    check_unique((level.effort for level in frontend.efforts), at=f"{at}.efforts")
    if not 0.0 < frontend.sampling.top_p <= 1.0:
        raise ContractError(
            f"{at}.sampling.top_p", frontend.sampling.top_p, expected="above 0, at most 1"
        )
    if not frontend.sampling.min_p <= 1.0:
        raise ContractError(f"{at}.sampling.min_p", frontend.sampling.min_p, expected="0 to 1")
    if frontend.sampling.repetition_penalty <= 0.0:
        raise ContractError(
            f"{at}.sampling.repetition_penalty",
            frontend.sampling.repetition_penalty,
            expected="above 0",
        )


TOOL_MARKERS: Final = (
    "section_open",
    "section_close",
    "call_open",
    "call_close",
    "name_open",
    "name_close",
    "key_open",
    "key_close",
    "value_open",
    "value_close",
)
REASONING_MARKERS: Final = ("open", "close", "terminal")


def markers_of(frontend: FrontendContract) -> list[tuple[str, Marker]]:
    """Every declared marker with its path."""
    found: list[tuple[str, Marker | None]] = [
        (f"tools.{name}", getattr(frontend.tools, name)) for name in TOOL_MARKERS
    ]
    found += [
        (f"reasoning.{name}", getattr(frontend.reasoning, name)) for name in REASONING_MARKERS
    ]
    for index, layout in enumerate(frontend.image_layouts):
        found += [
            (f"image_layouts[{index}].{name}", getattr(layout, name)) for name in ("open", "close")
        ]
    return [(path, marker) for path, marker in found if marker is not None]


def check_tools(tools: ToolSyntax, *, at: str) -> None:
    """No parser, no data; attribute typing names its attribute."""
    if tools.parser is ToolParser.NO_TOOLS:
        for name in (*TOOL_MARKERS, "typing", "type_attribute", "generic_recipient"):
            if getattr(tools, name) is not None:
                raise ContractError(f"{at}.{name}", "a value", expected="nothing with NO_TOOLS")
        return
    if tools.typing is None:
        raise ContractError(f"{at}.typing", "nothing", expected="how arguments are typed")
    by_attribute = tools.typing is ArgumentTyping.TYPED_BY_ATTRIBUTE
    if by_attribute != (tools.type_attribute is not None):
        raise ContractError(
            f"{at}.type_attribute",
            tools.type_attribute,
            expected=f"{'a name' if by_attribute else 'nothing'} with {tools.typing.name}",
        )
    if tools.generic_recipient is not None and tools.parser is not ToolParser.ATEM:
        raise ContractError(
            f"{at}.generic_recipient", repr(tools.generic_recipient), expected="it only with ATEM"
        )


PAIRED: Final[Sequence[tuple[ReasoningParser, ToolParser]]] = (
    (ReasoningParser.RECIPIENT_HEADERS, ToolParser.ATEM),
    (ReasoningParser.HARMONY_CHANNELS, ToolParser.HARMONY),
)
"""Syntaxes whose parser consumes complete frames: one needs the other (FI-18)."""


def check_reasoning(reasoning: ReasoningSyntax, tools: ToolSyntax, *, at: str) -> None:
    """Reasoning pairs with the tool syntax as FI-03 to FI-06 and FI-18 allow."""
    if reasoning.parser is ReasoningParser.NO_REASONING:
        for name in REASONING_MARKERS:
            if getattr(reasoning, name) is not None:
                raise ContractError(f"{at}.{name}", "a marker", expected="none with NO_REASONING")
    if reasoning.parser is ReasoningParser.THINK_TAGS and (
        reasoning.open is None or reasoning.close is None
    ):
        raise ContractError(f"{at}.open", "no pair of tags", expected="open and close")
    if reasoning.parser is ReasoningParser.XTML_THINK and tools.parser is not ToolParser.XTML_TOOLS:
        raise ContractError(
            f"{at}.parser", "XTML_THINK", expected="it only with XTML_TOOLS (FI-04)"
        )
    for frames, calls in PAIRED:
        if (reasoning.parser is frames) != (tools.parser is calls):
            raise ContractError(
                f"{at}.parser",
                reasoning.parser.name,
                expected=f"{frames.name} and {calls.name} together (FI-18)",
            )
    if reasoning.terminal is not None:
        opener = tools.section_open or tools.call_open
        if opener is None or reasoning.terminal != opener:
            raise ContractError(
                f"{at}.terminal",
                repr(reasoning.terminal.text),
                expected="the tool syntax's opener (FI-06)",
            )


def check_images(frontend: FrontendContract, model: ModelContract, *, at: str) -> None:
    """Images need vision, a geometry and a layout; without images there is none of them."""
    has_images = frontend.images.preparation is not ImagePreparation.NO_IMAGES
    if has_images != (frontend.images.geometry is not None):
        raise ContractError(
            f"{at}.images.geometry",
            "nothing" if has_images else "a geometry",
            expected=f"the opposite with {frontend.images.preparation.name}",
        )
    if has_images != (model.vision is not None):
        raise ContractError(
            f"{at}.images.preparation",
            frontend.images.preparation.name,
            expected="images exactly when the model has vision",
        )
    geometry = frontend.images.geometry
    if geometry is not None:
        for name in ("mean", "deviation"):
            channels = len(getattr(geometry, name))
            if channels != 3:
                raise ContractError(f"{at}.images.geometry.{name}", channels, expected="3 channels")
    if has_images != bool(frontend.image_layouts):
        raise ContractError(
            f"{at}.image_layouts",
            f"{len(frontend.image_layouts)} layouts",
            expected="a layout for images" if has_images else "none without images",
        )
    for index, layout in enumerate(frontend.image_layouts):
        where = f"{at}.image_layouts[{index}]"
        if layout.layout is ImageLayout.NO_IMAGE_LAYOUT:
            raise ContractError(f"{where}.layout", layout.layout.name, expected="no empty layout")
        if layout.feature_id is None or layout.feature_id >= model.input_vocabulary.tokens:
            raise ContractError(
                f"{where}.feature_id",
                layout.feature_id,
                expected=f"an id below {model.input_vocabulary.tokens}",
            )
