"""Small facts that the shapes carry: sizes of elements, kinds of access, places of fields."""

from __future__ import annotations

import pytest

from prepared.contract import ELEMENT_BYTES, Access, ElementType
from prepared.manifest import CompletionField, FinishBits


def test_every_element_has_its_bytes() -> None:
    assert set(ELEMENT_BYTES) == set(ElementType)
    for element, nbytes in ELEMENT_BYTES.items():
        bits = int("".join(letter for letter in element.name if letter.isdigit()))
        assert nbytes * 8 == bits


@pytest.mark.clause("HV-29")
@pytest.mark.parametrize(
    ("access", "reads", "writes"),
    [(Access.READ, True, False), (Access.WRITE, False, True), (Access.READ_WRITE, True, True)],
)
def test_access_says_who_looks_and_who_changes(access: Access, reads: bool, writes: bool) -> None:
    assert (access.reads, access.writes) == (reads, writes)


@pytest.mark.parametrize("field", CompletionField)
def test_a_field_belongs_to_the_record_or_to_a_lane(field: CompletionField) -> None:
    assert field.per_lane == field.name.startswith("LANE_")


def test_a_lane_may_end_for_both_reasons_at_once() -> None:
    assert FinishBits(3) == FinishBits.END_OF_SEQUENCE | FinishBits.OUTPUT_LIMIT
