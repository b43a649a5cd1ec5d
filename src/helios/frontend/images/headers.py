"""What the first bytes of an image say of its format and size, before anything is decoded.

Decoders allocate what a header promises, so a promise is judged before a decoder sees it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

import msgspec


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """A format and a size."""

    format: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        """How many pixels a decoder would make."""
        return self.width * self.height


def png_size(data: bytes) -> tuple[int, int]:
    """Of the chunk that comes first."""
    if data[12:16] != b"IHDR":
        raise ValueError("no IHDR")
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def gif_size(data: bytes) -> tuple[int, int]:
    """Of the logical screen."""
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


JPEG_ALONE: Final = frozenset((0x01, *range(0xD0, 0xD9)))
"""Segments without a length."""
JPEG_NO_FRAME: Final = frozenset((0xC4, 0xC8, 0xCC))
"""Tables, among the codes of frames."""
JPEG_END: Final = frozenset((0xD9, 0xDA))
FIRST_FRAME, LAST_FRAME = 0xC0, 0xCF


def jpeg_size(data: bytes) -> tuple[int, int]:
    """Of the first frame segment."""
    at = 2
    while True:
        if data[at] != 0xFF:  # noqa: PLR2004 - how every segment begins
            raise ValueError("no segment")
        code = data[at + 1]
        if code == 0xFF:  # noqa: PLR2004 - filling
            at += 1
            continue
        if code in JPEG_END:
            raise ValueError("no frame")
        if FIRST_FRAME <= code <= LAST_FRAME and code not in JPEG_NO_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 if code in JPEG_ALONE else 2 + struct.unpack_from(">H", data, at + 2)[0]


def webp_size(data: bytes) -> tuple[int, int]:
    """Of the canvas, or of the one picture."""
    match data[12:16]:
        case b"VP8X":
            width = int.from_bytes(data[24:27], "little") + 1
            return width, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
    raise ValueError("no picture")


Size = Callable[[bytes], tuple[int, int]]
FORMATS: Final[Mapping[str, tuple[Callable[[bytes], bool], Size]]] = {
    "PNG": (lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), png_size),
    "JPEG": (lambda data: data.startswith(b"\xff\xd8\xff"), jpeg_size),
    "GIF": (lambda data: data[:6] in (b"GIF87a", b"GIF89a"), gif_size),
    "WEBP": (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", webp_size),
}
"""Formats that are read, by Pillow's names: how each begins, and where its size is."""


def header_of(data: bytes) -> Header | None:
    """Format and size; None if the bytes begin like no format that is read, or break off."""
    for name, (begins, size) in FORMATS.items():
        if begins(data):
            try:
                width, height = size(data)
            except (IndexError, ValueError, struct.error):
                return None
            return Header(format=name, width=width, height=height)
    return None
