"""Pictures against the public processors: their sizes exactly, their pixels to a rounding."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy
import pytest
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil,
    smart_resize,
)

from helios.frontend.images.picture import Picture, picture_of
from helios.frontend.images.sizes import SIZES, OutOfShape, to_patch_grid, to_token_budget
from helios.frontend.images.tensors import OUTPUTS, tensor_of
from helios.values import RequestInvalid
from ignition.preparation.images import IMAGES, geometry
from prepared.contract import ElementType, ImagePreparation
from tests.frontend.images.pictures import noise, scene

QWEN, MUSE = IMAGES["qwen_vl"], IMAGES["muse"]
DRAWN = [
    tuple(int(10 ** chance.uniform(0, 3.8)) for _ in range(2))
    for chance in map(random.Random, range(400))
]
EXTENTS = [(1, 1), (14, 14), (28, 28), (42, 42), (1793, 1793), (4000, 6000), (35, 7000), *DRAWN]


def muse_rule() -> Callable[[int, int, int, int], tuple[int, int]]:
    """The public processor's own function; its module wants a library that is not here."""
    found = importlib.util.find_spec("transformers")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "models" / "muse_glimmer"
    tree = ast.parse((folder / "image_processing_muse_glimmer.py").read_text())
    rule = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "smart_resize")
    names: dict[str, Any] = {"itertools": itertools, "math": math}
    exec(compile(ast.Module([rule], []), "muse", "exec"), names)
    return cast(Callable[[int, int, int, int], tuple[int, int]], names["smart_resize"])


def test_every_declared_preparation_has_a_rule() -> None:
    assert set(SIZES) == set(ImagePreparation) - {ImagePreparation.NO_IMAGES}


def test_a_patch_grid_is_the_public_processors() -> None:
    found = QWEN.geometry
    refused = 0
    for height, width in EXTENTS:
        try:
            theirs = smart_resize(height, width, 28, found.least_pixels, found.most_pixels)
        except ValueError:
            theirs = None
        if theirs is not None and math.prod(theirs) <= found.most_pixels:
            assert to_patch_grid(height, width, found) == theirs
        else:
            refused += 1
            with pytest.raises(OutOfShape):
                to_patch_grid(height, width, found)
    assert 0 < refused < len(EXTENTS) // 4


@pytest.mark.parametrize("most", [16, 256, 4096])
def test_a_token_budget_is_the_public_processors(most: int) -> None:
    rule, found = muse_rule(), geometry(patch=14, features=most)
    for height, width in EXTENTS:
        theirs = rule(height, width, 28, most)
        if math.prod(theirs) <= most * 28 * 28:
            assert to_token_budget(height, width, found) == theirs
        else:
            with pytest.raises(OutOfShape):
                to_token_budget(height, width, found)


def test_a_budget_of_features_holds_for_a_patch_grid_too() -> None:
    found = geometry(patch=14, features=10, most_pixels=1 << 30)
    tall, wide = to_patch_grid(3000, 2000, found)
    assert tall * wide <= 10 * 28 * 28


def prepared(image: Image.Image, name: str) -> Picture:
    syntax = IMAGES[name]
    return picture_of(image, syntax.preparation, syntax.geometry, at="at")


def array_of(name: str, picture: Picture, family: str) -> Any:
    tensor = tensor_of(name, picture, IMAGES[family].geometry)
    kinds = {
        ElementType.FLOAT32: numpy.float32,
        ElementType.UINT8: numpy.uint8,
        ElementType.INT32: numpy.int32,
    }
    return numpy.frombuffer(tensor.data, kinds[tensor.element]).reshape(
        tensor.rows, tensor.row_elements
    )


@pytest.mark.clause("FI-13")
@pytest.mark.parametrize("size", [(300, 200), (56, 112), (113, 900), (40, 40)])
@pytest.mark.parametrize("make", [noise, scene])
def test_pixels_are_the_public_processors(
    size: tuple[int, int], make: Callable[[int, int], Image.Image]
) -> None:
    image = make(*size)
    theirs = Qwen2VLImageProcessorPil()(images=[image], return_tensors="np")
    picture = prepared(image, "qwen_vl")
    assert [[1, picture.rows, picture.columns]] == theirs["image_grid_thw"].tolist()
    moments = theirs["pixel_values"].reshape(picture.patches, 3, 2, 14 * 14)
    assert (moments[:, :, 0] == moments[:, :, 1]).all()  # a still picture, at two moments
    ours = array_of("pixels", picture, "qwen_vl").reshape(picture.patches, 3, 14 * 14)
    assert numpy.abs(ours - moments[:, :, 0]).max() < 1e-5


@pytest.mark.parametrize("name", ["qwen_vl", "muse"])
def test_tensors_tell_the_same_picture_in_two_orders(name: str) -> None:
    picture = prepared(scene(220, 130), name)
    merge, (tall, wide) = picture.merge, picture.grid
    where = [
        (row * merge + y, column * merge + x)
        for row in range(tall)
        for column in range(wide)
        for y in range(merge)
        for x in range(merge)
    ]
    rows, columns = (array_of(n, picture, name)[:, 0] for n in ("patch_rows", "patch_columns"))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == where
    whole = numpy.frombuffer(picture.pixels, numpy.uint8)
    whole = whole.reshape(picture.rows * 14, picture.columns * 14, 3)
    patches, in_rows = (array_of(n, picture, name) for n in ("bytes", "bytes_by_row"))
    for patch, (row, column) in enumerate(where):
        cut = whole[row * 14 : row * 14 + 14, column * 14 : column * 14 + 14]
        assert (patches[patch].reshape(3, 14, 14) == cut.transpose(2, 0, 1)).all()
        assert (in_rows[row * picture.columns + column] == patches[patch]).all()
    levels = (patches.astype(numpy.float64) / 255).reshape(picture.patches, 3, -1)
    found = IMAGES[name].geometry
    mean, deviation = (numpy.array(v)[None, :, None] for v in (found.mean, found.deviation))
    normal = ((levels - mean) / deviation).reshape(picture.patches, -1)
    assert numpy.abs(array_of("pixels", picture, name) - normal).max() < 1e-5


def test_every_tensor_says_its_own_extent() -> None:
    picture = prepared(scene(90, 60), "muse")
    sizes = {ElementType.FLOAT32: 4, ElementType.UINT8: 1, ElementType.INT32: 4}
    for name, output in OUTPUTS.items():
        tensor = tensor_of(name, picture, MUSE.geometry)
        assert (tensor.name, tensor.element) == (name, output.element)
        assert tensor.row_elements == output.row_elements(MUSE.geometry)
        assert len(tensor.data) == tensor.rows * tensor.row_elements * sizes[tensor.element]


@pytest.mark.clause("FI-13")
def test_a_digest_is_of_what_the_model_sees() -> None:
    image = noise(80, 60)
    digest = prepared(image, "muse").digest
    assert prepared(image.copy(), "muse").digest == digest
    changed = image.copy()
    changed.putpixel((40, 30), (0, 0, 0))
    assert prepared(changed, "muse").digest != digest
    flat = Picture(rows=2, columns=8, merge=2, pixels=bytes(16))
    assert flat.digest != Picture(rows=4, columns=4, merge=2, pixels=bytes(16)).digest


def test_an_image_that_is_too_thin_is_refused() -> None:
    with pytest.raises(RequestInvalid) as refusal:
        prepared(noise(1000, 4), "qwen_vl")
    expected = "at: found an image of 1000 by 4 pixels, expected one less long and thin"
    assert str(refusal.value) == expected
