"""Named tensors of a picture, for the packer to bind (FI-13, FI-14, HV-11).

One row a patch.  Patches come feature by feature, each feature's own in rows; names that end in
`_by_row` have them in the picture's rows instead.  A row of pixels is channel by channel.  A
still picture is the same at every moment, so it is given once: a program whose patches span
several moments reads it as often, and no order of moments and channels needs to be declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from helios.frontend.images.picture import Picture
from helios.rounds import ImageTensor
from prepared.contract import ElementType, ImageGeometry

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, numpy.dtype[Any]]

CHANNELS: Final = 3
LEVELS: Final = 256
BY_ROW: Final = "_by_row"
Make = Callable[["Array", ImageGeometry], "Array"]


class Output(msgspec.Struct, frozen=True):
    """A tensor that can be bound."""

    element: ElementType
    make: Make  # from bytes of patches, rows and columns: see `laid`
    wide: bool  # a row holds a patch's pixels, else one number

    def row_elements(self, geometry: ImageGeometry) -> int:
        """Numbers of a row."""
        return CHANNELS * geometry.patch_pixels**2 if self.wide else 1


def raw(patches: Array, _geometry: ImageGeometry) -> Array:
    """Pixels as they are."""
    return patches


def normalised(patches: Array, geometry: ImageGeometry) -> Array:
    """Pixels of mean and deviation as declared."""
    import numpy

    levels = numpy.arange(LEVELS, dtype=numpy.float32) / numpy.float32(LEVELS - 1)
    mean, deviation = (
        numpy.array(values, dtype=numpy.float32)[:, None]
        for values in (geometry.mean, geometry.deviation)
    )
    table = (levels[None, :] - mean) / deviation
    channels = patches.reshape(len(patches), CHANNELS, -1)
    made = numpy.empty(channels.shape, numpy.float32)
    for channel in range(CHANNELS):
        made[:, channel] = table[channel][channels[:, channel]]
    return made.reshape(patches.shape)


PIXELS: Final[Mapping[str, Output]] = {
    "pixels": Output(ElementType.FLOAT32, normalised, wide=True),
    "bytes": Output(ElementType.UINT8, raw, wide=True),
}
PLACES: Final[Mapping[str, Output]] = {
    "patch_rows": Output(ElementType.INT32, lambda places, _: places[:, 0], wide=False),
    "patch_columns": Output(ElementType.INT32, lambda places, _: places[:, 1], wide=False),
}
OUTPUTS: Final[Mapping[str, Output]] = {
    name + order: output for name, output in {**PIXELS, **PLACES}.items() for order in ("", BY_ROW)
}
"""Every tensor that a program may bind, by name."""


def tensor_of(name: str, picture: Picture, geometry: ImageGeometry) -> ImageTensor:
    """One named tensor of a picture."""
    import numpy

    output = OUTPUTS[name]
    rows, columns, side = picture.rows, picture.columns, geometry.patch_pixels
    cells: Array
    if output.wide:
        whole = numpy.frombuffer(picture.pixels, numpy.uint8)
        cells = whole.reshape(rows, side, columns, side, CHANNELS).transpose(0, 2, 4, 1, 3)
    else:
        cells = numpy.indices((rows, columns), dtype=numpy.int32).transpose(1, 2, 0)
    if not name.endswith(BY_ROW):
        cells = by_feature(cells, picture.merge)
    made = output.make(cells.reshape(picture.patches, -1), geometry)
    return ImageTensor(
        name=name,
        element=output.element,
        rows=picture.patches,
        row_elements=output.row_elements(geometry),
        data=made.tobytes(),
    )


def by_feature(cells: Array, merge: int) -> Array:
    """Patches of each feature together; the first two axes are the picture's."""
    rows, columns, *rest = cells.shape
    blocks = cells.reshape(rows // merge, merge, columns // merge, merge, *rest)
    return blocks.swapaxes(1, 2)
