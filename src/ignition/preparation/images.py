"""Public ways to show images by plain names: data, no code.

A name stands for a family whose models prepare images alike and lay them out alike.  Token ids
come from the model's own tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from ignition.preparation.contract import binding
from ignition.preparation.storage import TextExtents
from ignition.preparation.syntaxes import UnknownSyntax
from prepared.contract import (
    FrontendContract,
    GraphContract,
    ImageGeometry,
    ImageKind,
    ImageLayout,
    ImagePreparation,
    ImageSettings,
    ImageTokenLayout,
    Indexing,
    Marker,
    Operation,
    Resampling,
    ServingContract,
    ValueBinding,
    ValueSource,
    Vision,
)

CLIP_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)
CLIP_DEVIATION: Final = (0.26862954, 0.26130258, 0.27577711)
HALF: Final = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSyntax:
    """How images are prepared and laid out; markers by their texts."""

    preparation: ImagePreparation
    geometry: ImageGeometry
    layout: ImageLayout
    open: str
    feature: str
    close: str

    @property
    def axes(self) -> int:
        """Axes of positions."""
        return 3 if self.layout is ImageLayout.GRID_POSITIONS else 1


def geometry(*, patch: int, features: int, **data: Any) -> ImageGeometry:
    """Patches that are merged two by two and span two moments; a budget in features."""
    shared = {
        "patch_pixels": patch,
        "merge": 2,
        "temporal_patches": 2,
        "least_pixels": 0,
        "most_pixels": features * (2 * patch) ** 2,
        "most_features": features,
        "resampling": Resampling.BICUBIC,
        "mean": HALF,
        "deviation": HALF,
    }
    return ImageGeometry(**{**shared, **data})


def qwen(found: ImageGeometry) -> ImageSyntax:
    """Vision markers around pads, positions over the grid."""
    return ImageSyntax(
        preparation=ImagePreparation.RESIZE_TO_PATCH_GRID,
        geometry=found,
        layout=ImageLayout.GRID_POSITIONS,
        open="<|vision_start|>",
        feature="<|image_pad|>",
        close="<|vision_end|>",
    )


IMAGES: Final[Mapping[str, ImageSyntax]] = {
    "qwen_vl": qwen(
        geometry(
            patch=14, features=1280, least_pixels=56 * 56, mean=CLIP_MEAN, deviation=CLIP_DEVIATION
        )
    ),
    "qwen3_vl": qwen(geometry(patch=16, features=1280, least_pixels=256 * 256)),
    "muse": ImageSyntax(
        preparation=ImagePreparation.RESIZE_TO_TOKEN_BUDGET,
        geometry=geometry(patch=14, features=4096, resampling=Resampling.LANCZOS),
        layout=ImageLayout.SEQUENTIAL_FEATURES,
        open="<|image_start|>",
        feature="<|patch|>",
        close="<|image_end|>",
    ),
}
"""Families by name."""


def images_named(name: str) -> ImageSyntax | None:
    """The images of a name, none by `none`, or UnknownSyntax naming the option."""
    if name == "none":
        return None
    if name not in IMAGES:
        raise UnknownSyntax(f"--images: found {name!r}, expected none or one of {sorted(IMAGES)}")
    return IMAGES[name]


def with_images(
    frontend: FrontendContract, images: ImageSyntax, added: Mapping[str, int]
) -> FrontendContract:
    """A frontend that takes images; the tokenizer must have their tokens."""
    missing = [text for text in (images.open, images.feature, images.close) if text not in added]
    if missing:
        raise UnknownSyntax(
            f"--images: found a tokenizer without {missing[0]}, expected one with {images.open}, "
            f"{images.feature} and {images.close}"
        )
    layout = ImageTokenLayout(
        layout=images.layout,
        kind=ImageKind.STILL_IMAGE,
        open=Marker(text=images.open, token_id=added[images.open]),
        close=Marker(text=images.close, token_id=added[images.close]),
        feature_id=added[images.feature],
        atomic=False,
        longest_span=images.geometry.most_features,
        patches_per_feature=None,
    )
    return replace(
        frontend,
        images=ImageSettings(preparation=images.preparation, geometry=images.geometry),
        image_layouts=(layout,),
    )


PROMPTS: Final = frozenset({Operation.PREFILL, Operation.SCORED_PREFILL, Operation.MIXED})
TOKENS: Final = (Operation.DECODE, Operation.SPECULATIVE, *PROMPTS)
FEATURES: Final = (
    binding("image_features", ValueSource.IMAGE_FEATURE_INDICES, Indexing.PACKED_TOKEN),
    binding("image_contexts", ValueSource.IMAGE_CONTEXT_INDICES, Indexing.PACKED_TOKEN),
    binding("image_masks", ValueSource.IMAGE_TOKEN_MASK, Indexing.PACKED_TOKEN),
)
DELTAS: Final = (binding("position_deltas", ValueSource.POSITION_DELTA, Indexing.ACTIVE_ROW),)


def image_values(graph: GraphContract, images: ImageSyntax) -> tuple[ValueBinding, ...]:
    """What a program over tokens takes of images besides its other values."""
    features = FEATURES if graph.operation in PROMPTS else ()
    deltas = DELTAS if graph.operation in TOKENS and images.axes > 1 else ()
    return (*graph.values, *features, *deltas)


def seeing(contract: ServingContract, images: ImageSyntax, extents: TextExtents) -> ServingContract:
    """A text model's contract with vision: capacities, and the values of images (SM-15)."""
    merged = images.geometry.merge**2
    model = contract.model
    return replace(
        contract,
        model=replace(
            model,
            vision=Vision(
                feature_slots=extents.lanes,
                window_features=extents.packed_tokens,
                patches_per_feature=merged,
                patch_capacities=(images.geometry.most_features * merged,),
                feature_row_bytes=extents.width * 4,
                feature_planes=1,
                position_axes=images.axes,
            ),
            graphs=tuple(
                replace(graph, values=image_values(graph, images)) for graph in model.graphs
            ),
        ),
    )
