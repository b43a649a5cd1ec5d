"""One message, one spelling: every other one is refused, wherever in the message it is."""

from __future__ import annotations

import pytest

from prepared.decode import decode
from prepared.encode import encode
from tests.treaty.carriers import STANDING
from tests.treaty.messages import message_of
from tests.treaty.refusals import refused
from tests.treaty.rewriting import REWRITES, UNKNOWN, join, rewritten, split

SPELLED = [name for name in STANDING if not name.startswith("body")]


@pytest.mark.parametrize("name", SPELLED)
def test_encoding_is_the_wires_own_in_ascending_order(name: str) -> None:
    data = encode(STANDING[name])
    entries = split(data)
    assert join(entries) == data
    assert [entry.number for entry in entries] == sorted(entry.number for entry in entries)


@pytest.mark.clause("SM-20")
@pytest.mark.parametrize("name", SPELLED)
def test_a_field_that_we_do_not_know_is_refused_with_its_path(name: str) -> None:
    shape = STANDING[name]
    descriptor = message_of(shape).DESCRIPTOR
    spellings = dict(rewritten(encode(shape), descriptor, REWRITES["with_unknown"], at="core"))
    for path, data in spellings.items():
        with refused(f"{path}: found field {UNKNOWN}, expected fields we know"):
            decode(data, type(shape), at="core")


@pytest.mark.parametrize("rewrite", [name for name in REWRITES if name != "with_unknown"])
@pytest.mark.parametrize("name", SPELLED)
def test_another_spelling_is_refused(name: str, rewrite: str) -> None:
    shape = STANDING[name]
    descriptor = message_of(shape).DESCRIPTOR
    for _, data in rewritten(encode(shape), descriptor, REWRITES[rewrite], at="core"):
        with refused("core: found another encoding, expected the canonical encoding"):
            decode(data, type(shape), at="core")


@pytest.mark.parametrize("rewrite", REWRITES)
def test_every_way_of_spelling_is_tried_on_contracts_and_manifests(rewrite: str) -> None:
    tried = [
        path
        for name in ("contract_speculating", "manifest_speculating")
        for path, _ in rewritten(
            encode(STANDING[name]),
            message_of(STANDING[name]).DESCRIPTOR,
            REWRITES[rewrite],
            at=name,
        )
    ]
    assert len(tried) >= 5
