"""Reading a Hugging Face folder: config.json, and the shards that its weights lie in.

Settings keep the names of config.json; nested ones get dotted keys.  Other documents
(generation_config.json, tokenizer files) are listed as inputs and read by who needs them.

Always: every tensor comes from one shard, and every shard that the index names is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ignition.weights.errors import CheckpointError
from ignition.weights.safetensors_file import read_safetensors
from ignition.weights.tensors import TensorSource

CONFIG: Final = "config.json"
INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
DOCUMENTS: Final = (
    CONFIG,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    INDEX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContents:
    """What a Hugging Face folder holds."""

    settings: Mapping[str, object]
    tensors: tuple[TensorSource, ...]
    inputs: tuple[Path, ...]


def read_folder(folder: Path) -> FolderContents:
    """Read a folder's settings and the headers of its shards."""
    settings = read_document(folder / CONFIG)
    index = read_index(folder / INDEX) if (folder / INDEX).is_file() else {}
    shards = shard_paths(folder, index)
    placed: dict[str, TensorSource] = {}
    for shard in shards:
        for source in read_safetensors(shard):
            check_once(source, earlier=placed.get(source.name))
            placed[source.name] = source
    check_index(index, placed)
    documents = tuple(folder / name for name in DOCUMENTS if (folder / name).is_file())
    return FolderContents(
        settings=settings, tensors=tuple(placed.values()), inputs=(*documents, *shards)
    )


def read_document(path: Path) -> dict[str, object]:
    """A JSON object with nested objects flattened into dotted keys, lists into tuples."""
    return dict(flattened(read_object(path)))


def read_object(path: Path) -> dict[str, object]:
    """A JSON object as it is."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise unreadable(path, f"nothing readable ({error.strerror})") from None
    except ValueError as error:  # malformed JSON or text
        raise unreadable(path, f"malformed JSON ({error})") from None
    if not isinstance(document, dict):
        raise unreadable(path, f"a {type(document).__name__}")
    return document


def flattened(document: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf with its dotted key."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, tuple(value) if isinstance(value, list) else value


def read_index(path: Path) -> Mapping[str, str]:
    """Which shard holds which tensor."""
    weight_map = read_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise unreadable(path, "no weight_map")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not shard or Path(shard).name != shard:
            raise CheckpointError(
                f"{path.name}: weight_map.{name}",
                repr(shard),
                expected="the name of a file in the same folder",
                remedy="the index is damaged: fetch it again",
            )
    return weight_map


def shard_paths(folder: Path, index: Mapping[str, str]) -> tuple[Path, ...]:
    """The weight files: those that the index names, or the only one."""
    if index:
        return tuple(present(folder / shard) for shard in sorted(set(index.values())))
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    found = sorted(path.name for path in folder.glob("*.safetensors"))
    raise CheckpointError(
        str(folder),
        f"the weight files {found}" if found else "no .safetensors file",
        expected=f"{SINGLE}, or {INDEX} with its shards",
        remedy="fetch the whole checkpoint, with weights in safetensors form",
    )


def present(shard: Path) -> Path:
    """The shard, which must be there."""
    if not shard.is_file():
        raise CheckpointError(
            INDEX,
            f"no file {shard.name}",
            expected="every shard that it names, in the same folder",
            remedy="the download is incomplete: fetch the missing shard",
        )
    return shard


def check_once(source: TensorSource, *, earlier: TensorSource | None) -> None:
    """Refuse a tensor that two shards hold."""
    if earlier is not None:
        raise CheckpointError(
            f"{source.path.name}: {source.name}",
            f"the tensor also in {earlier.path.name}",
            expected="each tensor in one shard",
            remedy="shards of two checkpoints are mixed: fetch the folder again",
        )


def check_index(index: Mapping[str, str], placed: Mapping[str, TensorSource]) -> None:
    """Refuse an index whose tensors are not where it says."""
    for name, shard in index.items():
        if name not in placed or placed[name].path.name != shard:
            raise CheckpointError(
                f"{shard}: {name}",
                "no such tensor",
                expected=f"the tensor, as {INDEX} says",
                remedy="shards of two checkpoints are mixed: fetch the folder again",
            )


def unreadable(path: Path, found: str) -> CheckpointError:
    """A document that is missing or not what its name says."""
    return CheckpointError(
        path.name,
        found,
        expected="a JSON object",
        remedy=f"{path.parent} is not a whole Hugging Face checkpoint: fetch it again",
    )
