"""Which programs a paged-text model has, and how each is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from ignition.preparation.contract import Variant
from ignition.preparation.storage import ADMITTED_FIELDS, Storage, TextExtents
from ignition.preparation.weights import ModelSizes, ModelWeights
from ignition.record.tape import Operand, Planes, Recording, Rows, Tape
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
    """Every program: admission, prefill by chunk size, decode by lanes."""
    lanes = extents.lanes
    initialize = Variant(
        operation=Operation.INITIALIZE, rows=lanes, row_tokens=1, packed_tokens=lanes
    )
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
    widths = [1 << power for power in range(lanes.bit_length()) if 1 << power < lanes]
    decode = (
        Variant(operation=Operation.DECODE, rows=width, row_tokens=1, packed_tokens=width)
        for width in (*widths, lanes)
    )
    return (initialize, *prefill, *decode)


def record_programs(recipe: Recipe, storage: Storage) -> Mapping[Operation, Recording]:
    """Each operation recorded once; capacities share it."""
    return {
        Operation.INITIALIZE: record_initialize(storage),
        Operation.PREFILL: record_model(recipe, storage, Operation.PREFILL),
        Operation.DECODE: record_model(recipe, storage, Operation.DECODE),
    }


def record_initialize(storage: Storage) -> Recording:
    """Admission."""
    tape = Tape(storage.operands)
    tape.initialize(tuple(ADMITTED_FIELDS))
    tape.commit(None, None)
    return tape.recording(Operation.INITIALIZE)


def record_model(recipe: Recipe, storage: Storage, operation: Operation) -> Recording:
    """Rows, the model, sampling, commit."""
    tape = Tape(storage.operands)
    rows = tape.lay_prompt_rows() if operation is Operation.PREFILL else tape.lay_pending_rows()
    logits = recipe.record(tape, rows, storage.planes)
    tape.commit(tape.sample(logits, rows), rows)
    return tape.recording(operation)
