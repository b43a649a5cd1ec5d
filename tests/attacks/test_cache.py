"""Cache contracts whose histories, planes, rows or page tables disagree."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prepared.consistency import check_contract
from prepared.contract import ElementType, HistoryKind, Retention, RowField
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused
from tests.treaty.specimens import CONTRACTS, plane

CACHE = "model.cache"
KV, LATENT, WINDOW, RECURRENT, CONTINUATION = (f"{CACHE}.histories[{index}]" for index in range(5))
FIELD = RowField(name="tail", offset=8, nbytes=24, rows=1, stride=0, snapshot=False)

ATTACKS = [
    attack(
        "two histories have one name",
        {f"{LATENT}.name": "kv"},
        f"contract.{CACHE}.histories: found 'kv', expected each name once",
    ),
    attack(
        "a paged region has no planes",
        {f"{KV}.planes": ()},
        f"contract.{KV}.planes: found none, expected the planes of a paged region",
        clauses=("AH-03", "OB-12"),
    ),
    attack(
        "a paged region has rows",
        {f"{KV}.row_buffer": "rows"},
        f"contract.{KV}.row_buffer: found a name, expected nothing in a paged region",
        clauses=("AH-02",),
    ),
    attack(
        "a paged region has snapshot rows",
        {f"{KV}.snapshot_buffer": "rows"},
        f"contract.{KV}.snapshot_buffer: found a name, expected nothing in a paged region",
        clauses=("AH-02",),
    ),
    attack(
        "a paged region has row fields",
        {f"{KV}.fields": (FIELD,)},
        f"contract.{KV}.fields: found 1, expected none in a paged region",
        clauses=("AH-02",),
    ),
    attack(
        "a record does not divide a page",
        {f"{LATENT}.record_tokens": 5},
        f"contract.{LATENT}.record_tokens: found 5, expected a divisor of page_tokens, 16",
        clauses=("AH-01", "AH-03", "OB-12"),
    ),
    attack(
        "a record is longer than a page",
        {f"{LATENT}.record_tokens": 32},
        f"contract.{LATENT}.record_tokens: found 32, expected a divisor of page_tokens, 16",
        clauses=("AH-01", "AH-03", "OB-12"),
    ),
    attack(
        "a plane counts other records",
        {f"{LATENT}.planes[0].records_per_page": 8},
        f"contract.{LATENT}.planes[0].records_per_page: found 8, expected 4",
        clauses=("AH-01", "AH-03", "OB-12"),
    ),
    attack(
        "a page is too short for its records",
        {f"{KV}.planes[1].page_stride_bytes": 768},
        f"contract.{KV}.planes[1].page_stride_bytes: "
        "found 768, expected at least 1024, a multiple of 256",
        clauses=("AH-03", "OB-12"),
    ),
    attack(
        "the second page is misaligned",
        {f"{KV}.planes[1].page_stride_bytes": 1025},
        f"contract.{KV}.planes[1].page_stride_bytes: "
        "found 1025, expected at least 1024, a multiple of 256",
    ),
    attack(
        "records are retained by chunks",
        {f"{KV}.retention": Retention.RETAIN_CHUNKED, f"{KV}.window_tokens": 16},
        f"contract.{KV}.retention: found RETAIN_CHUNKED, expected a kind that runs",
    ),
    attack(
        "a window has no extent",
        {f"{WINDOW}.window_tokens": None},
        f"contract.{WINDOW}.window_tokens: found None, expected an extent",
        clauses=("AH-04", "OB-12"),
    ),
    attack(
        "a full history has an extent",
        {f"{KV}.window_tokens": 48},
        f"contract.{KV}.window_tokens: found 48, expected nothing with RETAIN_FULL",
    ),
    attack(
        "a sliding window keeps everything",
        {f"{WINDOW}.retention": Retention.RETAIN_FULL, f"{WINDOW}.window_tokens": None},
        f"contract.{WINDOW}.retention: found RETAIN_FULL, expected RETAIN_WINDOW (AH-04)",
        clauses=("AH-04", "OB-12"),
    ),
    attack(
        "a row region has planes",
        {f"{RECURRENT}.planes": (plane("keys"),)},
        f"contract.{RECURRENT}.planes: found 1, expected none in a row region",
        clauses=("AH-02",),
    ),
    attack(
        "a row region has no rows",
        {f"{CONTINUATION}.row_buffer": None, f"{CONTINUATION}.snapshot_buffer": None},
        f"contract.{CONTINUATION}.row_buffer: found nothing, expected a buffer of rows",
        clauses=("OB-12",),
    ),
    attack(
        "a row region has a window",
        {f"{RECURRENT}.window_tokens": 48},
        f"contract.{RECURRENT}.window_tokens: found 48, expected nothing in a row region",
    ),
    attack(
        "two row fields have one name",
        {f"{CONTINUATION}.fields": (FIELD, replace(FIELD, offset=64))},
        f"contract.{CONTINUATION}.fields: found 'tail', expected each name once",
    ),
    attack(
        "rows of a field overlap",
        {f"{RECURRENT}.fields[0].stride": 95},
        f"contract.{RECURRENT}.fields[0].stride: found 95, expected at least 96",
    ),
    attack(
        "a page table holds floats",
        {f"{CACHE}.page_tables[1].element": ElementType.FLOAT32},
        f"contract.{CACHE}.page_tables[1].element: found FLOAT32, expected INT32 or UINT32",
    ),
    attack(
        "a page table serves rows",
        {f"{CACHE}.page_tables[0].serves": (0, 3)},
        f"contract.{CACHE}.page_tables[0].serves[1]: found 3, expected the index of a paged region",
    ),
    attack(
        "a page table serves a region that is not there",
        {f"{CACHE}.page_tables[0].serves": (5,)},
        f"contract.{CACHE}.page_tables[0].serves[0]: found 5, expected the index of a paged region",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), ATTACKS)
def test_a_broken_cache_is_refused(changes: dict[str, object], sentence: str) -> None:
    with refused(sentence):
        check_contract(put(CONTRACTS["hybrid"], changes))


EDGES = [
    attack("rows that touch", {f"{RECURRENT}.fields[0].stride": 96}),
    attack("one row without a stride", {f"{CONTINUATION}.fields[0].stride": 0}),
    attack("rows that only live", {f"{CONTINUATION}.snapshot_buffer": None}),
    attack("rows that are only saved", {f"{CONTINUATION}.row_buffer": None}),
    attack("a page without padding", {f"{KV}.planes[0].page_stride_bytes": 1024}),
    attack(
        "one record a page",
        {f"{LATENT}.record_tokens": 16, f"{LATENT}.planes[0].records_per_page": 1},
    ),
    attack(
        "a window of a paged kind",
        {f"{KV}.retention": Retention.RETAIN_WINDOW, f"{KV}.window_tokens": 1},
    ),
    attack("a table of unsigned entries", {f"{CACHE}.page_tables[1].element": ElementType.UINT32}),
    attack("a table that serves nothing", {f"{CACHE}.page_tables[1].serves": ()}),
]


@pytest.mark.parametrize("changes", EDGES)
def test_the_edge_itself_is_accepted(changes: dict[str, object]) -> None:
    check_contract(put(CONTRACTS["hybrid"], changes))


def test_two_overlapping_rows_are_as_bad_as_three() -> None:
    changes = {f"{RECURRENT}.fields[0].rows": 2, f"{RECURRENT}.fields[0].stride": 95}
    with refused(f"contract.{RECURRENT}.fields[0].stride: found 95, expected at least 96"):
        check_contract(put(CONTRACTS["hybrid"], changes))


@pytest.mark.clause("AH-02", "AH-03", "AH-04", "AH-05")
def test_every_kind_of_history_is_accepted_beside_the_others() -> None:
    kinds = [region.kind for region in CONTRACTS["hybrid"].model.cache.histories]
    assert kinds == list(HistoryKind)
    check_contract(CONTRACTS["hybrid"])


@pytest.mark.clause("AH-06", "AH-07")
def test_a_shifted_view_names_its_destination_and_its_extra_page() -> None:
    plain, shifted = CONTRACTS["speculating"].model.cache.page_tables
    assert (plain.destination, plain.page_offset) == ("page_table", 0)
    assert (shifted.destination, shifted.page_offset) == ("draft_table", 1)
    back = put(CONTRACTS["speculating"], {"model.cache.page_tables[1].page_offset": -1})
    check_contract(back)
