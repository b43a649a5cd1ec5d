"""The schema can say what the specification's sentences name, field by field and word by word."""

from __future__ import annotations

from enum import IntEnum

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
from tests.treaty.refusals import attack
from tests.treaty.schema import NEWER, SHAPES, said_by

FIELDS = [
    ("SM-01", "ServingContract", "model_id aliases cache_identity context_tokens prefill_tokens"),
    ("SM-01", "ServingContract", "prepared_pages prepared_snapshots concurrency"),
    ("SM-01", "ServingContract", "speculative_widths defaults"),
    ("SM-12", "ModelContract", "version vocabulary input_vocabulary vision cache graphs frontend"),
    ("SM-13", "Vocabulary", "tokens histogram_width mask_words"),
    ("SM-14", "InputVocabulary", "tokens sentinels"),
    ("SM-15", "Vision", "feature_slots window_features patches_per_feature patch_capacities"),
    ("SM-16", "CacheContract", "page_tokens histories page_tables"),
    ("SM-17", "GraphContract", "operation values states resources"),
    ("SM-18", "FrontendContract", "tools reasoning images image_layouts"),
    ("HV-01", "GraphContract", "name operation"),
    ("HV-03", "ValueBinding", "destination source"),
    ("HV-12", "ValueBinding", "indexing"),
    ("HV-15", "ValueBinding", "offset padding"),
    ("HV-17", "SubmissionHeader", "buffer sequence_offset frame_offset program_offset"),
    ("HV-18", "GraphContract", "tuned_bindings"),
    ("HV-19", "TunedBinding", "buffer producer"),
    ("HV-20", "ExecutionManifest", "programs tuning"),
    ("HV-28", "StateView", "buffer offset row_stride nbytes"),
    ("HV-29", "StateAccess", "state access"),
    ("HV-30", "PendingToken", "state destination"),
    ("SG-05", "GraphContract", "batch_capacity token_capacity packed_token_capacity speculation"),
    ("SG-05", "Program", "batch_capacity token_capacity packed_token_capacity draft_tokens"),
    ("SG-07", "GraphContract", "batch_capacity"),
    ("SG-08", "Speculation", "draft_tokens"),
    ("SG-09", "GraphContract", "token_capacity"),
    ("SG-10", "GraphContract", "packed_token_capacity"),
    ("SG-26", "Speculation", "confidence_width confidence_buffer"),
    ("SG-35", "GraphContract", "state_rows_per_request"),
    ("AH-01", "CacheContract", "page_tokens"),
    ("AH-02", "HistoryRegion", "kind"),
    ("AH-03", "HistoryRegion", "planes record_tokens record_tokens_denominator"),
    ("AH-04", "HistoryRegion", "window_tokens"),
    ("AH-05", "HistoryRegion", "fields row_buffer snapshot_buffer"),
    ("AH-06", "PageTableView", "destination page_offset"),
    ("OB-13", "SignedEnvelope", "body publisher_namespace public_key signature"),
    ("OB-18", "ProtectedIndex", "version index"),
    ("OB-20", "ExecutableResource", "id kind stored"),
    ("OB-20", "StoredFrame", "nbytes decoded_nbytes chunk_nbytes chunk_sha256"),
    ("PM-02", "DeploymentBody", "contract"),
    ("PM-02", "ModelIndex", "contract"),
    ("PM-05", "ExecutionManifest", "buffers kernels launches programs transports completion"),
    ("FI-05", "ReasoningSyntax", "wrapping terminal answer_prefix"),
    ("FI-05", "ToolSyntax", "wrapping separator"),
    ("FI-12", "PrefixBoundaryRule", "role needs_generation_prompt"),
    ("FI-32", "FrontendContract", "eos_token_ids template_tokens images sampling"),
]


@pytest.mark.parametrize(
    ("message", "names"),
    [
        attack(f"{clause} {message} {names.split()[0]}", message, names, clauses=(clause,))
        for clause, message, names in FIELDS
    ],
)
def test_what_a_clause_names_has_a_field(message: str, names: str) -> None:
    assert set(names.split()) <= set(said_by(SHAPES[message]))


