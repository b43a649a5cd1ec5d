"""Complete valid contracts, one a kind of model, made of parts that `replace` can change.

Every field of every message of the treaty says something in at least one specimen.  A
specimen is sound: `check_contract` accepts it.  What executes and carries it is in
`carriers`.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from prepared.contract import (
    Access,
    CacheContract,
    CachePlane,
    ElementType,
    EngramColumn,
    EngramHash,
    EngramIdSource,
    EngramShard,
    EngramTable,
    GraphContract,
    HistoryKind,
    HistoryRegion,
    Indexing,
    InitialContent,
    InputVocabulary,
    ModelContract,
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
    ServingContract,
    ServingDefaults,
    Speculation,
    StateAccess,
    StateView,
    TokenRange,
    TunedBinding,
    ValueBinding,
    ValueSource,
    Vision,
    Vocabulary,
)
from tests.treaty.frontends import (
    TOKENS,
    every_tool_datum,
    image_frontend,
    recipient_reasoning,
    text_frontend,
    think_reasoning,
)

PAGE_TOKENS: Final = 16
SENTINELS: Final = 4

# ------------------------------------------------------------------ cache


def plane(buffer: str, *, record_bytes: int = 64, records: int = PAGE_TOKENS) -> CachePlane:
    """A plane whose pages are padded to 256 bytes."""
    return CachePlane(
        buffer=buffer,
        record_bytes=record_bytes,
        records_per_page=records,
        page_stride_bytes=-(-records * record_bytes // 256) * 256,
        alignment=256,
        storage="float16",
        max_shards=1,
    )


def paged(
    name: str, kind: HistoryKind, *planes: CachePlane, record_tokens: int = 1
) -> HistoryRegion:
    """A paged region that keeps everything."""
    return HistoryRegion(
        name=name,
        kind=kind,
        planes=planes,
        record_tokens=record_tokens,
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


def rows(
    name: str, kind: HistoryKind, *fields: RowField, buffer: str, snapshots: str
) -> HistoryRegion:
    """A region of rows, zeroed when a slot is assigned."""
    return replace(
        paged(name, kind),
        fields=fields,
        row_buffer=buffer,
        snapshot_buffer=snapshots,
        initial=InitialContent.CONTENT_ZERO,
        reuse=ReusePoint.REUSE_SNAPSHOT_ONLY,
    )


def table(destination: str, *serves: int) -> PageTableView:
    """A page table of 64 absolute entries a request."""
    return PageTableView(
        destination=destination,
        page_offset=0,
        element=ElementType.INT32,
        row_pages=64,
        serves=serves,
        null_page=-1,
        base=PageBase.PAGE_BASE_ABSOLUTE,
    )


# ----------------------------------------------------------------- graphs


def value(
    destination: str,
    source: ValueSource,
    *,
    indexing: Indexing = Indexing.ACTIVE_ROW,
    padding: int | None = None,
    page_table: int | None = None,
) -> ValueBinding:
    """A binding; what only few sources need is left to `replace`."""
    return ValueBinding(
        destination=destination,
        source=source,
        indexing=indexing,
        offset=0,
        padding=padding,
        constant=None,
        image_tensor=None,
        page_table=page_table,
        engram_table=None,
    )


SLOT: Final = value("slot", ValueSource.SLOT)
LIVE_ROWS: Final = value("live_rows", ValueSource.LIVE_ROWS, indexing=Indexing.SCALAR)
LENGTH: Final = value(
    "query_length", ValueSource.QUERY_LENGTH, indexing=Indexing.SUBMISSION_ROW, padding=0
)
CEILING: Final = value("ceiling", ValueSource.SPECULATIVE_PREFIX_LIMIT)
SAMPLES: Final = value("samples", ValueSource.SAMPLING_DECISION)
PROMPT: Final = value("prompt", ValueSource.PROMPT_TOKENS, indexing=Indexing.PACKED_TOKEN)
PREFILL_ROW: Final = value("row", ValueSource.MIXED_PREFILL_ROW, indexing=Indexing.SCALAR)
PAGES: Final = value(
    "page_table", ValueSource.PAGE_TABLE, indexing=Indexing.PHYSICAL_ROW, page_table=0
)
GEOMETRY: Final = (SLOT, LIVE_ROWS, PAGES)

WRITES_PENDING: Final = StateAccess(state="pending", access=Access.WRITE)
KEEPS_PENDING: Final = StateAccess(state="pending", access=Access.READ_WRITE)
FROM_DEVICE: Final = PendingToken(state="pending", destination=None)


def graph(name: str, operation: Operation, *values: ValueBinding) -> GraphContract:
    """A program of four requests with one token each, which consumes nothing."""
    return GraphContract(
        name=name,
        operation=operation,
        batch_capacity=4,
        token_capacity=1,
        packed_token_capacity=4,
        values=(*GEOMETRY, *values),
        states=(),
        resources=(ResourceDependency(history="kv", access=Access.READ_WRITE),),
        pending_token=None,
        state_rows_per_request=1,
        tuned_bindings=(),
        speculation=None,
        cursor_lag_tokens=None,
        rows_past_endpoint=0,
        engram_frame_tokens=0,
    )


def consuming(program: GraphContract) -> GraphContract:
    """The program, with a pending token that the device keeps."""
    return replace(program, states=(KEEPS_PENDING,), pending_token=FROM_DEVICE)


def initialize() -> GraphContract:
    """Admission: sampling parameters to the slot's row."""
    first, last = ValueSource.SEED_BITS, ValueSource.LOGPROB_COUNT
    settings = tuple(
        value(source.name.lower(), source, indexing=Indexing.PHYSICAL_ROW)
        for source in ValueSource
        if first <= source <= last
    )
    idle = replace(
        value("idle", ValueSource.INACTIVE_PADDING, padding=-1), indexing=Indexing.SUBMISSION_ROW
    )
    return graph("initialize", Operation.INITIALIZE, *settings, idle)


