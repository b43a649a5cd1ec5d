"""The serving contract: what a prepared model means (specification, "Serving metadata").

Every class mirrors the message of the same name in `proto/prepared/wire/contract.proto`,
field by field; the comments there are the reference.  Values are frozen and already
checked one by one: whoever holds a shape need not look at the wire again.
"""

from enum import IntEnum
from typing import Annotated

from prepared.fields import Alignment, Count, Digest, Name, Real, Scale, Shape, Since, Within


class HistoryKind(IntEnum):
    """How an attention history is stored (AH-02)."""

    PAGED_KEY_VALUE = 1
    PAGED_LATENT = 2
    SLIDING_WINDOW = 3
    RECURRENT = 4
    CONTINUATION = 5


class Retention(IntEnum):
    """Which of a region's records stay."""

    RETAIN_FULL = 1
    RETAIN_WINDOW = 2
    RETAIN_CHUNKED = 3


class InitialContent(IntEnum):
    """What a fresh page or row holds."""

    CONTENT_UNDEFINED = 1
    CONTENT_ZERO = 2


class ReusePoint(IntEnum):
    """Where a stored history may be taken up again."""

    REUSE_ANY_ENDPOINT = 1
    REUSE_PAGE_BOUNDARY = 2
    REUSE_SNAPSHOT_ONLY = 3


class ElementType(IntEnum):
    """Type of one host value."""

    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT32 = 6
    UINT16 = 7
    FLOAT16 = 8
    BFLOAT16 = 9


ELEMENT_BYTES = {
    ElementType.UINT8: 1,
    ElementType.INT32: 4,
    ElementType.UINT32: 4,
    ElementType.INT64: 8,
    ElementType.UINT64: 8,
    ElementType.FLOAT32: 4,
    ElementType.UINT16: 2,
    ElementType.FLOAT16: 2,
    ElementType.BFLOAT16: 2,
}


class PageBase(IntEnum):
    """Which page the first entry of a page-table row names."""

    PAGE_BASE_ABSOLUTE = 1
    PAGE_BASE_WINDOW = 2


class Access(IntEnum):
    """What a program does with a state or a history."""

    READ = 1
    WRITE = 2
    READ_WRITE = 3

    @property
    def reads(self) -> bool:
        """Whether the program looks at it."""
        return self in (Access.READ, Access.READ_WRITE)

    @property
    def writes(self) -> bool:
        """Whether the program changes it."""
        return self in (Access.WRITE, Access.READ_WRITE)


class Operation(IntEnum):
    """What one captured program does."""

    INITIALIZE = 1
    RESTORE = 2
    PREFILL = 3
    SCORED_PREFILL = 4
    RESUME = 5
    DECODE = 6
    SPECULATIVE = 7
    MIXED = 8
    MIXED_SPECULATIVE = 9
    PUBLISH_SNAPSHOT = 10
    VISION = 11
    TUNE = 12


