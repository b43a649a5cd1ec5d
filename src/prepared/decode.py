"""Wire bytes to shapes, or a ContractError that names the field.

Decoding is driven by the shapes: a class's annotations say what each field is, what it
may hold and since which contract version.  Bytes must be the canonical encoding
(`encode`), so a duplicate, unknown or misordered field is refused wherever it hides.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from prepared.body import (
    CoreBody,
    LocationSet,
    ModelIndex,
    ProtectedIndex,
    RebuildManifest,
    SignedEnvelope,
    WeightCatalog,
)
from prepared.contract import (
    InitialContent,
    ModelContract,
    PageBase,
    ProposalKind,
    RejectionRule,
    ReusePoint,
    ServingContract,
)
from prepared.fields import ContractError, Rule, Shape, Since
from prepared.manifest import ExecutionManifest
from prepared.wire import contract_pb2, core_pb2, manifest_pb2

WIRE: Final[dict[type, type[Message]]] = {
    CoreBody: core_pb2.CoreBody,
    LocationSet: core_pb2.LocationSet,
    ModelIndex: core_pb2.ModelIndex,
    ProtectedIndex: core_pb2.ProtectedIndex,
    RebuildManifest: core_pb2.RebuildManifest,
    SignedEnvelope: core_pb2.SignedEnvelope,
    WeightCatalog: core_pb2.WeightCatalog,
    ServingContract: contract_pb2.ServingContract,
    ExecutionManifest: manifest_pb2.ExecutionManifest,
}
"""Shapes that stand alone as bytes, and their messages."""

NEWEST_VERSION: Final = 3

S = TypeVar("S")

MEANT_BEFORE: Final[dict[str, object]] = {
    "initial": InitialContent.CONTENT_UNDEFINED,
    "reuse": ReusePoint.REUSE_ANY_ENDPOINT,
    "snapshot": True,
    "base": PageBase.PAGE_BASE_ABSOLUTE,
    "proposals": ProposalKind.LEARNED,
    "rejection": RejectionRule.EXACT_MATCH,
    "feature_planes": 1,
    "position_axes": 1,
}
"""What an older contract means by a field that it does not have, where that is not zero."""


def decode(data: bytes, shape: type[S], *, at: str) -> S:
    """Read one shape from its canonical bytes; `at` names the bytes in errors."""
    message = WIRE[shape]()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise ContractError(at, f"{len(data)} bytes", expected=f"a {shape.__name__}") from None
    known = WIRE[shape]()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    if known.SerializeToString(deterministic=True) != data:
        refuse_unknown_fields(message, at=at)
        raise ContractError(at, "another encoding", expected="the canonical encoding")
    try:
        result: S = read_message(message, shape, version=NEWEST_VERSION)
    except ContractError as error:
        error.found_inside(at)
        raise
    return result


def refuse_unknown_fields(message: Message, *, at: str) -> None:
    """Name the first field that no shape has (SM-20)."""
    unknown = UnknownFieldSet(message)
    if len(unknown):
        raise ContractError(at, f"field {unknown[0].field_number}", expected="fields we know")
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if descriptor.is_repeated:
            for index, item in enumerate(value):
                refuse_unknown_fields(item, at=f"{at}.{descriptor.name}[{index}]")
        else:
            refuse_unknown_fields(value, at=f"{at}.{descriptor.name}")


Read = Callable[[Any, int], Any]
"""Turns a wire value into ours: (value, contract version).

