"""A checkpoint: one model as it was published, whatever files it came in.

Recipes and preparation see this and nothing below it.  It says which architecture the
publisher declared, and hands out settings and tensors under the publisher's own names;
what they mean is a recipe's business.

Always: what `open_checkpoint` returns can be read to its end, and whatever it cannot
read is a `CheckpointError` before any work is done.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ignition.weights.errors import CheckpointError
from ignition.weights.folder import read_document, read_folder
from ignition.weights.formats import Format
from ignition.weights.gguf_file import read_gguf
from ignition.weights.settings import Settings
from ignition.weights.tensors import Shape, Tensors, TensorSource

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Format",
    "InputFile",
    "Kind",
    "Settings",
    "Shape",
    "TensorSource",
    "Tensors",
    "open_checkpoint",
]


class Kind(Enum):
    """The two forms in which checkpoints are published."""

    GGUF = "gguf"
    HUGGING_FACE = "hugging_face"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One file that the checkpoint consists of, for the rebuild manifest."""

    name: str
    path: Path
    nbytes: int

    def sha256(self) -> str:
        """The digest of the file's bytes, in hexadecimal; reads the whole file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model as published.  `generation` holds its generation_config.json, or nothing."""

    path: Path
    kind: Kind
    architecture: str
    settings: Settings
    generation: Settings
    tensors: Tensors
    inputs: tuple[InputFile, ...]


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a .gguf file or a Hugging Face folder."""
    try:
        if path.is_dir():
            return open_folder(path)
        return open_gguf(path)
    except OSError as error:
        raise CheckpointError(
            str(path),
            error.strerror or str(error),
            expected="a readable .gguf file or Hugging Face folder",
            remedy="check the path and its permissions",
        ) from None


def open_gguf(path: Path) -> Checkpoint:
    """Open one GGUF file."""
    contents = read_gguf(path)
    settings = Settings(contents.settings, origin=path.name)
    return Checkpoint(
        path=path,
        kind=Kind.GGUF,
        architecture=settings.take("general.architecture", str),
        settings=settings,
        generation=Settings({}, origin=path.name),
        tensors=Tensors(contents.tensors, origin=path.name),
        inputs=(input_file(path),),
    )


def open_folder(folder: Path) -> Checkpoint:
    """Open a Hugging Face folder."""
    contents = read_folder(folder)
    settings = Settings(contents.settings, origin="config.json")
    generation = folder / "generation_config.json"
    return Checkpoint(
        path=folder,
        kind=Kind.HUGGING_FACE,
        architecture=settings.take("model_type", str),
        settings=settings,
        generation=Settings(
            read_document(generation) if generation.is_file() else {}, origin=generation.name
        ),
        tensors=Tensors(contents.tensors, origin=folder.name),
        inputs=tuple(input_file(path) for path in contents.inputs),
    )


def input_file(path: Path) -> InputFile:
    """A file as it is now."""
    return InputFile(name=path.name, path=path, nbytes=path.stat().st_size)
