"""Tensors: bytes stay in the file until asked for, names are remembered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ignition.weights.checkpoint import CheckpointError, Format, Tensors, TensorSource


def some_tensors(path: Path) -> Tensors:
    values = np.arange(12, dtype="<f4")
    path.write_bytes(b"head" + values.tobytes())
    table = TensorSource(name="table", shape=(3, 4), format=Format.F32, path=path, offset=4)
    one = TensorSource(name="one", shape=(), format=Format.F32, path=path, offset=8)
    none = TensorSource(name="none", shape=(0, 4), format=Format.F32, path=path, offset=52)
    return Tensors([table, one, none], origin="tiny.gguf")


def test_bytes_are_mapped_and_numbers_have_the_tensors_shape(tmp_path: Path) -> None:
    tensors = some_tensors(tmp_path / "w")
    raw = tensors["table"].raw()
    assert raw.shape == tensors["table"].raw_shape() == (3, 16)
    assert isinstance(raw.base, np.memmap)
    assert tensors["table"].floats().tolist() == np.arange(12).reshape(3, 4).tolist()
    assert tensors["one"].floats().shape == ()
    assert tensors["one"].floats() == 1
    assert tensors["none"].floats().shape == (0, 4)


def test_a_tensor_is_taken_with_its_shape(tmp_path: Path) -> None:
    tensors = some_tensors(tmp_path / "w")
    assert tensors.take("table", shape=(3, 4)) is tensors["table"]
    assert tensors.untaken() == ("none", "one")
    assert "table" in tensors
    assert sorted(tensors) == ["none", "one", "table"]
    assert len(tensors) == 3


def test_a_wrong_shape_is_refused_and_not_taken(tmp_path: Path) -> None:
    tensors = some_tensors(tmp_path / "w")
    with pytest.raises(CheckpointError) as refusal:
        tensors.take("table", shape=(4, 3))
    assert str(refusal.value) == (
        "tiny.gguf: table: found shape (3, 4), expected shape (4, 3); "
        "the checkpoint's settings and tensors disagree: use another checkpoint"
    )
    assert "table" in tensors.untaken()


def test_a_missing_tensor_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as refusal:
        some_tensors(tmp_path / "w").take("head", shape=(1,))
    assert str(refusal.value) == (
        "tiny.gguf: head: found no such tensor, expected a tensor of this name; "
        "the checkpoint is incomplete or of another architecture"
    )


@pytest.mark.parametrize("change", ["gone", "cut"])
def test_a_file_that_changed_is_refused_with_the_tensors_name(tmp_path: Path, change: str) -> None:
    path = tmp_path / "w"
    tensors = some_tensors(path)
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(b"head")
    with pytest.raises(CheckpointError) as refusal:
        tensors["table"].floats()
    assert str(refusal.value).startswith("w: table: found a file whose bytes cannot be mapped (")
    assert str(refusal.value).endswith(
        "), expected 48 bytes at offset 4; the file changed since it was opened: fetch it again"
    )