WORDS: list[tuple[str, type[IntEnum], str]] = [
    ("AH-02", HistoryKind, "PAGED_KEY_VALUE PAGED_LATENT SLIDING_WINDOW RECURRENT CONTINUATION"),
    ("HV-05", ValueSource, "SLOT GENERATION LIVE_ROWS QUERY_LENGTH SPECULATIVE_PREFIX_LIMIT"),
    ("HV-05", ValueSource, "SAMPLING_DECISION MIXED_PREFILL_ROW"),
    ("HV-06", ValueSource, "PROMPT_TOKENS SCORED_TARGET_TOKENS COMPLETED_PENDING_TOKEN"),
    ("HV-06", ValueSource, "PROMPT_POSITIONS IMAGE_FEATURE_INDICES IMAGE_CONTEXT_INDICES"),
    ("HV-06", ValueSource, "IMAGE_FEATURE_SLOT"),
    ("HV-07", ValueSource, "PAGE_TABLE LIVE_STATE_ROW RESTORE_SOURCE SNAPSHOT_DESTINATION"),
    ("HV-07", ValueSource, "CONSUMED_ENDPOINT"),
    ("HV-08", ValueSource, "SEED_BITS TEMPERATURE TOP_P TOP_K MIN_P OUTPUT_LIMIT EOS_IDS"),
    ("HV-08", ValueSource, "PROMPT_HISTOGRAM GRAMMAR_MASK"),
    ("HV-09", ValueSource, "COPIED_CANDIDATES COPIED_COUNT COPIED_GENERATION COPIED_ENDPOINT"),
    ("HV-09", ValueSource, "COPIED_GRAMMAR_MASKS"),
    ("HV-10", ValueSource, "CONSTANT INACTIVE_PADDING"),
    ("HV-11", ValueSource, "IMAGE_TENSOR"),
    ("HV-12", Indexing, "SCALAR SUBMISSION_ROW ACTIVE_ROW PHYSICAL_ROW PACKED_TOKEN"),
    ("HV-29", Access, "READ WRITE READ_WRITE"),
    ("HV-31", Operation, "INITIALIZE RESTORE PREFILL SCORED_PREFILL RESUME DECODE SPECULATIVE"),
    ("HV-31", Operation, "MIXED MIXED_SPECULATIVE"),
    ("FI-03", ToolParser, "QWEN_CODER_TAGS GLM_ARGUMENT_TAGS DSML"),
    ("FI-04", ToolParser, "XTML_TOOLS"),
    ("FI-03", ReasoningParser, "THINK_TAGS"),
    ("FI-04", ReasoningParser, "XTML_THINK"),
    ("FI-18", ToolParser, "ATEM"),
    ("FI-18", ReasoningParser, "RECIPIENT_HEADERS"),
]


@pytest.mark.parametrize(
    ("enum", "names"),
    [
        attack(f"{clause} {enum.__name__} {names.split()[0]}", enum, names, clauses=(clause,))
        for clause, enum, names in WORDS
    ],
)
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


def test_what_later_runtimes_may_need_has_its_number_now() -> None:
    """The rows marked "reserve" in the schema's analysis."""
    assert Retention.RETAIN_CHUNKED.value == 3
    assert RejectionRule.BLOCK.value == 3
    assert {"HARMONY", "KIMI_SECTIONS"} <= set(ToolParser.__members__)
    assert "HARMONY_CHANNELS" in ReasoningParser.__members__
    assert {"replay_tokens", "draft_lag_tokens"} <= set(said_by(SHAPES["HistoryRegion"]))
    assert "parent_table" in said_by(SHAPES["Speculation"])


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
        ("Speculation", "draws_per_position"),
        ("GraphContract", "rows_past_endpoint"),
        ("Vision", "feature_row_bytes"),
        ("Vision", "feature_planes"),
        ("Vision", "position_axes"),
    } <= set(NEWER)
