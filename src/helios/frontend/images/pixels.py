"""Pixels of an image: decoded within bounds, upright, in three channels.

Pillow decodes; it is imported when a core with images loads, since no other core needs it.
What it makes of damaged data is an error of the request, whatever it raises.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from helios.frontend.images.headers import FORMATS, Header, header_of
from helios.values import RequestInvalid

if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS: Final = 50_000_000
"""Of one image, as its header says; 150 MB once decoded."""

MOST_REQUEST_PIXELS: Final = 200_000_000
"""Of all images of a request."""

MOST_IMAGES: Final = 64
DEEP_GRAY: Final = ("I", "I;16", "I;16B", "I;16L", "I;16N")
"""Modes of 16-bit gray."""

FAULTS: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
    struct.error,
    zlib.error,
)
"""What Pillow can raise by what it is given; it warns of large images where warnings are errors."""


def load_decoders() -> None:
    """Import Pillow and its formats, once, before a request needs them."""
    from PIL import Image

    Image.preinit()
    for name in FORMATS:
        if name not in Image.OPEN:
            Image.init()


def judged(images: Sequence[tuple[bytes, str]]) -> list[Header]:
    """The headers of a request's images, each with its field, or RequestInvalid (I-01)."""
    headers, pixels = [], 0
    for data, at in images:
        header = header_of(data)
        if header is None or not header.pixels:
            raise RequestInvalid(at, "data that is no image", expected=readable())
        pixels += header.pixels
        for found, most, whose in (
            (header.pixels, MOST_PIXELS, "an image"),
            (pixels, MOST_REQUEST_PIXELS, "images"),
        ):
            if found > most:
                raise RequestInvalid(
                    at, f"{whose} of {found} pixels", expected=f"at most {most} pixels"
                )
        headers.append(header)
    return headers


def readable() -> str:
    """What images may be."""
    return f"a whole image of one of {', '.join(FORMATS)}"


def upright(data: bytes, header: Header, *, at: str) -> Image.Image:
    """The pixels of an image as its maker saw it: turned upright, over white, in RGB."""
    from PIL import Image, ImageOps

    try:
        image = Image.open(io.BytesIO(data), formats=(header.format,))
        check_opened(image, header, at=at)
        image.load()
        return over_white(ImageOps.exif_transpose(image))
    except FAULTS as fault:
        reason = str(fault) or type(fault).__name__
        raise RequestInvalid(
            at, f"a {header.format} that cannot be read ({reason})", expected=readable()
        ) from None


def check_opened(image: Image.Image, header: Header, *, at: str) -> None:
    """The decoder sees what the header says, and one picture; of a GIF the first is taken."""
    if image.width * image.height > MOST_PIXELS:  # a GIF's pictures may exceed its screen
        raise RequestInvalid(
            at,
            f"an image of {image.width * image.height} pixels",
            expected=f"at most {MOST_PIXELS} pixels",
        )
    if header.format != "GIF" and getattr(image, "n_frames", 1) > 1:
        raise RequestInvalid(at, f"an animated {header.format}", expected="one picture")


def over_white(image: Image.Image) -> Image.Image:
    """Three channels; what shines through is white, as on paper."""
    from PIL import Image

    if image.mode in DEEP_GRAY:
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    paper = Image.new("RGBA", layer.size, (255, 255, 255, 255))
    return Image.alpha_composite(paper, layer).convert("RGB")
