"""Small checkpoints that the tests write themselves, with the publishers' own tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from ignition.weights.checkpoint import CheckpointError, open_checkpoint

Arrays = Mapping[str, np.ndarray[Any, np.dtype[Any]]]


def write_gguf(
    path: Path,
    *,
    tensors: Arrays | None = None,
    stored: gguf.GGMLQuantizationType | None = None,
    settings: Mapping[str, int | float | str | bool | list[Any]] | None = None,
    architecture: str = "llama",
) -> Path:
    """A GGUF file; `stored` quantises every tensor."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (settings or {}).items():
        add_setting(writer, key, value)
    for name, array in (tensors or {}).items():
        if stored is None:
            writer.add_tensor(name, array)
        else:
            writer.add_tensor(name, gguf.quants.quantize(array, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_setting(
    writer: gguf.GGUFWriter, key: str, value: int | float | str | bool | list[Any]
) -> None:
    """One setting in the type that fits."""
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)


def write_folder(
    folder: Path,
    *,
    config: Mapping[str, object] | None = None,
    tensors: Arrays | None = None,
) -> Path:
    """A Hugging Face folder with one weight file."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", config or {"model_type": "llama"})
    save_file(dict(tensors or {"w": np.zeros((2, 2), np.float32)}), folder / "model.safetensors")
    return folder


def write_shards(folder: Path, *, shards: Mapping[str, Arrays]) -> Path:
    """A Hugging Face folder with several weight files and their index."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", {"model_type": "llama"})
    weight_map = {name: shard for shard, arrays in shards.items() for name in arrays}
    write_json(folder / "model.safetensors.index.json", {"weight_map": weight_map})
    for shard, arrays in shards.items():
        save_file(dict(arrays), folder / shard)
    return folder


def write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document), "utf-8")


def refusal_of(path: Path) -> str:
    """The sentence with which a checkpoint is refused."""
    try:
        open_checkpoint(path)
    except CheckpointError as error:
        return str(error)
    raise AssertionError(f"{path} was not refused")
