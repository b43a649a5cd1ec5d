"""The reference target: steps as they were recorded, over plain float32 arrays."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ignition.plan.assemble import Machine, assemble
from ignition.plan.launches import At, LaunchList, PlannedLaunch, weight
from ignition.plan.matrices import plan_weights
from ignition.plan.model import PlannedModel
from ignition.preparation.programs import (
    Recipe,
    capacities_of,
    record_programs,
    variants_of,
)
from ignition.preparation.storage import Storage, TextExtents, text_storage
from ignition.record.reference import COUNTS, LIVE_ROWS, OPERAND, kernel_of, pack_step
from ignition.record.tape import Extent, Home, Operand, Step
from prepared.contract import ELEMENT_BYTES, ElementType
from prepared.manifest import Target

PAGE_TOKENS = 16
COUNTS_OPERAND = Operand(COUNTS, Home.SCRATCH, ElementType.UINT32, (2,))


def reference_extents(recipe: Recipe, *, lanes: int, prefill_tokens: int) -> TextExtents:
    """Extents of a recipe in the reference: histories in float32, small pages."""
    sizes = recipe.sizes
    return TextExtents(
        lanes=lanes,
        prefill_tokens=min(prefill_tokens, sizes.context_tokens),
        context_tokens=sizes.context_tokens,
        page_tokens=PAGE_TOKENS,
        vocabulary=sizes.vocabulary,
        layers=sizes.layers,
        key_heads=sizes.key_heads,
        width=sizes.width,
        history=ElementType.FLOAT32,
    )


def lower_step(step: Step, storage: Storage) -> PlannedLaunch:
    """One step: every operand described, every attribute a number."""
    operands = [
        storage.operands[LIVE_ROWS],
        COUNTS_OPERAND,
        *step.reads.values(),
        *step.writes.values(),
    ]
    strides = [
        storage.places[operand.name].row_stride if operand.name in storage.places else 0
        for operand in operands
    ]
    return PlannedLaunch(
        kernel=kernel_of(step),
        units=1,
        block=pack_step(operands, strides, step.attributes),
        addresses={
            index * OPERAND.size: weight(operand.name)
            if operand.home is Home.WEIGHT
            else At(operand.name)
            for index, operand in enumerate(operands)
        },
    )


def nbytes_of(operand: Operand, capacities: Mapping[Extent, int]) -> int:
    """Bytes of an operand at its capacity."""
    extents = (capacities[size] if isinstance(size, Extent) else size for size in operand.shape)
    return ELEMENT_BYTES[operand.element] * prod(extents)


def plan_reference(recipe: Recipe, extents: TextExtents) -> PlannedModel:
    """Record and place a model for the reference."""
    storage = text_storage(extents)
    lowered, vectors = {}, dict[str, int]()
    for operation, recording in record_programs(recipe, storage).items():
        capacities = capacities_of(operation, extents)
        launches = LaunchList(scratch={COUNTS: nbytes_of(COUNTS_OPERAND, capacities)})
        for step in recording.steps:
            for operand in (*step.reads.values(), *step.writes.values()):
                if operand.home is Home.SCRATCH:
                    launches.reserve(operand.name, nbytes_of(operand, capacities))
                elif operand.home is Home.WEIGHT:
                    vectors[operand.name] = nbytes_of(operand, capacities)
            launches.launches.append(lower_step(step, storage))
        lowered[operation] = launches
    weights = plan_weights({}, vectors)
    manifest = assemble(
        Machine(target=Target.REFERENCE, images=(), thread_scratch_nbytes=0),
        storage,
        lowered,
        variants_of(extents),
        weights.offsets,
        weights.nbytes,
    )
    return PlannedModel(extents=extents, manifest=manifest, weights=weights)