def prefill(name: str = "prefill", operation: Operation = Operation.PREFILL) -> GraphContract:
    """Prompt tokens of up to four requests, thirty-two rows in all."""
    return replace(
        graph(name, operation, SAMPLES, PROMPT, LENGTH),
        token_capacity=32,
        packed_token_capacity=32,
        states=(WRITES_PENDING,),
        tuned_bindings=(TunedBinding(buffer="tiles", producer="tune_tiles"),),
    )


def decode_one() -> GraphContract:
    """Ordinary one-token generation."""
    return consuming(graph("decode", Operation.DECODE, SAMPLES))


def speculative(
    name: str, length: ValueBinding, *, drafts: int, tokens: int, packed: int
) -> GraphContract:
    """Draw `drafts` proposals, verify up to `tokens` positions a request."""
    return replace(
        consuming(graph(name, Operation.SPECULATIVE, SAMPLES, length)),
        token_capacity=tokens,
        packed_token_capacity=packed,
        speculation=Speculation(
            draft_tokens=drafts,
            confidence_width=0,
            proposals=ProposalKind.LEARNED,
            rejection=RejectionRule.EXACT_MATCH,
            confidence_buffer=None,
            parent_table=None,
            draft_draws_per_position=1,
            accept_draws_per_position=1,
            residual_draws_per_position=2,
        ),
        cursor_lag_tokens=1,
        rows_past_endpoint=max(tokens, drafts + 1),
    )


# -------------------------------------------------------------- contracts


def plain() -> ServingContract:
    """Paged text, graphs: 0 initialize, 1 prefill, 2 scored, 3 resume, 4 decode."""
    scored = replace(
        prefill("scored", Operation.SCORED_PREFILL),
        values=(*prefill().values, value("targets", ValueSource.SCORED_TARGET_TOKENS)),
    )
    ones = replace(value("one", ValueSource.CONSTANT), constant=1, offset=-3)
    resume = replace(graph("resume", Operation.RESUME, SAMPLES, ones), states=(WRITES_PENDING,))
    model = ModelContract(
        version=3,
        vocabulary=Vocabulary(tokens=TOKENS, histogram_width=128, mask_words=4),
        input_vocabulary=InputVocabulary(tokens=TOKENS, sentinels=()),
        vision=None,
        cache=CacheContract(
            page_tokens=PAGE_TOKENS,
            histories=(paged("kv", HistoryKind.PAGED_KEY_VALUE, plane("keys"), plane("values")),),
            page_tables=(table("page_table", 0),),
        ),
        states=(StateView(name="pending", buffer="tokens", offset=4, row_stride=64, nbytes=4),),
        graphs=(initialize(), prefill(), scored, resume, decode_one()),
        frontend=text_frontend(),
        engram_tables=(),
    )
    return ServingContract(
        model_id="acme/plain",
        aliases=("plain", "plain-latest"),
        cache_identity=bytes(range(32)),
        context_tokens=1024,
        prefill_tokens=32,
        prepared_pages=128,
        prepared_snapshots=8,
        concurrency=4,
        speculative_widths=(),
        defaults=ServingDefaults(
            queue_capacity=16, frontend_workers=2, event_capacity=8, output_tokens=256
        ),
        model=model,
    )


