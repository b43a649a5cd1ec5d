"""The schema can say what the specification's sentences name, field by field and word by word."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from prepared.contract import (
    Access,
    HistoryKind,
    ImageLayout,
    ImagePreparation,
    Indexing,
    Operation,
    ReasoningParser,
    RejectionRule,
    Retention,
    ToolParser,
    ValueSource,
)
from prepared.manifest import CompletionField
from tests.treaty.refusals import attack
from tests.treaty.schema import NEWER, SHAPES, said_by


def says(owner: str | type[IntEnum], names: str, *, clauses: tuple[str, ...]) -> Any:
    """A case: this message has these fields, or this enum these words, as a clause asks."""
    title = owner if isinstance(owner, str) else owner.__name__
    return attack(f"{clauses[0]} {title} {names.split()[0]}", owner, names, clauses=clauses)


FIELDS = [
    says(
        "ServingContract",
        "model_id aliases cache_identity context_tokens prefill_tokens",
        clauses=("SM-01",),
    ),
    says("ServingContract", "prepared_pages prepared_snapshots concurrency", clauses=("SM-01",)),
    says("ServingContract", "speculative_widths defaults", clauses=("SM-01",)),
    says(
        "ModelContract",
        "version vocabulary input_vocabulary vision cache graphs frontend",
        clauses=("SM-12",),
    ),
    says("Vocabulary", "tokens histogram_width mask_words", clauses=("SM-13",)),
    says("InputVocabulary", "tokens sentinels", clauses=("SM-14",)),
    says(
        "Vision",
        "feature_slots window_features patches_per_feature patch_capacities",
        clauses=("SM-15",),
    ),
    says("CacheContract", "page_tokens histories page_tables", clauses=("SM-16",)),
    says("GraphContract", "operation values states resources", clauses=("SM-17",)),
    says("FrontendContract", "tools reasoning images image_layouts", clauses=("SM-18",)),
    says("GraphContract", "name operation", clauses=("HV-01",)),
    says("ValueBinding", "destination source", clauses=("HV-03",)),
    says("ValueBinding", "indexing", clauses=("HV-12",)),
    says("ValueBinding", "offset padding", clauses=("HV-15",)),
    says(
        "SubmissionHeader", "buffer sequence_offset frame_offset program_offset", clauses=("HV-17",)
    ),
    says("GraphContract", "tuned_bindings", clauses=("HV-18",)),
    says("TunedBinding", "buffer producer", clauses=("HV-19",)),
    says("ExecutionManifest", "programs tuning", clauses=("HV-20",)),
    says("StateView", "buffer offset row_stride nbytes", clauses=("HV-28",)),
    says("StateAccess", "state access", clauses=("HV-29",)),
    says("PendingToken", "state destination", clauses=("HV-30",)),
    says(
        "GraphContract",
        "batch_capacity token_capacity packed_token_capacity speculation",
        clauses=("SG-05",),
    ),
    says(
        "Program",
        "batch_capacity token_capacity packed_token_capacity draft_tokens",
        clauses=("SG-05",),
    ),
    says("GraphContract", "batch_capacity", clauses=("SG-07",)),
    says("Speculation", "draft_tokens", clauses=("SG-08",)),
    says("GraphContract", "token_capacity", clauses=("SG-09",)),
    says("GraphContract", "packed_token_capacity", clauses=("SG-10",)),
    says("Speculation", "confidence_width confidence_buffer", clauses=("SG-26",)),
    says("GraphContract", "state_rows_per_request", clauses=("SG-35",)),
    says("CacheContract", "page_tokens", clauses=("AH-01",)),
    says("HistoryRegion", "kind", clauses=("AH-02",)),
    says("HistoryRegion", "planes record_tokens record_tokens_denominator", clauses=("AH-03",)),
    says("HistoryRegion", "window_tokens", clauses=("AH-04",)),
    says("HistoryRegion", "fields row_buffer snapshot_buffer", clauses=("AH-05",)),
    says("PageTableView", "destination page_offset", clauses=("AH-06",)),
    says("SignedEnvelope", "body publisher_namespace public_key signature", clauses=("OB-13",)),
    says("ProtectedIndex", "version index", clauses=("OB-18",)),
    says("ExecutableResource", "id kind stored", clauses=("OB-20",)),
    says("StoredFrame", "nbytes decoded_nbytes chunk_nbytes chunk_sha256", clauses=("OB-20",)),
    says("DeploymentBody", "contract", clauses=("PM-02",)),
    says("ModelIndex", "contract", clauses=("PM-02",)),
    says(
        "ExecutionManifest",
        "buffers kernels launches programs transports completion",
        clauses=("PM-05",),
    ),
    says("ReasoningSyntax", "wrapping terminal answer_prefix", clauses=("FI-05",)),
    says("ToolSyntax", "wrapping separator", clauses=("FI-05",)),
    says("PrefixBoundaryRule", "role needs_generation_prompt", clauses=("FI-12",)),
    says("CoreBody", "rebuild catalogs", clauses=("SM-07",)),
    says("WeightCatalog", "rank views", clauses=("SM-07",)),
    says("GraphContract", "cursor_lag_tokens states", clauses=("AH-09",)),
    says("FrontendContract", "eos_token_ids template_tokens images sampling", clauses=("FI-32",)),
]


@pytest.mark.parametrize(("message", "names"), FIELDS)
def test_what_a_clause_names_has_a_field(message: str, names: str) -> None:
    assert set(names.split()) <= set(said_by(SHAPES[message]))


WORDS = [
    says(
        HistoryKind,
        "PAGED_KEY_VALUE PAGED_LATENT SLIDING_WINDOW RECURRENT CONTINUATION",
        clauses=("AH-02",),
    ),
    says(
        ValueSource,
        "SLOT GENERATION LIVE_ROWS QUERY_LENGTH SPECULATIVE_PREFIX_LIMIT",
        clauses=("HV-05",),
    ),
    says(ValueSource, "SAMPLING_DECISION MIXED_PREFILL_ROW", clauses=("HV-05",)),
    says(
        ValueSource,
        "PROMPT_TOKENS SCORED_TARGET_TOKENS COMPLETED_PENDING_TOKEN",
        clauses=("HV-06",),
    ),
    says(
        ValueSource,
        "PROMPT_POSITIONS IMAGE_FEATURE_INDICES IMAGE_CONTEXT_INDICES",
        clauses=("HV-06",),
    ),
    says(ValueSource, "IMAGE_FEATURE_SLOT", clauses=("HV-06",)),
    says(
        ValueSource,
        "PAGE_TABLE LIVE_STATE_ROW RESTORE_SOURCE SNAPSHOT_DESTINATION",
        clauses=("HV-07",),
    ),
    says(ValueSource, "CONSUMED_ENDPOINT RESTORE_PAGE", clauses=("HV-07",)),
    says(
        ValueSource,
        "SEED_BITS TEMPERATURE TOP_P TOP_K MIN_P OUTPUT_LIMIT EOS_IDS",
        clauses=("HV-08",),
    ),
    says(ValueSource, "PROMPT_HISTOGRAM GRAMMAR_MASK", clauses=("HV-08",)),
    says(
        ValueSource,
        "COPIED_CANDIDATES COPIED_COUNT COPIED_GENERATION COPIED_ENDPOINT",
        clauses=("HV-09",),
    ),
    says(ValueSource, "COPIED_GRAMMAR_MASKS", clauses=("HV-09",)),
    says(ValueSource, "CONSTANT INACTIVE_PADDING", clauses=("HV-10",)),
    says(ValueSource, "IMAGE_TENSOR", clauses=("HV-11",)),
    says(
        Indexing, "SCALAR SUBMISSION_ROW ACTIVE_ROW PHYSICAL_ROW PACKED_TOKEN", clauses=("HV-12",)
    ),
    says(CompletionField, "LANE_OFFERED LANE_ACCEPTED LANE_EMITTED", clauses=("SG-29",)),
    says(CompletionField, "LANE_DRAFT_CURSOR", clauses=("AH-09",)),
    says(Access, "READ WRITE READ_WRITE", clauses=("HV-29",)),
    says(
        Operation,
        "INITIALIZE RESTORE PREFILL SCORED_PREFILL RESUME DECODE SPECULATIVE",
        clauses=("HV-31",),
    ),
    says(Operation, "MIXED MIXED_SPECULATIVE", clauses=("HV-31",)),
    says(ToolParser, "QWEN_CODER_TAGS GLM_ARGUMENT_TAGS DSML", clauses=("FI-03",)),
    says(ToolParser, "XTML_TOOLS", clauses=("FI-04",)),
    says(ReasoningParser, "THINK_TAGS", clauses=("FI-03",)),
    says(ReasoningParser, "XTML_THINK", clauses=("FI-04",)),
    says(ToolParser, "ATEM", clauses=("FI-18",)),
    says(ReasoningParser, "RECIPIENT_HEADERS", clauses=("FI-18",)),
]


@pytest.mark.parametrize(("enum", "names"), WORDS)
def test_what_a_clause_lists_has_a_number(enum: type[IntEnum], names: str) -> None:
    assert set(names.split()) <= set(enum.__members__)


@pytest.mark.clause("FI-01")
def test_parsers_and_images_have_independent_selectors() -> None:
    selectors = {
        "ToolSyntax": ("parser", ToolParser),
        "ReasoningSyntax": ("parser", ReasoningParser),
        "ImageSettings": ("preparation", ImagePreparation),
        "ImageTokenLayout": ("layout", ImageLayout),
    }
    for message, (field, enum) in selectors.items():
        assert said_by(SHAPES[message])[field].kind is enum


@pytest.mark.clause("SM-05")
def test_a_core_has_no_word_about_drafting_from_history() -> None:
    for name in ("ServingContract", "ServingDefaults", "ModelContract"):
        assert not {field for field in said_by(SHAPES[name]) if "history" in field}, name
    assert "defaults" in said_by(SHAPES["ServingContract"])


def test_what_later_runtimes_may_need_has_its_number_now() -> None:
    """The rows marked "reserve" in the schema's analysis."""
    assert Retention.RETAIN_CHUNKED.value == 3
    assert RejectionRule.BLOCK.value == 3
    assert {"HARMONY", "KIMI_SECTIONS"} <= set(ToolParser.__members__)
    assert "HARMONY_CHANNELS" in ReasoningParser.__members__
    assert {"replay_tokens", "draft_lag_tokens"} <= set(said_by(SHAPES["HistoryRegion"]))
    assert "parent_table" in said_by(SHAPES["Speculation"])


