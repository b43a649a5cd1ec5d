"""Other spellings of the same message: bytes that parse, but are not the canonical ones.

Works on raw wire bytes, guided by descriptors: every message within a message is a place
where a field can be moved, doubled, added, spelled out or stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
UNKNOWN: Final = 900
"""A field number that no message has."""

IMPLICIT: Final = frozenset(
    {FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One field as it stands on the wire."""

    number: int
    wire: int
    payload: bytes  # what follows the tag; without the length for BYTES

    def spelled(self) -> bytes:
        """The entry's bytes."""
        tag = varint(self.number << 3 | self.wire)
        length = varint(len(self.payload)) if self.wire == BYTES else b""
        return tag + length + self.payload


def varint(value: int) -> bytes:
    """A base-128 varint, in as few bytes as it takes."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The varint at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if byte < 0x80:
            return value, position


def split(data: bytes) -> list[Entry]:
    """The entries of canonical bytes."""
    entries = []
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        start = position
        match tag & 7:
            case 0:
                _, position = read_varint(data, position)
            case 2:
                length, start = read_varint(data, position)
                position = start + length
            case wire:
                position += {FIXED64: 8, FIXED32: 4}[wire]
        entries.append(Entry(number=tag >> 3, wire=tag & 7, payload=data[start:position]))
    return entries


def join(entries: list[Entry]) -> bytes:
    """The bytes of entries in their order."""
    return b"".join(entry.spelled() for entry in entries)


Rewrite = Callable[[list[Entry], Descriptor], list[Entry] | None]
"""Other entries that mean the same or more, or None where there is no such spelling."""


def backwards(entries: list[Entry], _descriptor: Descriptor) -> list[Entry] | None:
    """Fields in descending order."""
    if len({entry.number for entry in entries}) < 2:
        return None
    return sorted(entries, key=lambda entry: -entry.number)


def doubled(entries: list[Entry], descriptor: Descriptor) -> list[Entry] | None:
    """A field that may stand once stands twice."""
    for index, entry in enumerate(entries):
        if not descriptor.fields_by_number[entry.number].is_repeated:
            return [*entries[: index + 1], *entries[index:]]
    return None


def with_unknown(entries: list[Entry], _descriptor: Descriptor) -> list[Entry]:
    """A field that we do not know."""
    return [*entries, Entry(number=UNKNOWN, wire=VARINT, payload=varint(1))]


def spelled_out(entries: list[Entry], descriptor: Descriptor) -> list[Entry] | None:
    """A zero that goes without saying is said."""
    present = {entry.number for entry in entries}
    for field in descriptor.fields:
        plain = field.type in IMPLICIT and not field.is_repeated and not field.has_presence
        if plain and field.number not in present:
            zero = Entry(number=field.number, wire=VARINT, payload=varint(0))
            return sorted([*entries, zero], key=lambda entry: entry.number)
    return None


def stretched(entries: list[Entry], _descriptor: Descriptor) -> list[Entry] | None:
    """An integer takes one byte more than it needs."""
    for index, entry in enumerate(entries):
        if entry.wire == VARINT:
            longer = bytes((*entry.payload[:-1], entry.payload[-1] | 0x80, 0))
            return [*entries[:index], replace(entry, payload=longer), *entries[index + 1 :]]
    return None


def unpacked(entries: list[Entry], descriptor: Descriptor) -> list[Entry] | None:
    """Repeated integers stand one by one."""
    for index, entry in enumerate(entries):
        if descriptor.fields_by_number[entry.number].is_packed:
            singles = []
            position = 0
            is_float = descriptor.fields_by_number[entry.number].type == FieldDescriptor.TYPE_FLOAT
            while position < len(entry.payload):
                start = position
                position = start + 4 if is_float else read_varint(entry.payload, start)[1]
                payload = entry.payload[start:position]
                wire = FIXED32 if is_float else VARINT
                singles.append(Entry(number=entry.number, wire=wire, payload=payload))
            return [*entries[:index], *singles, *entries[index + 1 :]]
    return None


REWRITES: Final[Mapping[str, Rewrite]] = {
    "backwards": backwards,
    "doubled": doubled,
    "with_unknown": with_unknown,
    "spelled_out": spelled_out,
    "stretched": stretched,
    "unpacked": unpacked,
}


def rewritten(
    data: bytes, descriptor: Descriptor, rewrite: Rewrite, *, at: str
) -> Iterator[tuple[str, bytes]]:
    """The whole bytes with one message in them rewritten, and that message's path."""
    entries = split(data)
    other = rewrite(entries, descriptor)
    if other is not None:
        yield at, join(other)
    seen: dict[int, int] = {}
    for index, entry in enumerate(entries):
        field = descriptor.fields_by_number[entry.number]
        place = seen.get(entry.number, 0)
        seen[entry.number] = place + 1
        if field.message_type is None:
            continue
        where = f"{at}.{field.name}[{place}]" if field.is_repeated else f"{at}.{field.name}"
        for path, inner in rewritten(entry.payload, field.message_type, rewrite, at=where):
            changed = replace(entry, payload=inner)
            yield path, join([*entries[:index], changed, *entries[index + 1 :]])
