"""Reading a GGUF file: its settings, and where its tensors lie.

The file is not trusted: every count, length and offset is checked against the bytes that
are there before it is used, so damage costs neither memory nor time.  (The `gguf`
package's own reader trusts counts; only its numbers and names are used here.)

Always: a tensor handed out lies inside the file, in a format that we read.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from ignition.weights.errors import CheckpointError
from ignition.weights.formats import Format, block_columns
from ignition.weights.tensors import TensorSource

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32
MOST_DIMENSIONS: Final = 4

FORMATS: Final[Mapping[int, Format]] = {
    GGMLQuantizationType[stored.value].value: stored for stored in Format
}
FORMAT_NAMES: Final = ", ".join(stored.value for stored in Format)

SCALARS: Final[Mapping[int, struct.Struct]] = {
    GGUFValueType.UINT8: struct.Struct("<B"),
    GGUFValueType.INT8: struct.Struct("<b"),
    GGUFValueType.UINT16: struct.Struct("<H"),
    GGUFValueType.INT16: struct.Struct("<h"),
    GGUFValueType.UINT32: struct.Struct("<I"),
    GGUFValueType.INT32: struct.Struct("<i"),
    GGUFValueType.FLOAT32: struct.Struct("<f"),
    GGUFValueType.BOOL: struct.Struct("<?"),
    GGUFValueType.UINT64: struct.Struct("<Q"),
    GGUFValueType.INT64: struct.Struct("<q"),
    GGUFValueType.FLOAT64: struct.Struct("<d"),
}
U32: Final = SCALARS[GGUFValueType.UINT32]
U64: Final = SCALARS[GGUFValueType.UINT64]

# The fewest bytes that one of them can take: a count above what is left is a lie.
LEAST_STRING_NBYTES: Final = 8
LEAST_SETTING_NBYTES: Final = 8 + 4 + 1
LEAST_TENSOR_NBYTES: Final = 8 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufContents:
    """What a GGUF file holds."""

    settings: Mapping[str, object]
    tensors: tuple[TensorSource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecord:
    """One entry of the tensor list; `offset` counts from the start of the data."""

    name: str
    shape: tuple[int, ...]
    format: Format
    offset: int


def read_gguf(path: Path) -> GgufContents:
    """Read a GGUF file's header; its tensors stay in the file."""
    with path.open("rb") as file:
        nbytes = file.seek(0, 2)
        if nbytes < 24:
            raise refusal(path.name, f"{nbytes} bytes", expected="a GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return read_contents(Cursor(mapped, path=path))


class Cursor:
    """A place in the mapped file; every read says what it was reading."""

    def __init__(self, mapped: mmap.mmap, *, path: Path) -> None:
        self.path = path
        self.position = 0
        self._mapped = mapped

    def nbytes(self) -> int:
        """Bytes in the whole file."""
        return len(self._mapped)

    def nbytes_left(self) -> int:
        """Bytes from here to the end of the file."""
        return len(self._mapped) - self.position

    def skip(self, nbytes: int, *, at: str) -> int:
        """Move over this many bytes; where they began."""
        if nbytes > self.nbytes_left():
            raise refusal(
                f"{self.path.name}: {at}",
                f"{self.nbytes_left()} bytes before the end of the file",
                expected=f"{nbytes}",
            )
        start = self.position
        self.position += nbytes
        return start

    def taken(self, nbytes: int, *, at: str) -> bytes:
        """The next bytes."""
        start = self.skip(nbytes, at=at)
        return self._mapped[start : start + nbytes]

    def number(self, layout: struct.Struct, *, at: str) -> int:
        """One whole number."""
        (value,) = layout.unpack_from(self._mapped, self.skip(layout.size, at=at))
        assert isinstance(value, int)
        return value

    def count(self, *, least_nbytes: int, at: str) -> int:
        """A count of things that each take at least this many bytes."""
        count = self.number(U64, at=at)
        if count * least_nbytes > self.nbytes_left():
            raise refusal(
                f"{self.path.name}: {at}",
                f"a count of {count}",
                expected=f"at most {self.nbytes_left() // least_nbytes}: what the file can hold",
            )
        return count

    def numbers(self, layout: struct.Struct, *, count: int, at: str) -> tuple[object, ...]:
        """Several scalars of one type."""
        start = self.skip(layout.size * count, at=at)
        return struct.unpack_from(f"<{count}{layout.format[1:]}", self._mapped, start)

    def text(self, *, at: str) -> str:
        """A string: length, then UTF-8."""
        stored = self.taken(self.count(least_nbytes=1, at=at), at=at)
        try:
            return stored.decode()
        except UnicodeDecodeError as error:
            raise refusal(
                f"{self.path.name}: {at}", f"invalid UTF-8 ({error})", expected="text"
            ) from None


def read_contents(cursor: Cursor) -> GgufContents:
    """Header, settings, tensor list, in the order in which they are stored."""
    check_version(cursor)
    tensor_count = cursor.count(least_nbytes=LEAST_TENSOR_NBYTES, at="tensor count")
    setting_count = cursor.count(least_nbytes=LEAST_SETTING_NBYTES, at="setting count")
    settings: dict[str, object] = {}
    for index in range(setting_count):
        key = cursor.text(at=f"setting {index}")
        if key in settings:
            raise refusal(f"{cursor.path.name}: {key}", "the key twice", expected="each key once")
        settings[key] = read_value(cursor, key=key)
    check_whole(settings, cursor=cursor)
    alignment = read_alignment(settings, cursor=cursor)
    records = [read_record(cursor, index=index) for index in range(tensor_count)]
    data = -(-cursor.position // alignment) * alignment
    return GgufContents(
        settings=settings, tensors=place_tensors(records, data=data, alignment=alignment, of=cursor)
    )


def check_version(cursor: Cursor) -> None:
    """Refuse what is not a GGUF file that we know how to read."""
    name = cursor.path.name
    magic = cursor.taken(len(MAGIC), at="magic")
    if magic != MAGIC:
        raise CheckpointError(
            f"{name}: magic",
            repr(magic),
            expected=f"{MAGIC!r}: a GGUF file",
            remedy="give a .gguf file or a Hugging Face folder",
        )
    version = cursor.number(U32, at="version")
    if version not in VERSIONS:
        found = "a big-endian file" if version & 0xFFFF == 0 else f"{version}"
        raise CheckpointError(
            f"{name}: version",
            found,
            expected=f"one of {list(VERSIONS)}, little-endian",
            remedy="convert the model again with a current converter",
        )


def read_value(cursor: Cursor, *, key: str) -> object:
    """A setting's value: a scalar, a text, or a tuple of them."""
    kind = cursor.number(U32, at=key)
    if kind == GGUFValueType.STRING:
        return cursor.text(at=key)
    if kind == GGUFValueType.ARRAY:
        return read_array(cursor, key=key)
    return cursor.numbers(scalar_layout(kind, cursor=cursor, key=key), count=1, at=key)[0]


def read_array(cursor: Cursor, *, key: str) -> tuple[object, ...]:
    """An array of scalars or of texts; GGUF has no arrays of arrays in use."""
    kind = cursor.number(U32, at=key)
    if kind == GGUFValueType.STRING:
        count = cursor.count(least_nbytes=LEAST_STRING_NBYTES, at=key)
        return tuple(cursor.text(at=f"{key}[{index}]") for index in range(count))
    layout = scalar_layout(kind, cursor=cursor, key=key)
    count = cursor.count(least_nbytes=layout.size, at=key)
    return cursor.numbers(layout, count=count, at=key)


def scalar_layout(kind: int, *, cursor: Cursor, key: str) -> struct.Struct:
    """How a scalar of this type is stored."""
    layout = SCALARS.get(kind)
    if layout is None:
        raise refusal(
            f"{cursor.path.name}: {key}",
            f"value type {kind}",
            expected=f"one of {[int(known) for known in SCALARS]}, text, or an array of them",
        )
    return layout


def check_whole(settings: Mapping[str, object], *, cursor: Cursor) -> None:
    """Refuse one part of a model that was split over several files."""
    parts = settings.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        raise CheckpointError(
            f"{cursor.path.name}: split.count",
            parts,
            expected="a whole model in one file",
            remedy="join the parts with `llama-gguf-split --merge`",
        )


def read_alignment(settings: Mapping[str, object], *, cursor: Cursor) -> int:
    """What tensor offsets are multiples of."""
    alignment = settings.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise refusal(
            f"{cursor.path.name}: general.alignment", alignment, expected="a power of two"
        )
    return alignment


def read_record(cursor: Cursor, *, index: int) -> TensorRecord:
    """One entry of the tensor list; stored dimensions count from the innermost."""
    name = cursor.text(at=f"tensor {index}")
    at = f"{cursor.path.name}: {name}"
    dimensions = cursor.number(U32, at=name)
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise refusal(at, f"{dimensions} dimensions", expected=f"1 to {MOST_DIMENSIONS}")
    shape = tuple(reversed([cursor.number(U64, at=name) for _ in range(dimensions)]))
    stored = read_format(cursor.number(U32, at=name), at=at)
    if shape[-1] % block_columns(stored):
        raise refusal(
            at,
            f"{shape[-1]} columns of {stored.value}",
            expected=f"a multiple of {block_columns(stored)}",
        )
    return TensorRecord(name=name, shape=shape, format=stored, offset=cursor.number(U64, at=name))


def read_format(number: int, *, at: str) -> Format:
    """The tensor's format, or its name in the refusal."""
    stored = FORMATS.get(number)
    if stored is None:
        known = number in GGML_QUANT_SIZES
        raise CheckpointError(
            at,
            f"format {GGMLQuantizationType(number).name if known else number}",
            expected=f"one of {FORMAT_NAMES}",
            remedy="use a file quantised to one of these, or the original weights",
        )
    return stored


def place_tensors(
    records: list[TensorRecord], *, data: int, alignment: int, of: Cursor
) -> tuple[TensorSource, ...]:
    """Turn offsets within the data into offsets within the file, and check them."""
    placed: dict[str, TensorSource] = {}
    for record in records:
        at = f"{of.path.name}: {record.name}"
        if record.name in placed:
            raise refusal(at, "the tensor twice", expected="each tensor once")
        if record.offset % alignment:
            raise refusal(at, f"offset {record.offset}", expected=f"a multiple of {alignment}")
        source = TensorSource(
            name=record.name,
            shape=record.shape,
            format=record.format,
            path=of.path,
            offset=data + record.offset,
        )
        check_extent(source, file_nbytes=of.nbytes())
        placed[record.name] = source
    return tuple(placed.values())


def check_extent(source: TensorSource, *, file_nbytes: int) -> None:
    """Refuse a tensor that does not lie inside the file."""
    nbytes = prod(source.raw_shape())
    if source.offset + nbytes > file_nbytes:
        raise refusal(
            f"{source.path.name}: {source.name}",
            f"the file's end at byte {file_nbytes}",
            expected=f"{nbytes} bytes from byte {source.offset}",
        )


def refusal(at: str, found: object, *, expected: str) -> CheckpointError:
    """What a damaged file gets."""
    return CheckpointError(
        at, found, expected=expected, remedy="the file is damaged or incomplete: fetch it again"
    )
