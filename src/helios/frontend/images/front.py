"""Images as a core declares them: everything between a client's data URIs and a prompt.

Made once at the start; what the declarations ask for and this server cannot do is refused there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from helios.frontend.images.layout import PLACEMENTS, Expanded, expanded, features_of
from helios.frontend.images.picture import Picture, picture_of
from helios.frontend.images.pixels import MOST_IMAGES, judged, load_decoders, upright
from helios.frontend.images.source import ImageSource, data_of
from helios.frontend.images.tensors import OUTPUTS, tensor_of
from helios.frontend.provenance import template_text
from helios.frontend.sandbox import RenderTooLong
from helios.frontend.template import ChatTemplate, TemplateFault
from helios.frontend.text import Tokenizer
from helios.rounds import ImagePrompt, Span
from helios.values import RequestInvalid, StartRefused
from prepared.contract import (
    ImageGeometry,
    ImageKind,
    ImagePreparation,
    ImageTokenLayout,
    ModelContract,
    ValueSource,
)

MOST_TENSOR_NBYTES: Final = 64 << 20
"""Of a request, all its choices together: each carries its own to the worker."""


class Illustrated(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with its images in place."""

    tokens: tuple[int, ...]
    spans: tuple[Span, ...] = ()
    images: ImagePrompt | None = None

    @property
    def tensor_nbytes(self) -> int:
        """Bytes of all tensors."""
        pictures = self.images.pictures if self.images else ()
        return sum(len(tensor.data) for tensors in pictures for tensor in tensors)


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """A core's declarations about images, ready to be applied."""

    preparation: ImagePreparation
    geometry: ImageGeometry
    layout: ImageTokenLayout
    outputs: tuple[str, ...]  # tensors that its programs bind
    placeholder: int | None  # what its template writes for an image; none if it takes none

    def pictures(self, sources: Sequence[ImageSource]) -> list[Picture]:
        """Images decoded, bounded and resized as declared (FI-01)."""
        if self.placeholder is None:
            raise RequestInvalid(
                sources[0].at,
                "an image",
                expected="text: the chat template of this model writes no place for an image",
            )
        if len(sources) > MOST_IMAGES:
            raise RequestInvalid(
                sources[MOST_IMAGES].at, f"{len(sources)} images", expected=f"at most {MOST_IMAGES}"
            )
        data = [(data_of(source), source.at) for source in sources]
        return [
            picture_of(upright(said, header, at=at), self.preparation, self.geometry, at=at)
            for (said, at), header in zip(data, judged(data), strict=True)
        ]

    def illustrated(self, tokens: Sequence[int], sources: Sequence[ImageSource]) -> Illustrated:
        """A rendered prompt's tokens with its images in their places (FI-13)."""
        pictures = self.pictures(sources)
        assert self.placeholder is not None
        places = tokens.count(self.placeholder)
        if places != len(pictures):
            raise RequestInvalid(
                "messages",
                f"{len(pictures)} images for which the chat template wrote {places} places",
                expected="images where the model's chat template takes them",
            )
        text = expanded(tokens, pictures, self.layout, placeholder=self.placeholder)
        return Illustrated(
            tokens=text.tokens, spans=text.spans, images=self.image_prompt(text, pictures)
        )

    def image_prompt(self, text: Expanded, pictures: Sequence[Picture]) -> ImagePrompt:
        """Positions, feature mapping and tensors, by value."""
        place = PLACEMENTS[self.layout.layout](len(text.tokens), text.spans, pictures)
        return ImagePrompt(
            features=features_of(len(text.tokens), text.spans).tobytes(),
            positions=place.positions.tobytes(),
            delta=place.delta,
            pictures=tuple(
                tuple(tensor_of(name, picture, self.geometry) for name in self.outputs)
                for picture in pictures
            ),
        )


def check_tensors(prompt: Illustrated, *, choices: int) -> None:
    """What goes to the worker by value stays small enough to be sent."""
    nbytes = prompt.tensor_nbytes * choices
    if nbytes > MOST_TENSOR_NBYTES:
        raise RequestInvalid(
            "messages" if choices == 1 else "n",
            f"images of {nbytes} bytes, prepared, for {choices} answers",
            expected=f"at most {MOST_TENSOR_NBYTES} bytes: fewer or smaller images, or answers",
        )


