"""The serving contract of a paged-text model, whatever computes it."""

from __future__ import annotations

from typing import Final

from ignition.preparation.contract import cache_of, graph_of, states_of, vocabularies_of
from ignition.preparation.programs import variants_of
from ignition.preparation.storage import TextExtents, text_storage
from prepared.contract import FrontendContract, ModelContract, ServingContract, ServingDefaults

CONTRACT_VERSION: Final = 3
QUEUE_CAPACITY: Final = 64
FRONTEND_WORKERS: Final = 2
EVENT_CAPACITY: Final = 64
PAGES_PER_SNAPSHOT: Final = 8


def text_contract(
    extents: TextExtents, frontend: FrontendContract, *, model_id: str, cache_identity: bytes
) -> ServingContract:
    """What serving must know, from the same storage that programs are recorded over."""
    vocabulary, input_vocabulary = vocabularies_of(extents.vocabulary)
    widths = (extents.speculative_tokens,) if extents.speculative_tokens > 1 else ()
    return ServingContract(
        model_id=model_id,
        aliases=(),
        cache_identity=cache_identity,
        context_tokens=extents.context_tokens,
        prefill_tokens=extents.prefill_tokens,
        prepared_pages=extents.row_pages * 2,
        prepared_snapshots=max(1, extents.row_pages * 2 // PAGES_PER_SNAPSHOT),
        concurrency=extents.lanes,
        speculative_widths=widths,
        defaults=ServingDefaults(
            queue_capacity=QUEUE_CAPACITY,
            frontend_workers=FRONTEND_WORKERS,
            event_capacity=EVENT_CAPACITY,
            output_tokens=extents.context_tokens,
        ),
        model=ModelContract(
            version=CONTRACT_VERSION,
            vocabulary=vocabulary,
            input_vocabulary=input_vocabulary,
            vision=None,
            cache=cache_of(text_storage(extents)),
            states=states_of(),
            graphs=tuple(graph_of(variant) for variant in variants_of(extents)),
            frontend=frontend,
            engram_tables=(),
        ),
    )
