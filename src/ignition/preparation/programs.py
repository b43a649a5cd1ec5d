"""Which programs a paged-text model has, and how each is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ignition.preparation.contract import Variant
from ignition.preparation.storage import ADMITTED_FIELDS, Storage, TextExtents
from ignition.preparation.weights import ModelSizes, ModelWeights
from ignition.record.tape import Extent, Operand, Planes, Recording, Rows, Tape
from prepared.contract import Operation

PREFILL_STEPS: Final = (16, 64, 256)
"""Prefill capacities below the largest; a chunk takes the smallest that holds it."""


class Recipe(Protocol):
    """What a recipe gives to preparation."""

    @property
    def sizes(self) -> ModelSizes:
        """Extents of the model."""

    @property
    def weights(self) -> ModelWeights:
        """Weights by our names."""

    def record(self, tape: Tape, rows: Rows, planes: Planes) -> Operand:
        """Record the model; returns the logits of the rows that sample."""


def variants_of(extents: TextExtents) -> tuple[Variant, ...]:
    """Every program: on slots, prefill and scoring by chunk, decode by lanes, mixed by both."""
    lanes = extents.lanes
    slots = {
        operation: Variant(operation=operation, rows=lanes, row_tokens=1, packed_tokens=lanes)
        for operation in SLOT_RECORDERS
    }
    chunks = [tokens for tokens in PREFILL_STEPS if tokens < extents.prefill_tokens]
    prefill = (
        Variant(
            operation=Operation.PREFILL,
            rows=min(lanes, tokens),
            row_tokens=tokens,
            packed_tokens=tokens,
        )
        for tokens in (*chunks, extents.prefill_tokens)
    )
    scored = Variant(
        operation=Operation.SCORED_PREFILL,
        rows=min(lanes, extents.scored_tokens),
        row_tokens=extents.scored_tokens,
        packed_tokens=extents.scored_tokens,
    )
    widths = [1 << power for power in range(lanes.bit_length()) if 1 << power < lanes]
    decode = (
        Variant(operation=Operation.DECODE, rows=width, row_tokens=1, packed_tokens=width)
        for width in (*widths, lanes)
    )
    mixed = (
        Variant(
            operation=Operation.MIXED,
            rows=min(lanes, tokens),
            row_tokens=tokens,
            packed_tokens=tokens + min(lanes, tokens) - 1,
        )
        for tokens in extents.mixed_chunks
    )
    proposing = Variant(
        operation=Operation.SPECULATIVE,
        rows=lanes,
        row_tokens=extents.speculative_tokens,
        packed_tokens=lanes * extents.speculative_tokens,
    )
    speculative = (proposing,) if extents.speculative_tokens > 1 else ()
    return (*slots.values(), *prefill, scored, *decode, *mixed, *speculative)


def record_programs(recipe: Recipe, storage: Storage) -> Mapping[Operation, Recording]:
    """Each operation recorded once; capacities share it."""
    slots = {operation: record(storage) for operation, record in SLOT_RECORDERS.items()}
    models = {operation: record_model(recipe, storage, operation) for operation in ROW_LAYERS}
    scored = {Operation.SCORED_PREFILL: record_scored(recipe, storage)}
    return slots | models | scored


def capacities_of(operation: Operation, extents: TextExtents) -> Mapping[Extent, int]:
    """The most rows of each kind that an operation's recording is planned for."""
    scored = operation is Operation.SCORED_PREFILL
    tokens = extents.scored_tokens if scored else extents.packed_tokens
    return {Extent.TOKENS: tokens, Extent.LANES: extents.lanes, Extent.SAMPLES: extents.lanes}


def record_initialize(storage: Storage) -> Recording:
    """Admission."""
    tape = Tape(storage.operands)
    tape.initialize(tuple(ADMITTED_FIELDS))
    tape.commit(None, None)
    return tape.recording(Operation.INITIALIZE)


def record_restore(storage: Storage) -> Recording:
    """Admission to a history that is there, but for a partial page."""
    tape = Tape(storage.operands)
    tape.initialize(tuple(ADMITTED_FIELDS))
    tape.restore(storage.planes)
    tape.commit(None, None)
    return tape.recording(Operation.RESTORE)


def record_publish(storage: Storage) -> Recording:
    """A partial page is kept."""
    tape = Tape(storage.operands)
    tape.publish(storage.planes)
    tape.commit(None, None)
    return tape.recording(Operation.PUBLISH_SNAPSHOT)


def record_resume(storage: Storage) -> Recording:
    """Decoding can begin without a prompt token."""
    tape = Tape(storage.operands)
    tape.resume()
    tape.commit(None, None)
    return tape.recording(Operation.RESUME)


SLOT_RECORDERS: Final[Mapping[Operation, Callable[[Storage], Recording]]] = {
    Operation.INITIALIZE: record_initialize,
    Operation.RESTORE: record_restore,
    Operation.RESUME: record_resume,
    Operation.PUBLISH_SNAPSHOT: record_publish,
}
"""Operations on slots and pages alone, each one program for all lanes."""

ROW_LAYERS: Final[Mapping[Operation, Callable[[Tape], Rows]]] = {
    Operation.PREFILL: Tape.lay_prompt_rows,
    Operation.DECODE: Tape.lay_pending_rows,
    Operation.MIXED: Tape.lay_mixed_rows,
}
"""Operations that run the model, and how each lays its rows."""


def record_model(recipe: Recipe, storage: Storage, operation: Operation) -> Recording:
    """Rows, the model, sampling, commit."""
    tape = Tape(storage.operands)
    rows = ROW_LAYERS[operation](tape)
    logits = recipe.record(tape, rows, storage.planes)
    tape.commit(tape.sample(logits, rows), rows)
    return tape.recording(operation)


def record_scored(recipe: Recipe, storage: Storage) -> Recording:
    """Prefill whose rows all yield logits: targets are scored, then the last rows sample."""
    tape = Tape(storage.operands)
    rows, every = tape.lay_scored_rows()
    logits = recipe.record(tape, every, storage.planes)
    tape.score(logits, rows)
    tape.commit(tape.sample(logits, rows), rows)
    return tape.recording(Operation.SCORED_PREFILL)
