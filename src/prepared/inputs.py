"""Rules of what programs take besides paged text: images, proposals, n-gram tables.

Part of `consistency.check_model`.  What a field of contract version 3 must say is asked of
contracts of version 3 only: older ones could not say it (OB-17).
"""

from __future__ import annotations

from typing import Final

from prepared.contract import (
    ElementType,
    EngramHash,
    EngramIdSource,
    EngramTable,
    GraphContract,
    ImageLayout,
    ModelContract,
    ProposalKind,
    Speculation,
    ValueSource,
)
from prepared.fields import ContractError

POSITION_AXES: Final = (1, 3)
COPIED_INPUTS: Final = frozenset(
    source for source in ValueSource if source.name.startswith("COPIED_")
)
NEEDED_OF_COPIES: Final = (ValueSource.COPIED_CANDIDATES, ValueSource.COPIED_COUNT)
"""Without these two there is no concrete copied-token input (SM-04)."""

MASKS: Final = frozenset({ValueSource.GRAMMAR_MASK, ValueSource.COPIED_GRAMMAR_MASKS})
STREAMS: Final = (
    "draft_draws_per_position",
    "accept_draws_per_position",
    "residual_draws_per_position",
)


def check_inputs(model: ModelContract, *, at: str) -> None:
    """Images, proposals and n-gram tables agree with the programs that take them."""
    if model.version >= 3:
        check_vision(model, at=at)
        check_layouts(model, at=f"{at}.frontend")
        check_draws(model, at=at)
        for index, graph in enumerate(model.graphs):
            if graph.speculation is not None:
                check_proposals(graph, graph.speculation, at=f"{at}.graphs[{index}]")
    names: set[str] = set()
    for index, table in enumerate(model.engram_tables):
        where = f"{at}.engram_tables[{index}]"
        if table.name in names:
            raise ContractError(f"{where}.name", repr(table.name), expected="each name once")
        names.add(table.name)
        check_table(table, model, at=where)


# ----------------------------------------------------------------- images


def check_vision(model: ModelContract, *, at: str) -> None:
    """Feature rows have bytes and planes; positions have one axis or three (SM-15)."""
    vision = model.vision
    if vision is not None:
        for name in ("feature_row_bytes", "feature_planes"):
            if not getattr(vision, name):
                raise ContractError(f"{at}.vision.{name}", 0, expected="at least 1")
        if vision.position_axes not in POSITION_AXES:
            raise ContractError(
                f"{at}.vision.position_axes", vision.position_axes, expected="1 or 3"
            )
    if vision is not None and vision.position_axes > 1:
        return
    for index, graph in enumerate(model.graphs):
        for place, value in enumerate(graph.values):
            if value.source is ValueSource.POSITION_DELTA:
                raise ContractError(
                    f"{at}.graphs[{index}].values[{place}].source",
                    "POSITION_DELTA",
                    expected="it only with three position axes",
                )


def check_layouts(model: ModelContract, *, at: str) -> None:
    """A grid of positions needs the axes, and no span needs more rows than a window has."""
    if model.vision is None:
        return
    for index, layout in enumerate(model.frontend.image_layouts):
        where = f"{at}.image_layouts[{index}]"
        if layout.layout is ImageLayout.GRID_POSITIONS and model.vision.position_axes != 3:
            raise ContractError(
                f"{where}.layout", "GRID_POSITIONS", expected="it only with three position axes"
            )
        if layout.atomic and layout.longest_span > model.vision.window_features:
            raise ContractError(
                f"{where}.longest_span",
                layout.longest_span,
                expected=f"at most window_features, {model.vision.window_features}, when atomic",
            )


# -------------------------------------------------------------- proposals


def check_draws(model: ModelContract, *, at: str) -> None:
    """Every program reserves the same draws a position, so that all advance alike (SG-25)."""
    first: Speculation | None = None
    for index, graph in enumerate(model.graphs):
        spec = graph.speculation
        first = first or spec
        if spec is None or first is None:
            continue
        for name in STREAMS:
            ours, theirs = getattr(spec, name), getattr(first, name)
            if ours != theirs:
                raise ContractError(
                    f"{at}.graphs[{index}].speculation.{name}",
                    ours,
                    expected=f"{theirs}, as in every program (SG-25)",
                )


