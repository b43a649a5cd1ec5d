"""Contract versions 1, 2 and 3: what each may say, and what an older one means by silence."""

from __future__ import annotations

from typing import Any

import pytest

from prepared.consistency import check_contract
from prepared.contract import (
    InitialContent,
    PageBase,
    ProposalKind,
    RejectionRule,
    ReusePoint,
    ServingContract,
)
from prepared.decode import decode
from prepared.encode import encode
from tests.treaty.carriers import body, model_index
from tests.treaty.messages import age, bytes_of, message_of, walk_messages
from tests.treaty.paths import put, walk
from tests.treaty.refusals import refused
from tests.treaty.schema import MESSAGES, NEWER
from tests.treaty.specimens import CONTRACTS

MEANT: dict[tuple[str, str], object] = {
    ("Vision", "feature_row_bytes"): 0,
    ("Vision", "feature_planes"): 1,
    ("Vision", "position_axes"): 1,
    ("HistoryRegion", "extra_retained_tokens"): 0,
    ("HistoryRegion", "lookahead_tokens"): 0,
    ("HistoryRegion", "initial"): InitialContent.CONTENT_UNDEFINED,
    ("HistoryRegion", "reuse"): ReusePoint.REUSE_ANY_ENDPOINT,
    ("HistoryRegion", "replay_tokens"): 0,
    ("HistoryRegion", "snapshot"): True,
    ("HistoryRegion", "draft_lag_tokens"): 0,
    ("PageTableView", "serves"): (),
    ("PageTableView", "null_page"): 0,
    ("PageTableView", "base"): PageBase.PAGE_BASE_ABSOLUTE,
    ("ValueBinding", "engram_table"): None,
    ("Speculation", "proposals"): ProposalKind.LEARNED,
    ("Speculation", "rejection"): RejectionRule.EXACT_MATCH,
    ("Speculation", "draft_draws_per_position"): 0,
    ("Speculation", "accept_draws_per_position"): 0,
    ("Speculation", "residual_draws_per_position"): 0,
    ("RowField", "snapshot"): True,
    ("ImageTokenLayout", "patches_per_feature"): None,
    ("GraphContract", "tuned_bindings"): (),
    ("GraphContract", "rows_past_endpoint"): 0,
    ("GraphContract", "engram_frame_tokens"): 0,
    ("ModelContract", "engram_tables"): (),
}
"""What a contract that is older than a field means by not having it."""

GATES = [(owner, name, v) for (owner, name), since in NEWER.items() for v in range(1, since)]


def older(contract: ServingContract, version: int) -> Any:
    """The contract's message as an older version would write it."""
    message = message_of(contract)
    if version < 3:
        # A table that the version does not know has no ids to bind.
        for graph in message.model.graphs:
            kept = [value for value in graph.values if not value.HasField("engram_table")]
            del graph.values[:]
            graph.values.extend(kept)
    age(message, version)
    return message


@pytest.mark.clause("SM-12")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", CONTRACTS)
def test_each_version_is_read_and_sound(name: str, version: int) -> None:
    decoded = decode(bytes_of(older(CONTRACTS[name], version)), ServingContract, at="contract")
    assert decoded.model.version == version
    check_contract(decoded)


@pytest.mark.clause("SM-12")
@pytest.mark.parametrize("version", [0, 1, 2, 4])
def test_only_version_three_is_written(version: int) -> None:
    contract = put(CONTRACTS["plain"], {"model.version": version})
    carriers = {
        "": contract,
        "deployments[0].contract.": put(body(), {"deployments[0].contract": contract}),
        "contract.": put(model_index(), {"contract": contract}),
    }
    for at, carrier in carriers.items():
        with refused(f"{at}model.version: found {version}, expected 3 (SM-12)"):
            encode(carrier)


@pytest.mark.clause("SM-12", "SM-20")
@pytest.mark.parametrize("version", [0, 4, 1 << 31])
def test_another_version_is_refused(version: int) -> None:
    message = message_of(CONTRACTS["plain"])
    message.model.version = version
    with refused(f"contract.model.version: found {version}, expected 1 to 3"):
        decode(bytes_of(message), ServingContract, at="contract")


def test_silence_has_a_meaning_for_every_newer_field() -> None:
    assert set(MEANT) == set(NEWER)


@pytest.mark.parametrize(("owner", "name", "version"), GATES)
def test_an_absent_newer_field_means_what_its_version_meant(
    owner: str, name: str, version: int
) -> None:
    seen = []
    for contract in CONTRACTS.values():
        decoded = decode(bytes_of(older(contract, version)), ServingContract, at="contract")
        parts = [part for _, part in walk(decoded, at="") if type(part).__name__ == owner]
        seen += [getattr(part, name) for part in parts]
    assert seen
    assert all(value == MEANT[owner, name] for value in seen)


@pytest.mark.parametrize(("owner", "name", "version"), GATES)
def test_a_newer_field_in_an_older_contract_is_refused(owner: str, name: str, version: int) -> None:
    message, path, part = first_part(owner, version)
    found = say_something(part, name)
    since = NEWER[owner, name]
    with refused(f"{path}.{name}: found {found}, expected nothing before version {since}"):
        decode(bytes_of(message), ServingContract, at="contract")


def test_a_newer_field_is_refused_even_when_it_says_zero() -> None:
    message, path, part = first_part("ValueBinding", 2)
    part.engram_table = 0
    with refused(f"{path}.engram_table: found 0, expected nothing before version 3"):
        decode(bytes_of(message), ServingContract, at="contract")


def first_part(owner: str, version: int) -> tuple[Any, str, Any]:
    """An older contract, and a message of this name in it with its path."""
    for contract in CONTRACTS.values():
        message = older(contract, version)
        for path, part in walk_messages(message, at="contract"):
            if part.DESCRIPTOR.name == owner:
                return message, path, part
    raise AssertionError(owner)


def say_something(part: Any, name: str) -> str:
    """Give a field a value; how an error shows it."""
    field = MESSAGES[part.DESCRIPTOR.name].fields_by_name[name]
    if field.is_repeated and field.message_type is not None:
        getattr(part, name).add()
        return "1 items"
    if field.is_repeated:
        getattr(part, name).append(0)
        return "1 items"
    setattr(part, name, 1)
    return "True" if name == "snapshot" else "1"
