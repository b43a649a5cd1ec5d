"""Images to show, a model to show them to, and everything around them, small."""

from __future__ import annotations

import base64
import io
import random
from typing import Any, Final

from msgspec.structs import replace
from PIL import Image

from helios.frontend.images.front import Images, load_images
from helios.frontend.images.source import ImageSource
from helios.frontend.prompt import Conversation, PromptPath
from helios.frontend.template import ChatTemplate
from helios.frontend.text import Tokenizer
from ignition.preparation.images import IMAGES, seeing, with_images
from ignition.preparation.serving import text_contract
from ignition.preparation.storage import TextExtents
from prepared.consistency import check_contract
from prepared.contract import ElementType, ModelContract
from tests.frontend.conversations import byte_tokenizer
from tests.treaty.frontends import text_frontend

PARTS: Final = """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.content is string %}{{- m.content }}{%- else %}{%- for part in m.content %}
{%- if part.type == 'image' %}{{- PLACE }}{%- else %}{{- part.text }}{%- endif %}
{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
PLACES: Final = {
    "qwen_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "qwen3_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "muse": "<|patch|>",
}
MARKERS: Final = ("<|im_start|>", "<|im_end|>", "<|image|>")
TEXT_ONLY: Final = PARTS.replace("{{- PLACE }}", "")


def template_source(name: str, *, place: str | None = None) -> str:
    """A template of parts that writes this for an image."""
    return PARTS.replace("PLACE", repr(PLACES[name] if place is None else place))


def tokenizer_for(name: str) -> Tokenizer:
    """Bytes, and the markers of a family."""
    syntax = IMAGES[name]
    return byte_tokenizer((*MARKERS, syntax.open, syntax.feature, syntax.close))


def model_for(name: str, **geometry: Any) -> ModelContract:
    """A text model's contract with this family's images."""
    syntax, tokenizer = IMAGES[name], tokenizer_for(name)
    extents = TextExtents(
        lanes=4,
        prefill_tokens=512,
        context_tokens=4096,
        page_tokens=64,
        vocabulary=tokenizer.library.get_vocab_size(),
        layers=1,
        key_heads=1,
        width=16,
        history=ElementType.FLOAT32,
        images=True,
        position_axes=syntax.axes,
    )
    frontend = replace(text_frontend(), eos_token_ids=(0,))
    contract = text_contract(
        extents,
        with_images(frontend, syntax, tokenizer.markers),
        model_id="x",
        cache_identity=bytes(32),
    )
    contract = seeing(contract, syntax, extents)
    check_contract(contract)
    images = contract.model.frontend.images
    assert images.geometry is not None
    images = replace(images, geometry=replace(images.geometry, **geometry))
    return replace(contract.model, frontend=replace(contract.model.frontend, images=images))


class Seer:
    """A model's prompt side."""

    def __init__(self, name: str, *, place: str | None = None, **geometry: Any) -> None:
        self.tokenizer = tokenizer_for(name)
        template = ChatTemplate(template_source(name, place=place), {})
        loaded = load_images(model_for(name, **geometry), template, self.tokenizer)
        assert loaded is not None
        self.images: Images = loaded
        self.prompts = PromptPath(template, self.tokenizer)

    def tokens(self, *parts: Any) -> tuple[int, ...]:
        """A user's message, rendered."""
        messages = [{"role": "user", "content": list(parts)}]
        return self.prompts.prompt(Conversation(messages=messages)).tokens

    def id(self, marker: str) -> int:
        """A marker's token."""
        return self.tokenizer.markers[marker]


def noise(width: int, height: int, *, seed: int = 1, mode: str = "RGB") -> Image.Image:
    """An image of chance."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    data = random.Random(seed).randbytes(width * height * bands)
    return Image.frombytes(mode, (width, height), data)


def scene(width: int, height: int) -> Image.Image:
    """An image that is smooth, as photographs are."""
    small = noise(max(2, width // 16), max(2, height // 16), seed=width * height)
    return small.resize((width, height), Image.Resampling.BICUBIC)


def saved(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """The file of an image."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def uri(image: Image.Image, form: str = "PNG", **options: Any) -> str:
    """A data URI of an image."""
    return data_uri(saved(image, form, **options), f"image/{form.lower()}")


def data_uri(data: bytes, kind: str = "image/png") -> str:
    """A data URI of bytes."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def shown(url: object) -> dict[str, Any]:
    """A part of a message."""
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: str) -> dict[str, Any]:
    """A part of a message."""
    return {"type": "text", "text": words}


def source(url: object, *, at: str = "at") -> ImageSource:
    """A URL with its field."""
    return ImageSource(url=url, at=at)
