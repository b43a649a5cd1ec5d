"""Reading Hugging Face folders, and refusing incomplete ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file as save_torch

from ignition.weights.checkpoint import Format, Kind, open_checkpoint
from weights.written import refusal_of, write_folder, write_json, write_shards

REFETCH = "is not a whole Hugging Face checkpoint: fetch it again"


def square(start: float) -> np.ndarray:
    return np.arange(start, start + 4, dtype=np.float32).reshape(2, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tensors_are_found_with_their_shape_format_and_numbers(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(1)
    values = {
        "model.w": torch.randn(3, 5, generator=generator).to(dtype),
        "model.v": torch.randn(7, generator=generator).to(dtype),
        "model.s": torch.tensor(2.5).to(dtype),
        "model.e": torch.zeros(0, 4).to(dtype),
    }
    folder = write_folder(tmp_path)
    save_torch(values, folder / "model.safetensors", metadata={"format": "pt"})
    tensors = open_checkpoint(folder).tensors
    assert sorted(tensors) == sorted(values)
    formats = {torch.float32: Format.F32, torch.float16: Format.F16, torch.bfloat16: Format.BF16}
    for name, value in values.items():
        source = tensors.take(name, shape=tuple(value.shape))
        assert source.format is formats[dtype]
        assert source.floats().tobytes() == value.float().numpy().tobytes()


def test_settings_keep_their_keys_and_nested_ones_get_dots(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "deep": {"er": 1}},
        "sliding_window": None,
        "layer_types": ["full", "window"],
        "nothing": {},
    }
    checkpoint = open_checkpoint(write_folder(tmp_path, config=config))
    settings = checkpoint.settings
    assert checkpoint.kind is Kind.HUGGING_FACE
    assert checkpoint.architecture == "llama"
    assert settings.take("rope_scaling.rope_type", str) == "llama3"
    assert settings.take("rope_scaling.factor", float) == 8.0
    assert settings.take("rope_scaling.deep.er", int) == 1
    assert settings.is_null("sliding_window")
    assert settings.take_list("layer_types", str) == ("full", "window")
    assert settings.untaken() == ("sliding_window",)


def test_generation_settings_are_read_when_they_are_there(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    assert len(open_checkpoint(folder).generation) == 0
    write_json(folder / "generation_config.json", {"temperature": 0.6, "eos_token_id": [1, 2]})
    generation = open_checkpoint(folder).generation
    assert generation.take("temperature", float) == 0.6
    assert generation.take_one_or_many("eos_token_id", int) == (1, 2)


def test_shards_are_joined_as_the_index_says(tmp_path: Path) -> None:
    shards = {"a.safetensors": {"x": square(0), "y": square(4)}, "b.safetensors": {"z": square(8)}}
    checkpoint = open_checkpoint(write_shards(tmp_path, shards=shards))
    for arrays in shards.values():
        for name, value in arrays.items():
            assert checkpoint.tensors[name].floats().tolist() == value.tolist()


def test_the_inputs_are_the_files_that_matter(tmp_path: Path) -> None:
    folder = write_shards(
        tmp_path, shards={"a.safetensors": {"x": square(0)}, "b.safetensors": {"z": square(8)}}
    )
    write_json(folder / "tokenizer.json", {})
    (folder / "README.md").write_text("not one of them", "utf-8")
    inputs = open_checkpoint(folder).inputs
    assert [found.name for found in inputs] == [
        "config.json",
        "tokenizer.json",
        "model.safetensors.index.json",
        "a.safetensors",
        "b.safetensors",
    ]
    empty_object = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert (inputs[1].nbytes, inputs[1].sha256()) == (2, empty_object)


def test_a_single_weight_file_wins_over_others_beside_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, tensors={"w": square(0)})
    (folder / "consolidated.safetensors").write_bytes(b"another form of the same weights")
    assert list(open_checkpoint(folder).tensors) == ["w"]


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    assert refusal_of(path) == (
        f"{path}: found No such file or directory, expected a readable .gguf file or "
        "Hugging Face folder; check the path and its permissions"
    )


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    assert refusal_of(tmp_path) == (
        "config.json: found nothing readable (No such file or directory), "
        f"expected a JSON object; {tmp_path} {REFETCH}"
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"[1]", "a list"),
        (b"{", "malformed JSON (Expecting property name enclosed in double quotes: "),
        (b"\xff\xfe", "malformed JSON ("),
    ],
)
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, content: bytes, found: str) -> None:
    folder = write_folder(tmp_path)
    (folder / "config.json").write_bytes(content)
    assert refusal_of(folder).startswith(f"config.json: found {found}")
    assert refusal_of(folder).endswith(f", expected a JSON object; {folder} {REFETCH}")


def test_a_config_without_architecture_is_refused(tmp_path: Path) -> None:
    assert refusal_of(write_folder(tmp_path, config={"hidden_size": 8})) == (
        "config.json: model_type: found nothing, expected text; "
        "the checkpoint is damaged or needs a newer Ignition"
    )


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    assert refusal_of(tmp_path) == (
        f"{tmp_path}: found no .safetensors file, expected model.safetensors, or "
        "model.safetensors.index.json with its shards; "
        "fetch the whole checkpoint, with weights in safetensors form"
    )


def test_shards_without_an_index_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    assert refusal_of(folder).startswith(
        f"{folder}: found the weight files ['model-00001-of-00002.safetensors'], expected "
    )


def test_a_missing_shard_is_refused_by_name(tmp_path: Path) -> None:
    shards = {"a.safetensors": {"x": square(0)}, "b.safetensors": {"z": square(8)}}
    folder = write_shards(tmp_path, shards=shards)
    (folder / "b.safetensors").unlink()
    assert refusal_of(folder) == (
        "model.safetensors.index.json: found no file b.safetensors, expected every shard that it "
        "names, in the same folder; the download is incomplete: fetch the missing shard"
    )


def test_a_tensor_that_its_shard_lacks_is_refused(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, shards={"a.safetensors": {"x": square(0)}})
    index = {"weight_map": {"x": "a.safetensors", "y": "a.safetensors"}}
    write_json(folder / "model.safetensors.index.json", index)
    assert refusal_of(folder) == (
        "a.safetensors: y: found no such tensor, expected the tensor, as "
        "model.safetensors.index.json says; "
        "shards of two checkpoints are mixed: fetch the folder again"
    )


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    shards = {
        "a.safetensors": {"x": square(0), "y": square(0)},
        "b.safetensors": {"x": square(4), "z": square(0)},
    }
    assert refusal_of(write_shards(tmp_path, shards=shards)) == (
        "b.safetensors: x: found the tensor also in a.safetensors, expected each tensor in one "
        "shard; shards of two checkpoints are mixed: fetch the folder again"
    )


@pytest.mark.parametrize("shard", ["../elsewhere.safetensors", "/etc/passwd", "", 7])
def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path, shard: object) -> None:
    folder = write_folder(tmp_path)
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"w": shard}})
    assert refusal_of(folder) == (
        f"model.safetensors.index.json: weight_map.w: found {shard!r}, expected the name of a "
        "file in the same folder; the index is damaged: fetch it again"
    )


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": [1]}])
def test_an_index_without_a_map_is_refused(tmp_path: Path, index: object) -> None:
    folder = write_folder(tmp_path)
    write_json(folder / "model.safetensors.index.json", index)
    assert refusal_of(folder) == (
        f"model.safetensors.index.json: found no weight_map, expected a JSON object; "
        f"{folder} {REFETCH}"
    )


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.int64, "I64"), (torch.uint8, "U8"), (torch.float8_e4m3fn, "F8_E4M3")],
)
def test_a_format_that_we_do_not_read_is_refused_with_the_tensor(
    tmp_path: Path, dtype: torch.dtype, name: str
) -> None:
    folder = write_folder(tmp_path)
    save_torch({"model.q": torch.zeros(2, 2).to(dtype)}, folder / "model.safetensors")
    assert refusal_of(folder) == (
        f"model.safetensors: model.q: found format {name}, expected one of F32, F16, BF16; "
        "use the original weights, not a file quantised for another engine"
    )


def test_every_truncated_weight_file_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, tensors={"w": square(0)})
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for nbytes in range(len(whole)):
        path.write_bytes(whole[:nbytes])
        sentence = refusal_of(folder)
        assert sentence.startswith("model.safetensors: found a file that cannot be read (")
        assert sentence.endswith(
            "), expected a whole safetensors file; "
            "the file is missing, damaged or incomplete: fetch it again"
        )
