"""The specimens are sound, and leave nothing of the treaty unsaid."""

from __future__ import annotations

from typing import Any

import pytest

from prepared.agreement import check_agreement, check_manifest
from prepared.consistency import check_contract
from tests.treaty.carriers import MANIFESTS, STANDING
from tests.treaty.messages import message_of, walk_messages
from tests.treaty.paths import walk
from tests.treaty.schema import MESSAGES
from tests.treaty.specimens import CONTRACTS

UNSAYABLE = {("Speculation", "parent_table"), ("HistoryRegion", "replay_tokens")}
"""Numbers that are taken, but whose values are refused (tests/attacks)."""


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_specimen_is_sound(name: str) -> None:
    contract, manifest = CONTRACTS[name], MANIFESTS[name]
    check_contract(contract)
    check_manifest(manifest, at="manifest")
    check_agreement(contract.model, manifest, at="contract.model")


def test_every_field_of_every_message_says_something_in_a_specimen() -> None:
    said = set()
    for shape in STANDING.values():
        for _, message in walk_messages(message_of(shape), at=""):
            said |= {(message.DESCRIPTOR.name, field.name) for field, _ in message.ListFields()}
    every = {(name, field.name) for name, message in MESSAGES.items() for field in message.fields}
    assert every - said == UNSAYABLE


@pytest.mark.parametrize("name", STANDING)
def test_a_shape_can_be_neither_changed_nor_extended(name: str) -> None:
    shape: Any = STANDING[name]
    for _, part in walk(shape, at=name):
        with pytest.raises(AttributeError):
            setattr(part, part.__struct_fields__[0], None)
        assert not hasattr(part, "__dict__")
