"""A picture: an image as a model looks at it, resized to its grid, with a digest of that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from helios.frontend.images.sizes import SIZES, OutOfShape
from helios.values import RequestInvalid
from prepared.contract import ImageGeometry, ImagePreparation, Resampling

if TYPE_CHECKING:
    from PIL import Image

FILTERS: Final[Mapping[Resampling, str]] = {
    Resampling.BICUBIC: "BICUBIC",
    Resampling.LANCZOS: "LANCZOS",
    Resampling.BILINEAR: "BILINEAR",
}
"""Pillow's names."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Pixels over a grid of patches."""

    rows: int  # of patches
    columns: int
    merge: int  # patches of a feature along one side
    pixels: bytes  # red, green, blue, row by row

    @property
    def patches(self) -> int:
        """Patches of the grid."""
        return self.rows * self.columns

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of features."""
        return self.rows // self.merge, self.columns // self.merge

    @property
    def features(self) -> int:
        """Features, and so placeholder tokens."""
        return self.patches // self.merge**2

    @property
    def digest(self) -> bytes:
        """What features depend on: the grid and every pixel (L-05)."""
        extent = f"{self.rows} {self.columns}\n".encode()
        return hashlib.sha256(extent + self.pixels).digest()


def picture_of(
    image: Image.Image, preparation: ImagePreparation, geometry: ImageGeometry, *, at: str
) -> Picture:
    """An image prepared as declared."""
    from PIL import Image

    try:
        height, width = SIZES[preparation](image.height, image.width, geometry)
    except OutOfShape as fault:
        raise RequestInvalid(
            at, f"an image of {fault}", expected="one less long and thin"
        ) from None
    resized = image.resize((width, height), Image.Resampling[FILTERS[geometry.resampling]])
    return Picture(
        rows=height // geometry.patch_pixels,
        columns=width // geometry.patch_pixels,
        merge=geometry.merge,
        pixels=resized.tobytes(),
    )
