"""Pixels: four formats, upright, over white; bombs refused unopened; damage a refusal."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helios.frontend.images.headers import header_of
from helios.frontend.images.pixels import (
    MOST_PIXELS,
    MOST_REQUEST_PIXELS,
    judged,
    load_decoders,
    upright,
)
from helios.values import RequestInvalid
from tests.frontend.images.pictures import noise, saved, scene

load_decoders()
FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("PNG", {}),
    ("JPEG", {}),
    ("JPEG", {"progressive": True}),
    ("GIF", {}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("WEBP", {"exif": b"Exif\0\0"}),
]


def opened(data: bytes) -> Image.Image:
    (header,) = judged([(data, "at")])
    return upright(data, header, at="at")


@pytest.mark.parametrize(("form", "options"), FORMATS, ids=str)
def test_every_format_tells_its_size_before_it_is_decoded(form: str, options: Any) -> None:
    data = saved(scene(61, 34), form, **options)
    header = header_of(data)
    assert header is not None
    assert (header.format, header.width, header.height) == (form, 61, 34)
    assert opened(data).size == (61, 34)


@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_formats_without_loss_give_their_pixels(form: str) -> None:
    image = noise(20, 10)
    options = {"lossless": True} if form == "WEBP" else {}
    assert opened(saved(image, form, **options)).tobytes() == image.tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_an_image_is_turned_as_its_camera_was(form: str, orientation: int) -> None:
    image = Image.new("RGB", (40, 20), (250, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = opened(saved(image, form, exif=exif.tobytes()))
    assert found.size == ((40, 20) if orientation <= 4 else (20, 40))


def test_what_shines_through_is_white() -> None:
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    half = Image.new("LA", (4, 4), (0, 128))
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([0, 255, 0])
    assert opened(saved(clear)).getpixel((0, 0)) == (255, 255, 255)
    assert opened(saved(half)).getpixel((0, 0)) == (127, 127, 127)
    assert opened(saved(palette)).getpixel((0, 0)) == (0, 255, 0)
    assert opened(saved(palette, transparency=0)).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_mode_becomes_three_channels(mode: str) -> None:
    image = Image.new("L", (8, 8), 200).convert(mode if mode != "I;16" else "L")
    if mode == "I;16":
        image = Image.new("I;16", (8, 8), 200 * 256)
    found = opened(saved(image))
    assert found.mode == "RGB"
    assert found.getpixel((3, 3)) == ((255,) * 3 if mode == "1" else (200,) * 3)


def test_a_jpeg_for_printing_becomes_three_channels() -> None:
    assert opened(saved(Image.new("CMYK", (8, 8)), "JPEG")).mode == "RGB"


# ------------------------------------------------------------------- bounds


def png(width: int, height: int) -> bytes:
    """A PNG that promises so much and holds little."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


def refusal_of(*images: bytes) -> str:
    with pytest.raises(RequestInvalid) as refusal:
        judged([(data, f"at{index}") for index, data in enumerate(images)])
    return str(refusal.value)


def test_a_bomb_is_refused_by_what_its_header_says() -> None:
    side = 65_535
    for data in (
        png(side, side),
        saved(Image.new("L", (9, 9)), "GIF")[:6] + struct.pack("<HH", side, side),
        b"\xff\xd8\xff\xc0\x00\x11\x08" + struct.pack(">HH", side, side),
        b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0" + b"\xff\xff\x00" * 2,
    ):
        found = refusal_of(data)
        assert found.startswith("at0: found an image of 42")
        assert found.endswith(f"pixels, expected at most {MOST_PIXELS} pixels")


def test_the_bound_is_exact_and_holds_for_all_images_of_a_request_together() -> None:
    (header,) = judged([(png(50_000, 1000), "at")])
    assert header.pixels == MOST_PIXELS
    assert "of 50001000 pixels" in refusal_of(png(50_001, 1000))
    five = refusal_of(*[png(50_000, 1000)] * 5)
    assert (
        five
        == f"at4: found images of 250000000 pixels, expected at most {MOST_REQUEST_PIXELS} pixels"
    )


def test_a_gif_whose_picture_exceeds_its_screen_is_refused() -> None:
    data = bytearray(saved(Image.new("L", (9, 9)), "GIF"))
    at = data.index(b"\x2c\0\0\0\0")
    data[at + 5 : at + 9] = struct.pack("<HH", 9000, 9000)
    with pytest.raises(RequestInvalid, match="at: found an image of 81000000 pixels"):
        opened(bytes(data))


# ------------------------------------------------------------------- damage


def test_of_a_gif_the_first_picture_is_taken_and_other_animations_are_refused() -> None:
    frames = [Image.new("RGB", (8, 8), color) for color in ((255, 0, 0), (0, 0, 255))]
    options: dict[str, Any] = {"save_all": True, "append_images": frames[1:], "duration": 100}
    assert opened(saved(frames[0], "GIF", **options)).getpixel((0, 0)) == (255, 0, 0)
    for form in ("PNG", "WEBP"):
        with pytest.raises(
            RequestInvalid, match=f"at: found an animated {form}, expected one pict"
        ):
            opened(saved(frames[0], form, **options))


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 50, b"<svg/>", b"BM" + bytes(60), b"%PDF-1.7", png(0, 5)], ids=range(6)
)
def test_data_that_is_no_image_is_refused(data: bytes) -> None:
    assert refusal_of(data).startswith("at0: found data that is no image, expected a whole image")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_half_an_image_is_refused(form: str, share: float) -> None:
    data = saved(noise(64, 64), form)
    with pytest.raises(RequestInvalid, match=r"^at: found"):
        opened(data[: int(len(data) * share)])


@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP"]), st.data())
@settings(max_examples=150, deadline=None)
def test_damage_is_an_image_or_a_refusal_and_never_another_error(form: str, data: Any) -> None:
    file = bytearray(saved(scene(24, 24), form))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(file) - 1))
        file[at] = data.draw(st.integers(0, 255))
    try:
        assert opened(bytes(file)).mode == "RGB"
    except RequestInvalid as refusal:
        assert refusal.field == "at"  # noqa: PT017 - both outcomes are right
