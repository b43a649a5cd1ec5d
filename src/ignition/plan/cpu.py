"""The CPU target: lower every operation, plan weights, assemble the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ignition.build.cpu import LEVELS
from ignition.ops.attend import MOST_QUERIES
from ignition.plan.assemble import Machine, assemble
from ignition.plan.launches import LaunchList
from ignition.plan.lower_cpu import lower, score_stride
from ignition.plan.lowering_cpu import CpuLowering
from ignition.plan.matrices import Matrix, plan_weights
from ignition.plan.model import PlannedModel
from ignition.preparation.programs import (
    Recipe,
    capacities_of,
    record_programs,
    variants_of,
)
from ignition.preparation.storage import TextExtents, text_storage
from ignition.weights.formats import Format
from prepared.contract import ElementType, Operation
from prepared.manifest import CodeImage, Target

LAYOUT_OF: Final[Mapping[Format, str]] = {
    Format.F32: "f32",
    Format.F16: "f16",
    Format.BF16: "bf16",
    Format.Q8_0: "q8_0",
    Format.Q4_0: "q4_0",
    Format.Q4_1: "q4_1",
    Format.Q4_K: "q4_k",
    Format.Q6_K: "q6_k",
}
"""How the CPU target keeps each stored format."""

PAGE_TOKENS: Final = 64


def cpu_extents(recipe: Recipe, *, lanes: int, prefill_tokens: int) -> TextExtents:
    """Extents of a recipe on the CPU: histories in bfloat16, pages of 64 tokens."""
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
        history=ElementType.BFLOAT16,
    )


def plan_cpu(recipe: Recipe, extents: TextExtents) -> PlannedModel:
    """Record, lower and place a model for the CPU."""
    storage = text_storage(extents)
    layouts = {
        name: LAYOUT_OF[source.tensor.format] for name, source in recipe.weights.matrices.items()
    }
    lowered: dict[Operation, LaunchList] = {}
    matrices: dict[str, Matrix] = {}
    vectors: dict[str, int] = {}
    for operation, recording in record_programs(recipe, storage).items():
        capacities = capacities_of(operation, extents)
        lowering = CpuLowering(
            recording, extents, capacities, layouts, matrices=matrices, vectors=vectors
        )
        lower(lowering)
        lowered[operation] = lowering.launches
    weights = plan_weights(matrices, vectors)
    images = tuple(
        CodeImage(name=level.name, resource=f"kernels.{level.name}", features=level.features)
        for level in LEVELS
    )
    manifest = assemble(
        Machine(
            target=Target.CPU,
            images=images,
            thread_scratch_nbytes=thread_scratch(extents),
        ),
        storage,
        lowered,
        variants_of(extents),
        weights.offsets,
        weights.nbytes,
    )
    return PlannedModel(extents=extents, manifest=manifest, weights=weights)


def thread_scratch(extents: TextExtents) -> int:
    """What one thread needs: scores of a unit, or two listed numbers a token and one a block."""
    scores = MOST_QUERIES * score_stride(extents.context_tokens) * 4
    return max(scores, 9 * extents.vocabulary + 1024)