class ValueSource(IntEnum):
    """Where a host value comes from (HV-04 to HV-11)."""

    SLOT = 1
    GENERATION = 2
    LIVE_ROWS = 3
    QUERY_LENGTH = 4
    SPECULATIVE_PREFIX_LIMIT = 5
    SAMPLING_DECISION = 6
    MIXED_PREFILL_ROW = 7
    PROMPT_TOKENS = 10
    SCORED_TARGET_TOKENS = 11
    COMPLETED_PENDING_TOKEN = 12
    PROMPT_POSITIONS = 13
    IMAGE_FEATURE_INDICES = 14
    IMAGE_CONTEXT_INDICES = 15
    IMAGE_FEATURE_SLOT = 16
    POSITION_DELTA = 17
    IMAGE_TOKEN_MASK = 18
    PAGE_TABLE = 20
    LIVE_STATE_ROW = 21
    RESTORE_SOURCE = 22
    SNAPSHOT_DESTINATION = 23
    CONSUMED_ENDPOINT = 24
    RESTORE_PAGE = 25
    SEED_BITS = 30
    TEMPERATURE = 31
    TOP_P = 32
    TOP_K = 33
    MIN_P = 34
    REPETITION_PENALTY = 35
    PRESENCE_PENALTY = 36
    FREQUENCY_PENALTY = 37
    LOGIT_BIAS_IDS = 38
    LOGIT_BIAS_VALUES = 39
    OUTPUT_LIMIT = 40
    MINIMUM_OUTPUT = 41
    EOS_IDS = 42
    PROMPT_HISTOGRAM = 43
    GRAMMAR_MASK = 44
    LOGPROB_COUNT = 45
    COPIED_CANDIDATES = 50
    COPIED_COUNT = 51
    COPIED_GENERATION = 52
    COPIED_ENDPOINT = 53
    COPIED_GRAMMAR_MASKS = 54
    COPIED_CONFIDENCE = 55
    CONSTANT = 60
    INACTIVE_PADDING = 61
    IMAGE_TENSOR = 70
    ENGRAM_ROW_IDS = 80


class Indexing(IntEnum):
    """How a destination's rows are counted (HV-12)."""

    SCALAR = 1
    SUBMISSION_ROW = 2
    ACTIVE_ROW = 3
    PHYSICAL_ROW = 4
    PACKED_TOKEN = 5


class ProposalKind(IntEnum):
    """Which proposals a speculative program takes."""

    LEARNED = 1
    COPIED = 2
    LEARNED_OR_COPIED = 3


class RejectionRule(IntEnum):
    """What acceptance promises to the client."""

    EXACT_MATCH = 1
    STANDARD = 2
    BLOCK = 3


class EngramIdSource(IntEnum):
    """Who computes the row ids of an n-gram table."""

    HOST_COMPUTED = 1
    DEVICE_PUBLISHED = 2


class ToolParser(IntEnum):
    """Syntax of tool calls (FI-01)."""

    NO_TOOLS = 1
    QWEN_CODER_TAGS = 2
    GLM_ARGUMENT_TAGS = 3
    DSML = 4
    XTML_TOOLS = 5
    ATEM = 6
    JSON_CALLS = 7
    HARMONY = 8
    KIMI_SECTIONS = 9
    DEEPSEEK_SECTIONS = 10
    INVOKE_TAGS = 11
    GEMMA_CALLS = 12
    PYTHON_CALLS = 13


class ReasoningParser(IntEnum):
    """Syntax of reasoning (FI-01)."""

    NO_REASONING = 1
    THINK_TAGS = 2
    XTML_THINK = 3
    RECIPIENT_HEADERS = 4
    HARMONY_CHANNELS = 5


class ArgumentTyping(IntEnum):
    """What decides the JSON type of an argument."""

    TYPED_BY_SCHEMA = 1
    TYPED_BY_ATTRIBUTE = 2
    TYPED_AS_JSON = 3


class ImagePreparation(IntEnum):
    """How pixels are resized."""

    NO_IMAGES = 1
    RESIZE_TO_PATCH_GRID = 2
    RESIZE_TO_TOKEN_BUDGET = 3


class Resampling(IntEnum):
    """The filter that resizes."""

    BICUBIC = 1
    LANCZOS = 2
    BILINEAR = 3


class ImageLayout(IntEnum):
    """How features become positions."""

    NO_IMAGE_LAYOUT = 1
    SEQUENTIAL_FEATURES = 2
    GRID_POSITIONS = 3


class ImageKind(IntEnum):
    """What the layout is for."""

    STILL_IMAGE = 1
    VIDEO = 2


class MessageRole(IntEnum):
    """Who wrote a message."""

    SYSTEM = 1
    DEVELOPER = 2
    USER = 3
    ASSISTANT = 4
    TOOL = 5


class TokenRange(Shape, frozen=True, kw_only=True):
    """Consecutive token ids."""

    first: int
    count: Count


