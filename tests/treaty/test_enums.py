"""Every enum value is decoded, or refused with the sentence that says what would do."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import EnumDescriptor

from prepared.contract import ServingContract
from prepared.decode import decode
from tests.treaty.carriers import STANDING
from tests.treaty.messages import bytes_of, message_of, walk_messages
from tests.treaty.paths import walk
from tests.treaty.refusals import refused
from tests.treaty.schema import ENUMS, MESSAGES


def enum_fields() -> dict[tuple[str, str], tuple[str, str]]:
    """Where each enum field of the wire stands first: (message, field) -> (specimen, path)."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for name, shape in STANDING.items():
        for path, part in walk_messages(message_of(shape), at=name):
            for field, _ in part.ListFields():
                if field.enum_type is not None:
                    found.setdefault((part.DESCRIPTOR.name, field.name), (name, path))
    return found


ENUM_FIELDS = enum_fields()


def with_value(key: tuple[str, str], value: int) -> tuple[bytes, type, str]:
    """A specimen's bytes with another number in one enum field; its shape; the field's path."""
    name, path = ENUM_FIELDS[key]
    message = message_of(STANDING[name])
    part: Any = dict(walk_messages(message, at=name))[path]
    setattr(part, key[1], value)
    return bytes_of(message), type(STANDING[name]), f"{path}.{key[1]}"


def enum_of(key: tuple[str, str]) -> EnumDescriptor:
    """The wire's enum of a field."""
    enum = MESSAGES[key[0]].fields_by_name[key[1]].enum_type
    assert enum is not None
    return enum


def test_every_enum_field_of_the_wire_is_tried() -> None:
    every = {
        (name, field.name)
        for name, message in MESSAGES.items()
        for field in message.fields
        if field.enum_type is not None
    }
    assert set(ENUM_FIELDS) == every
    assert {enum_of(key).name for key in every} == set(ENUMS)


@pytest.mark.clause("SM-19", "SM-20")
@pytest.mark.parametrize("key", ENUM_FIELDS, ids=".".join)
def test_a_value_is_decoded_or_refused(key: tuple[str, str]) -> None:
    known = sorted(value.number for value in enum_of(key).values if value.number)
    name, owner = ENUM_FIELDS[key]
    for number in known:
        data, shape, _ = with_value(key, number)
        part = dict(walk(decode(data, shape, at=name), at=name))[owner]
        assert getattr(part, key[1]).value == number
    for number in (0, known[-1] + 1, 1 << 30, -1):
        data, shape, path = with_value(key, number)
        with refused(f"{path}: found {number}, expected one of {known}"):
            decode(data, shape, at=name)


@pytest.mark.clause("SM-19", "AH-02")
def test_a_refusal_reads_like_a_sentence() -> None:
    message = message_of(STANDING["contract_hybrid"])
    message.model.cache.histories[2].kind = 0
    with refused(
        "contract.model.cache.histories[2].kind: found 0, expected one of [1, 2, 3, 4, 5]"
    ):
        decode(bytes_of(message), ServingContract, at="contract")
