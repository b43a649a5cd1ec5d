"""Reading one safetensors file: which tensors it holds and where their bytes lie.

The `safetensors` package checks the file (lengths, extents, overlaps); after that its
header can be believed.  Bytes are mapped later, because numpy has no bfloat16.

Always: a tensor handed out lies inside the file, in a format that we read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open

from ignition.weights.errors import CheckpointError
from ignition.weights.formats import Format
from ignition.weights.tensors import TensorSource

FORMATS: Final[Mapping[str, Format]] = {
    "F32": Format.F32,
    "F16": Format.F16,
    "BF16": Format.BF16,
}
HEADER_LENGTH: Final = struct.Struct("<Q")


def read_safetensors(path: Path) -> tuple[TensorSource, ...]:
    """The file's tensors; their bytes stay in the file."""
    check_file(path)
    with path.open("rb") as file:
        (nbytes,) = HEADER_LENGTH.unpack(file.read(HEADER_LENGTH.size))
        header = json.loads(file.read(nbytes))
    header.pop("__metadata__", None)
    start = HEADER_LENGTH.size + nbytes
    return tuple(source_of(name, entry, path=path, start=start) for name, entry in header.items())


def check_file(path: Path) -> None:
    """Refuse what the `safetensors` package refuses, in our words."""
    try:
        with safe_open(path, framework="numpy"):
            return
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            path.name,
            f"a file that cannot be read ({error})",
            expected="a whole safetensors file",
            remedy="the file is missing, damaged or incomplete: fetch it again",
        ) from None


def source_of(name: str, entry: Mapping[str, Any], *, path: Path, start: int) -> TensorSource:
    """One header entry; `start` is where the data begins."""
    stored = FORMATS.get(entry["dtype"])
    if stored is None:
        raise CheckpointError(
            f"{path.name}: {name}",
            f"format {entry['dtype']}",
            expected=f"one of {', '.join(FORMATS)}",
            remedy="use the original weights, not a file quantised for another engine",
        )
    return TensorSource(
        name=name,
        shape=tuple(entry["shape"]),
        format=stored,
        path=path,
        offset=start + entry["data_offsets"][0],
    )
