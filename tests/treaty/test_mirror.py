"""Shapes are the wire's mirror: same messages, fields, order, types, enums and numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor
from msgspec.structs import fields

from tests.treaty.schema import (
    ENUMS,
    MESSAGES,
    NEWER,
    PROTO,
    SCALARS,
    SHAPE_ENUMS,
    SHAPES,
    files,
    is_optional,
    numbers,
    said_by,
)

GOLDEN = Path(__file__).with_name("numbers.txt")


@pytest.mark.clause("PM-04")
def test_every_message_has_a_shape_and_every_shape_a_message() -> None:
    assert set(SHAPES) == set(MESSAGES)
    assert set(SHAPE_ENUMS) == set(ENUMS)


@pytest.mark.clause("PM-04")
@pytest.mark.parametrize("name", MESSAGES)
def test_a_shape_has_its_messages_fields_in_order(name: str) -> None:
    assert [f.name for f in fields(SHAPES[name])] == [f.name for f in MESSAGES[name].fields]


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_are_declared_in_the_order_of_their_numbers(name: str) -> None:
    declared = [field.number for field in MESSAGES[name].fields]
    assert declared == sorted(declared)


@pytest.mark.clause("PM-04")
@pytest.mark.parametrize("name", MESSAGES)
def test_a_field_has_the_type_of_its_wire_field(name: str) -> None:
    for field_name, said in said_by(SHAPES[name]).items():
        field = MESSAGES[name].fields_by_name[field_name]
        assert said.kind is counterpart(field), field_name
        assert said.repeated == field.is_repeated, field_name
        assert said.optional == is_optional(field), field_name


def counterpart(field: FieldDescriptor) -> type:
    """What a wire field is called among the shapes."""
    if field.message_type is not None:
        return SHAPES[field.message_type.name]
    if field.enum_type is not None:
        return SHAPE_ENUMS[field.enum_type.name]
    return SCALARS[field.type]


@pytest.mark.clause("SM-19")
@pytest.mark.parametrize("name", ENUMS)
def test_an_enum_has_the_wires_values_except_zero(name: str) -> None:
    wire = {value.name: value.number for value in ENUMS[name].values}
    nothing = [known for known, number in wire.items() if number == 0]
    assert len(nothing) == 1
    assert nothing[0].endswith("_UNSPECIFIED")
    assert {member.name: member.value for member in SHAPE_ENUMS[name]} == {
        known: number for known, number in wire.items() if number
    }


@pytest.mark.clause("SM-21")
def test_numbers_stay_what_they_are_and_removed_ones_stay_reserved() -> None:
    """After an addition: `python -m tests.treaty.schema`, and read the difference."""
    assert numbers().splitlines() == GOLDEN.read_text().splitlines()


def test_a_comment_and_an_annotation_name_the_same_version() -> None:
    """`// since 3` in the proto file is `Since(3)` in the shape."""
    found = {}
    for file in files():
        owner = ""
        for line in (PROTO / file.name).read_text().splitlines():
            if opened := re.match(r"(?:message|enum) (\w+) \{", line):
                owner = opened[1]
            if newer := re.match(r"  .*?(\w+) = \d+;.*\bsince (\d)", line):
                found[owner, newer[1]] = int(newer[2])
    assert found == NEWER


@pytest.mark.clause("SG-18", "SG-37")
def test_nothing_about_a_program_is_a_flag() -> None:
    about_programs = ("GraphContract", "Speculation", "ValueBinding", "PendingToken", "Program")
    for name in about_programs:
        kinds = {said.kind for said in said_by(SHAPES[name]).values()}
        assert bool not in kinds, name