def speculating() -> ServingContract:
    """Drafts with confidence and ceilings; graphs continue `plain`:

    5 width one, 6 rectangular, 7 ranked (D 7, W 4, P 10), 8 mixed, 9 mixed speculative.
    """
    contract = plain()
    drafts = replace(
        paged("drafts", HistoryKind.PAGED_KEY_VALUE, plane("draft_rows")),
        lookahead_tokens=8,
        draft_lag_tokens=1,
    )
    shifted = replace(table("draft_table", 1), page_offset=1)
    one = speculative("speculative_1", LENGTH, drafts=0, tokens=1, packed=4)
    four = speculative("speculative_4", LENGTH, drafts=3, tokens=4, packed=16)
    ranked = speculative("ranked_4", CEILING, drafts=7, tokens=4, packed=10)
    assert ranked.speculation is not None
    copied = tuple(
        value(source.name.lower(), source)
        for source in ValueSource
        if source.name.startswith("COPIED_")
    )
    ranked = replace(
        ranked,
        values=(*ranked.values[:-1], *copied, CEILING),
        speculation=replace(
            ranked.speculation,
            confidence_width=7,
            confidence_buffer="confidence",
            proposals=ProposalKind.LEARNED_OR_COPIED,
        ),
    )
    mixed = replace(
        consuming(graph("mixed", Operation.MIXED, SAMPLES, PREFILL_ROW, PROMPT)),
        token_capacity=32,
        packed_token_capacity=35,
    )
    both = speculative("mixed_4", LENGTH, drafts=3, tokens=4, packed=16)
    both = replace(both, operation=Operation.MIXED_SPECULATIVE, values=(*both.values, PREFILL_ROW))
    model = replace(
        contract.model,
        cache=replace(
            contract.model.cache,
            histories=(*contract.model.cache.histories, drafts),
            page_tables=(*contract.model.cache.page_tables, shifted),
        ),
        graphs=(*contract.model.graphs, one, four, ranked, mixed, both),
        frontend=replace(
            text_frontend(), tools=every_tool_datum(), reasoning=recipient_reasoning()
        ),
    )
    return replace(contract, model_id="acme/drafts", speculative_widths=(1, 4), model=model)