Where an error is, is said from the inside outwards, as it passes: paths of values that are
right are never written.
"""


class FieldPlan(msgspec.Struct, frozen=True):
    """How one field of a shape is read."""

    name: str
    read: Read | None  # None: any value is right as it is
    optional: bool
    is_message: bool
    since: int
    plain: bool  # whatever the wire has is the value


def read_message(message: Any, shape: type, *, version: int) -> Any:
    """Read a decoded message into its shape."""
    if shape is ModelContract:
        version = min(message.version, NEWEST_VERSION)
    values: dict[str, Any] = {}
    for plan in plans_of(shape):
        name = plan.name
        if plan.plain:
            values[name] = getattr(message, name)
            continue
        try:
            values[name] = read_field(message, plan, version=version)
        except ContractError as error:
            error.found_inside(f".{name}")
            raise
    return shape(**values)


def read_field(message: Any, plan: FieldPlan, *, version: int) -> Any:
    """Read one field of a message."""
    # Presence only matters where the wire records it.
    if plan.optional and not message.HasField(plan.name):
        return None
    if plan.is_message and not message.HasField(plan.name):
        raise ContractError("", "nothing", expected="a value")
    value = getattr(message, plan.name)
    if plan.since > version:
        return before_its_time(plan, value, version=version)
    return value if plan.read is None else plan.read(value, version)


def before_its_time(plan: FieldPlan, value: Any, *, version: int) -> Any:
    """A field newer than the contract must be absent; it then means what its version meant."""
    # An optional field gets here only when it is present, be it with a zero.
    if value or plan.optional:
        raise ContractError("", describe(value), expected=f"nothing before version {plan.since}")
    if plan.name in MEANT_BEFORE:
        return MEANT_BEFORE[plan.name]
    return value if plan.read is None else plan.read(value, version)


@cache
def plans_of(shape: type[Shape]) -> tuple[FieldPlan, ...]:
    """The reading plan of a shape, from its annotations."""
    hints = get_type_hints(shape, include_extras=True)
    return tuple(plan_field(name, hints[name]) for name in shape.__struct_fields__)


def plan_field(name: str, hint: Any) -> FieldPlan:
    """The reading plan of one field."""
    inner, rules = unwrap(hint)
    since = max((rule.version for rule in rules if isinstance(rule, Since)), default=1)
    checks = tuple(rule for rule in rules if not isinstance(rule, Since))
    optional = False
    if get_origin(inner) in (Union, UnionType):
        (present,) = (arm for arm in get_args(inner) if arm is not NoneType)
        inner, more = unwrap(present)
        checks += more
        optional = True
    if get_origin(inner) is tuple:
        item, item_rules = unwrap(get_args(inner)[0])
        read: Read | None = read_items(item, item_rules)
        return FieldPlan(name, read, optional, is_message=False, since=since, plain=False)
    read = read_value(inner, checks)
    plain = read is None and not optional and since == 1
    return FieldPlan(name, read, optional, issubclass(inner, Shape), since, plain)


def unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Take the rules off an annotation."""
    rules: tuple[Any, ...] = ()
    while get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        rules += tuple(more)
    return hint, rules


def read_value(kind: Any, rules: tuple[Rule, ...]) -> Read | None:
    """Reader of a single value."""
    if issubclass(kind, Shape):
        return lambda value, version: read_message(value, kind, version=version)
    if issubclass(kind, IntEnum):
        return read_enum(kind)
    if not rules:
        return None

    def read(value: Any, _version: int) -> Any:
        for rule in rules:
            expected = rule.broken_by(value)
            if expected is not None:
                raise ContractError("", describe(value), expected=expected)
        return value

    return read


def read_enum(kind: type[IntEnum]) -> Read:
    """Reader of an enum; zero is unspecified and selects nothing (SM-19)."""
    members = {member.value: member for member in kind}

    def read(value: Any, _version: int) -> Any:
        member = members.get(value)
        if member is None:
            raise ContractError("", value, expected=f"one of {sorted(members)}")
        return member

    return read


def read_items(kind: Any, rules: tuple[Rule, ...]) -> Read:
    """Reader of a repeated field."""
    read = read_value(kind, rules)
    if read is None:
        return lambda values, _version: tuple(values)

    def read_all(values: Any, version: int) -> Any:
        items: list[Any] = []
        try:
            for value in values:
                items.append(read(value, version))
        except ContractError as error:
            error.found_inside(f"[{len(items)}]")
            raise
        return tuple(items)

    return read_all


def describe(value: Any) -> str:
    """A value short enough for an error."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, int | float):
        return str(value)
    return f"{len(value)} items"