class Vocabulary(Shape, frozen=True, kw_only=True):
    """Which ids are sampled, and the geometry of histograms and masks (SM-13)."""

    tokens: Count
    histogram_width: Count
    mask_words: Count


class InputVocabulary(Shape, frozen=True, kw_only=True):
    """Which ids are read, sentinels included (SM-14)."""

    tokens: Count
    sentinels: tuple[TokenRange, ...]


class Vision(Shape, frozen=True, kw_only=True):
    """Feature and patch capacities (SM-15)."""

    feature_slots: Count
    window_features: Count
    patches_per_feature: Count
    patch_capacities: tuple[Count, ...]
    feature_row_bytes: Annotated[int, Since(3)]
    feature_planes: Annotated[int, Since(3)]
    position_axes: Annotated[int, Since(3)]


class CachePlane(Shape, frozen=True, kw_only=True):
    """One buffer of a paged region; its bytes are opaque (AH-03)."""

    buffer: Name
    record_bytes: Count
    records_per_page: Count
    page_stride_bytes: Count
    alignment: Alignment
    storage: str
    max_shards: Count


class RowField(Shape, frozen=True, kw_only=True):
    """A named part of a row (AH-05)."""

    name: Name
    offset: int
    nbytes: Count
    rows: Count
    stride: int
    snapshot: Annotated[bool, Since(3)]


class HistoryRegion(Shape, frozen=True, kw_only=True):
    """One attention history: where it is kept and how much of it (AH-02 to AH-05)."""

    name: Name
    kind: HistoryKind
    planes: tuple[CachePlane, ...]
    record_tokens: Count
    record_tokens_denominator: Annotated[int, Within(1, 1)]
    retention: Retention
    window_tokens: Count | None
    fields: tuple[RowField, ...]
    row_buffer: Name | None
    snapshot_buffer: Name | None
    extra_retained_tokens: Annotated[int, Since(3)]
    lookahead_tokens: Annotated[int, Since(3)]
    initial: Annotated[InitialContent, Since(3)]
    reuse: Annotated[ReusePoint, Since(3)]
    replay_tokens: Annotated[int, Since(3), Within(0, 0)]
    snapshot: Annotated[bool, Since(3)]
    draft_lag_tokens: Annotated[int, Since(3)]


class PageTableView(Shape, frozen=True, kw_only=True):
    """A page table that programs read (AH-06)."""

    destination: Name
    page_offset: int
    element: ElementType
    row_pages: Count
    serves: Annotated[tuple[int, ...], Since(3)]
    null_page: Annotated[int, Since(3)]
    base: Annotated[PageBase, Since(3)]


class CacheContract(Shape, frozen=True, kw_only=True):
    """Pages, histories and page tables (SM-16)."""

    page_tokens: Count
    histories: tuple[HistoryRegion, ...]
    page_tables: tuple[PageTableView, ...]


class StateView(Shape, frozen=True, kw_only=True):
    """Bytes of one row of a persistent buffer (HV-28)."""

    name: Name
    buffer: Name
    offset: int
    row_stride: Count
    nbytes: Count


class StateAccess(Shape, frozen=True, kw_only=True):
    """What a program does with a state view (HV-29)."""

    state: Name
    access: Access


class ValueBinding(Shape, frozen=True, kw_only=True):
    """A transport destination and the source of its values (HV-03)."""

    destination: Name
    source: ValueSource
    indexing: Indexing
    offset: int
    padding: int | None
    constant: int | None
    image_tensor: Name | None
    page_table: int | None
    engram_table: Annotated[int | None, Since(3)]


class TunedBinding(Shape, frozen=True, kw_only=True):
    """A buffer that a start-up tuning program fills (HV-18)."""

    buffer: Name
    producer: Name


class PendingToken(Shape, frozen=True, kw_only=True):
    """Where the first consumed token comes from: a state or a host value (HV-30, HV-32)."""

    state: Name | None
    destination: Name | None


