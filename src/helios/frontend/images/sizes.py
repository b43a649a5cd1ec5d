"""How large an image becomes: the declared preparations (FI-01).

Each rule gives the sizes that the public processors of its models give, to the pixel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from prepared.contract import ImageGeometry, ImagePreparation

MOST_ASPECT: Final = 200
"""Longer sides over shorter ones; beyond it an image resized to a grid shows nothing."""

Size = tuple[int, int]  # height, width


class OutOfShape(Exception):
    """The image is too long and thin for the preparation."""


def to_patch_grid(height: int, width: int, geometry: ImageGeometry) -> Size:
    """Both sides to multiples of a feature's side, within the budget of pixels."""
    if max(height, width) > MOST_ASPECT * min(height, width):
        raise OutOfShape(f"{width} by {height} pixels")
    side = geometry.patch_pixels * geometry.merge
    most = min(geometry.most_pixels, geometry.most_features * side * side)
    tall, wide = (round(extent / side) * side for extent in (height, width))
    if tall * wide > most:
        shrink = math.sqrt(height * width / most)
        tall, wide = (
            max(side, math.floor(extent / shrink / side) * side) for extent in (height, width)
        )
    elif tall * wide < geometry.least_pixels:
        grow = math.sqrt(geometry.least_pixels / (height * width))
        tall, wide = (math.ceil(extent * grow / side) * side for extent in (height, width))
    if tall * wide > most:  # one side is already as short as it can be
        raise OutOfShape(f"{width} by {height} pixels")
    return tall, wide


def to_token_budget(height: int, width: int, geometry: ImageGeometry) -> Size:
    """The grid of features closest in aspect among the four around the ideal one."""
    side, most = geometry.patch_pixels * geometry.merge, geometry.most_features
    rows, columns = height / side, width / side
    aspect = columns / rows
    if rows * columns > most:
        rows = (most / aspect) ** 0.5
        columns = rows * aspect
    around = {
        (tall, wide)
        for tall in (math.floor(rows), math.ceil(rows))
        for wide in (math.floor(columns), math.ceil(columns))
    }
    # Of grids that are equally close the public processors take the first of a set.
    fitting = [(tall, wide) for tall, wide in around if tall and wide and tall * wide <= most] or [
        (max(1, round(rows)), max(1, round(columns)))
    ]
    tall, wide = min(fitting, key=lambda grid: abs(grid[0] / grid[1] - height / width))
    if tall * wide > most:
        raise OutOfShape(f"{width} by {height} pixels")
    return tall * side, wide * side


SIZES: Final[Mapping[ImagePreparation, Callable[[int, int, ImageGeometry], Size]]] = {
    ImagePreparation.RESIZE_TO_PATCH_GRID: to_patch_grid,
    ImagePreparation.RESIZE_TO_TOKEN_BUDGET: to_token_budget,
}
