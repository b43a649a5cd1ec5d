"""The wire's own description: messages, enums, their numbers, and the shapes that mirror them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto
from msgspec.structs import fields

from prepared import body, contract, manifest
from prepared.decode import WIRE
from prepared.fields import Shape, Since

PROTO: Final = Path(__file__).parents[2] / "proto"

SCALARS: Final = {
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_BYTES: bytes,
    FieldDescriptor.TYPE_FLOAT: float,
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_SINT32: int,
    FieldDescriptor.TYPE_SINT64: int,
    FieldDescriptor.TYPE_UINT32: int,
    FieldDescriptor.TYPE_UINT64: int,
}
BOUNDS: Final = {
    FieldDescriptor.TYPE_SINT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
}


def files() -> list[FileDescriptor]:
    """The treaty's files, each once, by name."""
    found: dict[str, FileDescriptor] = {}
    waiting: list[Any] = [message.DESCRIPTOR.file for message in WIRE.values()]
    while waiting:
        file = waiting.pop()
        found[file.name] = file
        waiting += file.dependencies
    return [found[name] for name in sorted(found)]


MESSAGES: Final[dict[str, Descriptor]] = {
    name: message for file in files() for name, message in file.message_types_by_name.items()
}
ENUMS: Final[dict[str, EnumDescriptor]] = {
    name: enum for file in files() for name, enum in file.enum_types_by_name.items()
}


def classes() -> Iterator[type]:
    """Every class that the treaty's three shape modules define."""
    for module in (body, contract, manifest):
        for item in vars(module).values():
            if isinstance(item, type) and item.__module__ == module.__name__:
                yield item


SHAPES: Final = {
    item.__name__: item for item in classes() if issubclass(item, Shape) and item is not Shape
}
SHAPE_ENUMS: Final = {item.__name__: item for item in classes() if issubclass(item, IntEnum)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an annotation says of one field."""

    kind: type
    repeated: bool
    optional: bool
    rules: tuple[Any, ...]  # of the field, or of each item

    @property
    def since(self) -> int:
        """The contract version that introduced the field."""
        return max((rule.version for rule in self.rules if isinstance(rule, Since)), default=1)


def unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """An annotation without its rules, and they."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def said_by(shape: type) -> dict[str, Said]:
    """What a shape's annotations say, field by field, in order."""
    hints = get_type_hints(shape, include_extras=True)
    said = {}
    for field in fields(shape):
        hint, rules = unwrapped(hints[field.name])
        optional = NoneType in get_args(hint)
        repeated = get_origin(hint) is tuple
        if optional or repeated:
            hint, more = unwrapped(get_args(hint)[0])
            rules += more
        said[field.name] = Said(kind=hint, repeated=repeated, optional=optional, rules=rules)
    return said


NEWER: Final = {
    (shape.__name__, name): said.since
    for shape in SHAPES.values()
    for name, said in said_by(shape).items()
    if said.since > 1
}
"""Fields that a later contract version introduced."""


# ---------------------------------------------------------------- numbers


def numbers() -> str:
    """Every number that the wire has given away, a line each."""
    lines = []
    for file in files():
        for name, enum in sorted(file.enum_types_by_name.items()):
            lines += [f"enum {name} {value.name} = {value.number}" for value in enum.values]
            lines += reserved(f"enum {name}", enum, EnumDescriptorProto())
        for name, message in sorted(file.message_types_by_name.items()):
            lines += [f"message {name} {typed(field)}" for field in message.fields]
            lines += reserved(f"message {name}", message, DescriptorProto())
    return "\n".join(lines) + "\n"


def typed(field: FieldDescriptor) -> str:
    """A field as the proto file writes it, comments aside."""
    named = field.message_type or field.enum_type
    kind = named.name if named else field_kind(field)
    label = "repeated " if field.is_repeated else "optional " if is_optional(field) else ""
    return f"{label}{kind} {field.name} = {field.number}"


def field_kind(field: FieldDescriptor) -> str:
    """The wire's word for a scalar type."""
    proto = DescriptorProto()
    owner: Any = field.containing_type
    owner.CopyToProto(proto)
    (found,) = (item for item in proto.field if item.name == field.name)
    return str(found.DESCRIPTOR.enum_types_by_name["Type"].values_by_number[found.type].name)[
        5:
    ].lower()


def is_optional(field: FieldDescriptor) -> bool:
    """Whether the proto file says `optional`: a message field alone has presence anyway."""
    return field.containing_oneof is not None


def reserved(
    owner: str, described: Descriptor | EnumDescriptor, proto: DescriptorProto | EnumDescriptorProto
) -> list[str]:
    """Numbers and names that were removed."""
    described.CopyToProto(proto)  # type: ignore[arg-type]  # each goes with its own
    ranges = [f"{owner} reserved {item.start} to {item.end}" for item in proto.reserved_range]
    return ranges + [f"{owner} reserved {name}" for name in proto.reserved_name]


if __name__ == "__main__":
    Path(__file__).with_name("numbers.txt").write_text(numbers())