class ResourceDependency(Shape, frozen=True, kw_only=True):
    """A history that a program reads or writes."""

    history: Name
    access: Access


class Speculation(Shape, frozen=True, kw_only=True):
    """Proposals of a speculative program (specification, "Complete speculative generation")."""

    draft_tokens: int
    confidence_width: int
    proposals: Annotated[ProposalKind, Since(3)]
    rejection: Annotated[RejectionRule, Since(3)]
    confidence_buffer: Name | None
    parent_table: Name | None
    draft_draws_per_position: Annotated[int, Since(3)]
    accept_draws_per_position: Annotated[int, Since(3)]
    residual_draws_per_position: Annotated[int, Since(3)]


class GraphContract(Shape, frozen=True, kw_only=True):
    """One captured program as scheduling and packing see it (HV-01)."""

    name: Name
    operation: Operation
    batch_capacity: Count
    token_capacity: Count
    packed_token_capacity: Count
    values: tuple[ValueBinding, ...]
    states: tuple[StateAccess, ...]
    resources: tuple[ResourceDependency, ...]
    pending_token: PendingToken | None
    state_rows_per_request: int
    tuned_bindings: Annotated[tuple[TunedBinding, ...], Since(2)]
    speculation: Speculation | None
    cursor_lag_tokens: int | None
    rows_past_endpoint: Annotated[int, Since(3)]
    engram_frame_tokens: Annotated[int, Since(3)]


class EngramShard(Shape, frozen=True, kw_only=True):
    """Columns of an n-gram table that one rank reads."""

    rank: int
    first_column: int
    columns: Count


class EngramColumn(Shape, frozen=True, kw_only=True):
    """One row id of a token: the n-gram it hashes, and its part of the rows."""

    order: Count
    modulus: Count
    offset: int


class EngramHash(Shape, frozen=True, kw_only=True):
    """How the host computes row ids: constants of the core."""

    token_map: Name | None
    numbers: Count
    padding: int
    multipliers: tuple[int, ...]
    columns: tuple[EngramColumn, ...]
    dead_tokens: tuple[TokenRange, ...]


class EngramTable(Shape, frozen=True, kw_only=True):
    """An n-gram table in host memory (SG-34)."""

    name: Name
    resource: Name
    rows: Count
    row_bytes: Count
    columns_per_token: Count
    row_id: ElementType
    frames: Annotated[int, Within(2, 2)]
    ids: EngramIdSource
    id_mailbox: Name
    frame_buffer: Name
    ready_word: Name
    retire_word: Name
    shards: tuple[EngramShard, ...]
    consumers: tuple[str, ...]
    hash: EngramHash | None


class Marker(Shape, frozen=True, kw_only=True):
    """A literal of the syntax; with an id it counts only as that token (FI-07)."""

    text: Name
    token_id: int | None


class ToolSyntax(Shape, frozen=True, kw_only=True):
    """How tool calls are written."""

    parser: ToolParser
    section_open: Marker | None
    section_close: Marker | None
    call_open: Marker | None
    call_close: Marker | None
    name_open: Marker | None
    name_close: Marker | None
    key_open: Marker | None
    key_close: Marker | None
    value_open: Marker | None
    value_close: Marker | None
    typing: ArgumentTyping | None
    type_attribute: Name | None
    wrapping: str
    separator: str
    name_field: str
    arguments_field: str
    generic_recipient: Name | None
    object_open: Marker | None
    object_close: Marker | None


class FrameSyntax(Shape, frozen=True, kw_only=True):
    """Frames of an answer: a header, then a body (FI-15)."""

    open: Marker
    header_close: Marker
    closes: tuple[Marker, ...]
    recipient_prefix: Name
    channel_open: Marker | None


class ReasoningSyntax(Shape, frozen=True, kw_only=True):
    """How reasoning is written."""

    parser: ReasoningParser
    open: Marker | None
    close: Marker | None
    terminal: Marker | None
    wrapping: str
    answer_prefix: str
    reasoning_recipients: tuple[str, ...]
    content_recipients: tuple[str, ...]
    answer_open: Marker | None
    answer_close: Marker | None
    frames: FrameSyntax | None