def check_proposals(graph: GraphContract, spec: Speculation, *, at: str) -> None:
    """Copied tokens come in exactly when the program takes them; no mask meets a learned draft."""
    sources = {value.source for value in graph.values}
    if spec.proposals is ProposalKind.LEARNED:
        for place, value in enumerate(graph.values):
            if value.source in COPIED_INPUTS:
                raise ContractError(
                    f"{at}.values[{place}].source",
                    value.source.name,
                    expected="no copied input with LEARNED proposals",
                )
            if value.source in MASKS and spec.draft_tokens:
                raise ContractError(
                    f"{at}.values[{place}].source",
                    value.source.name,
                    expected="no grammar where every proposal is learned",
                )
        return
    for source in NEEDED_OF_COPIES:
        if source not in sources:
            raise ContractError(
                f"{at}.values", f"no {source.name}", expected=f"it with {spec.proposals.name}"
            )
    ranked = ValueSource.SPECULATIVE_PREFIX_LIMIT in sources and spec.confidence_width > 0
    if ranked and ValueSource.COPIED_CONFIDENCE not in sources:
        raise ContractError(
            f"{at}.values",
            "no COPIED_CONFIDENCE",
            expected="it where copied proposals are ranked by confidence",
        )


# ---------------------------------------------------------- n-gram tables


def check_table(table: EngramTable, model: ModelContract, *, at: str) -> None:
    """Columns, ranks and row ids of a table in host memory (SG-34)."""
    if table.row_id not in (ElementType.INT32, ElementType.INT64):
        raise ContractError(f"{at}.row_id", table.row_id.name, expected="INT32 or INT64")
    ranks: set[int] = set()
    for index, shard in enumerate(table.shards):
        if shard.rank in ranks:
            raise ContractError(f"{at}.shards[{index}].rank", shard.rank, expected="each rank once")
        ranks.add(shard.rank)
        if shard.first_column + shard.columns > table.columns_per_token:
            raise ContractError(
                f"{at}.shards[{index}].columns",
                shard.columns,
                expected=f"columns below {table.columns_per_token}",
            )
    if table.hash is not None:
        check_hash(table.hash, table, model, at=f"{at}.hash")
    elif table.ids is EngramIdSource.HOST_COMPUTED:
        raise ContractError(f"{at}.hash", "nothing", expected="a hash with HOST_COMPUTED")


def check_hash(found: EngramHash, table: EngramTable, model: ModelContract, *, at: str) -> None:
    """Every column has its n-gram and its rows; numbers stay below their bound."""
    if len(found.columns) != table.columns_per_token:
        raise ContractError(
            f"{at}.columns", len(found.columns), expected=f"{table.columns_per_token} columns"
        )
    for index, column in enumerate(found.columns):
        if column.order > len(found.multipliers):
            raise ContractError(
                f"{at}.columns[{index}].order",
                column.order,
                expected=f"at most {len(found.multipliers)}: one multiplier a token",
            )
        if column.offset + column.modulus > table.rows:
            raise ContractError(
                f"{at}.columns[{index}].modulus",
                column.modulus,
                expected=f"rows below {table.rows}",
            )
    if found.padding >= found.numbers:
        raise ContractError(f"{at}.padding", found.padding, expected=f"below {found.numbers}")
    tokens = model.input_vocabulary.tokens
    if found.token_map is None and found.numbers < tokens:
        raise ContractError(f"{at}.numbers", found.numbers, expected=f"at least {tokens}, unmapped")
    for index, span in enumerate(found.dead_tokens):
        if span.first + span.count > tokens:
            raise ContractError(
                f"{at}.dead_tokens[{index}]",
                f"{span.first} to {span.first + span.count - 1}",
                expected=f"ids below {tokens}",
            )