# ----------------------------------------------------------------- starting


def load_images(
    model: ModelContract, template: ChatTemplate | None, tokenizer: Tokenizer
) -> Images | None:
    """What the contract declares; None for a model without images (FI-01)."""
    declared, vision = model.frontend.images, model.vision
    if declared.geometry is None or vision is None:
        return None
    index, layout = still_layout(model.frontend.image_layouts)
    at = f"model.frontend.image_layouts[{index}]"
    ratio = layout.patches_per_feature or vision.patches_per_feature
    if ratio != declared.geometry.merge**2:
        raise StartRefused(
            f"{at}.patches_per_feature: found {ratio}, expected {declared.geometry.merge**2}, "
            "the square of images.geometry.merge"
        )
    for name in ("open", "close"):
        marker = getattr(layout, name)
        if marker is not None and marker.token_id is None:
            raise StartRefused(f"{at}.{name}: found text, expected a marker with a token id")
    if layout.atomic:
        raise StartRefused(
            f"{at}.atomic: found true, expected false: prompts are fed in chunks that may divide "
            "an image"
        )
    load_decoders()
    geometry = replace(
        declared.geometry,
        most_features=min(
            declared.geometry.most_features,
            layout.longest_span,
            max(vision.patch_capacities) // ratio,
        ),
    )
    return Images(
        preparation=declared.preparation,
        geometry=geometry,
        layout=layout,
        outputs=bound_outputs(model),
        placeholder=None if template is None else placeholder_of(template, tokenizer, layout),
    )


def still_layout(layouts: Sequence[ImageTokenLayout]) -> tuple[int, ImageTokenLayout]:
    """The layout of pictures; videos are not served."""
    for index, layout in enumerate(layouts):
        if layout.kind is ImageKind.STILL_IMAGE:
            return index, layout
    raise StartRefused("model.frontend.image_layouts: found none of a STILL_IMAGE, expected one")


def bound_outputs(model: ModelContract) -> tuple[str, ...]:
    """Names of the tensors that programs bind (FI-14)."""
    names = {
        value.image_tensor: f"model.graphs[{index}].values[{place}]"
        for index, graph in enumerate(model.graphs)
        for place, value in enumerate(graph.values)
        if value.source is ValueSource.IMAGE_TENSOR and value.image_tensor is not None
    }
    for name, at in names.items():
        if name not in OUTPUTS:
            raise StartRefused(
                f"{at}.image_tensor: found {name!r}, expected one of {sorted(OUTPUTS)}"
            )
    return tuple(sorted(names))


def placeholder_of(
    template: ChatTemplate, tokenizer: Tokenizer, layout: ImageTokenLayout
) -> int | None:
    """The token that the template writes for an image, found by rendering one.

    It is the layout's feature token where the template writes that, else the one added token,
    markers aside, that an image brings.
    """
    text = {"type": template_text("text"), "text": "x"}
    image = {"type": template_text("image")}
    without = written(template, tokenizer, [text])
    brought = written(template, tokenizer, [image, text])
    brought.subtract(without)
    markers = {marker.token_id for marker in (layout.open, layout.close) if marker is not None}
    added = set(tokenizer.markers.values())
    found = [token for token, count in brought.items() if count > 0 and token in added - markers]
    if layout.feature_id in found:
        return layout.feature_id
    return found[0] if len(found) == 1 and brought[found[0]] == 1 else None


def written(
    template: ChatTemplate, tokenizer: Tokenizer, parts: Iterable[Mapping[str, Any]]
) -> Counter[int]:
    """How often each token is written for a message of these parts."""
    try:
        text = template.attempt(
            {
                **template.tokens,
                "messages": [{"role": template_text("user"), "content": list(parts)}],
                "tools": None,
                "documents": None,
                "add_generation_prompt": False,
            }
        )
    except (TemplateFault, RenderTooLong):
        return Counter()
    return Counter(tokenizer.encode_prompt(text))