class ImageGeometry(Shape, frozen=True, kw_only=True):
    """Sizes and normalisation of prepared images."""

    patch_pixels: Count
    merge: Count
    temporal_patches: Count
    least_pixels: int
    most_pixels: Count
    most_features: Count
    resampling: Resampling
    mean: tuple[Real, ...]
    deviation: tuple[Real, ...]


class ImageSettings(Shape, frozen=True, kw_only=True):
    """How images are prepared."""

    preparation: ImagePreparation
    geometry: ImageGeometry | None


class ImageTokenLayout(Shape, frozen=True, kw_only=True):
    """How an image appears among the tokens (FI-13)."""

    layout: ImageLayout
    kind: ImageKind
    open: Marker | None
    close: Marker | None
    feature_id: int | None
    atomic: bool
    longest_span: int
    patches_per_feature: Annotated[Count | None, Since(3)]


class PrefixBoundaryRule(Shape, frozen=True, kw_only=True):
    """After which messages a rendered prompt stays a prefix (FI-12)."""

    role: MessageRole
    needs_generation_prompt: bool


class AssistantEnvelope(Shape, frozen=True, kw_only=True):
    """Marks around an assistant turn (FI-10)."""

    open: Name
    close: Name


class TemplateToken(Shape, frozen=True, kw_only=True):
    """A token that the chat template may name."""

    name: Name
    text: str


class SamplingDefaults(Shape, frozen=True, kw_only=True):
    """What a request that says nothing samples with (FI-33)."""

    temperature: Scale
    top_p: Scale
    top_k: int
    min_p: Scale
    repetition_penalty: Scale
    presence_penalty: Real
    frequency_penalty: Real


class EffortLevel(Shape, frozen=True, kw_only=True):
    """A reasoning effort and the template variable that expresses it."""

    effort: Name
    variable: Name
    value: Name


class FrontendContract(Shape, frozen=True, kw_only=True):
    """Parsers, syntax and assets of the text side (SM-18)."""

    tools: ToolSyntax
    reasoning: ReasoningSyntax
    images: ImageSettings
    image_layouts: tuple[ImageTokenLayout, ...]
    eos_token_ids: tuple[int, ...]
    template_tokens: tuple[TemplateToken, ...]
    sampling: SamplingDefaults
    prefix_boundaries: tuple[PrefixBoundaryRule, ...]
    assistant: AssistantEnvelope | None
    tokenizer_asset: Name
    template_asset: Name | None
    efforts: tuple[EffortLevel, ...]
    adds_bos: bool


class ModelContract(Shape, frozen=True, kw_only=True):
    """The versioned heart of the contract (SM-10)."""

    version: Annotated[int, Within(1, 3)]
    vocabulary: Vocabulary
    input_vocabulary: InputVocabulary
    vision: Vision | None
    cache: CacheContract
    states: tuple[StateView, ...]
    graphs: tuple[GraphContract, ...]
    frontend: FrontendContract
    engram_tables: Annotated[tuple[EngramTable, ...], Since(3)]


class ServingDefaults(Shape, frozen=True, kw_only=True):
    """Settings that hold when no start-up option says otherwise (SM-06)."""

    queue_capacity: Count
    frontend_workers: Count
    event_capacity: Count
    output_tokens: Count


class ServingContract(Shape, frozen=True, kw_only=True):
    """Everything a server needs to know of a model (SM-01)."""

    model_id: Name
    aliases: tuple[Name, ...]
    cache_identity: Digest
    context_tokens: Count
    prefill_tokens: Count
    prepared_pages: Count
    prepared_snapshots: int
    concurrency: Count
    speculative_widths: tuple[Count, ...]
    defaults: ServingDefaults
    model: ModelContract