def hybrid() -> ServingContract:
    """Five kinds of history under one page table; pending tokens come from the host.

    Histories: 0 kv, 1 latent, 2 window, 3 recurrent, 4 continuation.  Graphs: 0 initialize,
    1 restore, 2 prefill, 3 decode, 4 publish.
    """
    contract = plain()
    window = replace(
        paged("window", HistoryKind.SLIDING_WINDOW, plane("window_rows")),
        retention=Retention.RETAIN_WINDOW,
        window_tokens=48,
        extra_retained_tokens=5,
        reuse=ReusePoint.REUSE_PAGE_BOUNDARY,
    )
    latent = paged(
        "latent",
        HistoryKind.PAGED_LATENT,
        plane("latent_rows", record_bytes=584, records=4),
        record_tokens=4,
    )
    state = RowField(name="state", offset=0, nbytes=96, rows=3, stride=128, snapshot=True)
    tail = RowField(name="tail", offset=8, nbytes=24, rows=1, stride=0, snapshot=False)
    recurrent = rows(
        "recurrent", HistoryKind.RECURRENT, state, buffer="rows", snapshots="saved_rows"
    )
    continuation = rows(
        "continuation", HistoryKind.CONTINUATION, tail, buffer="tails", snapshots="saved_tails"
    )
    fed = value("fed", ValueSource.COMPLETED_PENDING_TOKEN)
    live = value("live", ValueSource.LIVE_STATE_ROW)
    source = value("source", ValueSource.RESTORE_SOURCE)
    target = value("target", ValueSource.SNAPSHOT_DESTINATION)
    decode = replace(
        graph("decode", Operation.DECODE, SAMPLES, fed, live),
        pending_token=PendingToken(state=None, destination="fed"),
        state_rows_per_request=2,
    )
    model = replace(
        contract.model,
        cache=replace(
            contract.model.cache,
            histories=(
                *contract.model.cache.histories,
                latent,
                window,
                recurrent,
                continuation,
            ),
            page_tables=(
                table("page_table", 0, 1),
                replace(table("window_table", 2), base=PageBase.PAGE_BASE_WINDOW),
            ),
        ),
        states=(),
        graphs=(
            initialize(),
            graph("restore", Operation.RESTORE, source),
            replace(prefill(), states=()),
            decode,
            graph("publish", Operation.PUBLISH_SNAPSHOT, target, live),
        ),
        frontend=replace(text_frontend(), reasoning=think_reasoning()),
    )
    return replace(contract, model_id="acme/hybrid", model=model)


def seeing() -> ServingContract:
    """Images; graphs continue `plain`: 5 vision."""
    contract = plain()
    pixels = replace(value("pixels", ValueSource.IMAGE_TENSOR), image_tensor="pixels")
    model = replace(
        contract.model,
        input_vocabulary=InputVocabulary(
            tokens=TOKENS + SENTINELS, sentinels=(TokenRange(first=TOKENS, count=SENTINELS),)
        ),
        vision=Vision(
            feature_slots=8,
            window_features=64,
            patches_per_feature=4,
            patch_capacities=(256, 1024),
            feature_row_bytes=128,
            feature_planes=4,
            position_axes=3,
        ),
        graphs=(*contract.model.graphs, graph("vision", Operation.VISION, pixels)),
        frontend=image_frontend(),
    )
    return replace(contract, model_id="acme/seeing", model=model)


def ngram_hash() -> EngramHash:
    """Twenty-four columns: eight a order, of n-grams of two to four tokens."""
    return EngramHash(
        token_map="token_map",
        numbers=64,
        padding=2,
        multipliers=(3, 5, 7, 11),
        columns=tuple(
            EngramColumn(order=2 + index // 8, modulus=40_961 + index, offset=41_000 * index)
            for index in range(24)
        ),
        dead_tokens=(TokenRange(first=TOKENS - 1, count=1),),
    )


def engram() -> ServingContract:
    """An n-gram table in host memory; graphs: those of `plain`, whose decode reads it."""
    contract = plain()
    words = EngramTable(
        name="words",
        resource="ngrams",
        rows=1 << 20,
        row_bytes=264,
        columns_per_token=24,
        row_id=ElementType.INT64,
        frames=2,
        ids=EngramIdSource.DEVICE_PUBLISHED,
        id_mailbox="ids",
        frame_buffer="ngram_frames",
        ready_word="ngram_ready",
        retire_word="ngram_retired",
        shards=(
            EngramShard(rank=0, first_column=0, columns=16),
            EngramShard(rank=1, first_column=16, columns=8),
        ),
        consumers=("layers.1", "layers.9"),
        hash=ngram_hash(),
    )
    ids = replace(
        value("row_ids", ValueSource.ENGRAM_ROW_IDS, indexing=Indexing.PACKED_TOKEN), engram_table=0
    )
    decode = replace(decode_one(), values=(*decode_one().values, ids), engram_frame_tokens=4)
    model = replace(
        contract.model, graphs=(*contract.model.graphs[:-1], decode), engram_tables=(words,)
    )
    return replace(contract, model_id="acme/engram", model=model)


CONTRACTS: Final = {
    "plain": plain(),
    "speculating": speculating(),
    "hybrid": hybrid(),
    "seeing": seeing(),
    "engram": engram(),
}