def test_row_ids_of_a_table_can_be_computed_from_the_core_alone() -> None:
    """Token map, multipliers, primes, offsets and dead tokens are constants of the core."""
    said = said_by(SHAPES["EngramHash"])
    assert {"token_map", "padding", "multipliers", "columns", "dead_tokens"} <= set(said)
    assert {"order", "modulus", "offset"} <= set(said_by(SHAPES["EngramColumn"]))


def test_what_version_three_adds_is_said_to_be_newer() -> None:
    """The rows marked "add" whose fields older versions lack."""
    assert {
        ("HistoryRegion", "extra_retained_tokens"),
        ("HistoryRegion", "lookahead_tokens"),
        ("HistoryRegion", "initial"),
        ("HistoryRegion", "reuse"),
        ("HistoryRegion", "snapshot"),
        ("PageTableView", "serves"),
        ("PageTableView", "null_page"),
        ("PageTableView", "base"),
        ("Speculation", "proposals"),
        ("Speculation", "rejection"),
        ("Speculation", "draft_draws_per_position"),
        ("Speculation", "accept_draws_per_position"),
        ("Speculation", "residual_draws_per_position"),
        ("RowField", "snapshot"),
        ("ImageTokenLayout", "patches_per_feature"),
        ("GraphContract", "rows_past_endpoint"),
        ("Vision", "feature_row_bytes"),
        ("Vision", "feature_planes"),
        ("Vision", "position_axes"),
    } <= set(NEWER)
